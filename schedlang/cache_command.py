"""``python -m schedlang cache``: what the cache folder holds, and how to empty it."""

from __future__ import annotations

import argparse
import time
from typing import Any

from schedlang.errors import BuildError

DAY = 24 * 3600
WHAT = {
    "kernels": "kernels: source and compiled code",
    "machine_code": "machine code of GPU kernels",
    "networks": "networks: modules, starts, packed weights",
}


def add_cache(commands: Any) -> None:
    """Add the parser of ``cache``."""
    parser = commands.add_parser(
        "cache",
        help="show what the cache folder holds, list it, or clear it",
        description="Print the size of each part of the cache folder and its limit. What is "
        "cleared is made again when it is needed. Tuning records stay.",
    )
    parser.add_argument(
        "--list", type=int, nargs="?", const=20, default=0, metavar="N",
        help="list the N kernels and networks that were used last (20)",
    )  # fmt: skip
    parser.add_argument("--clear", action="store_true", help="remove them")
    parser.add_argument(
        "--unused", type=float, default=0.0, metavar="DAYS",
        help="list or clear only what was not used for so many days",
    )  # fmt: skip
    parser.set_defaults(run=run_cache)


def run_cache(chosen: argparse.Namespace) -> int:
    """Print what stands in the cache folder, or clear it, and return the exit status."""
    from schedlang.runtime.cache_files import FOLDERS, cache_folder
    from schedlang.runtime.cache_room import by_last_use, entries, limit, remove
    from schedlang.runtime.tuning_files import own_file

    if chosen.list < 0 or not chosen.unused >= 0:
        raise BuildError("--list N and --unused DAYS are 0 or more")
    folder, now = cache_folder(), time.time()
    everything = by_last_use(entries(folder, FOLDERS))
    selected = [entry for entry in everything if now - entry.used >= chosen.unused * DAY]
    if chosen.clear:
        for entry in selected:
            remove(entry)
        remaining = {entry.paths for entry in entries(folder, FOLDERS)}
        removed = [entry for entry in selected if entry.paths not in remaining]
        print(f"removed {_number(removed)} from {folder}")
        for entry in selected:
            if entry.paths in remaining:
                print(f"this could not be removed: {entry.paths[0]}")
        return int(len(removed) < len(selected))
    most_bytes = limit()
    print(folder)
    for part in FOLDERS:
        print(f"  {_number([e for e in everything if e.folder == part]):24}  {WHAT[part]}")
    if own_file().exists():
        print(f"  {_size(own_file().stat().st_size):>10} {'':13}  tuning records, which stay")
    most = "no limit" if most_bytes is None else f"the limit is {_size(most_bytes)}"
    print(f"  {_number(everything):24}  in all; {most} (SCHEDLANG_CACHE_LIMIT)")
    for entry in selected[: chosen.list]:
        days = (now - entry.used) / DAY
        print(f"{_size(entry.bytes):>10}  used {days:6.1f} days ago  {entry.folder}/{entry.name}")
    return 0


def _number(listed: list[Any]) -> str:
    return f"{_size(sum(entry.bytes for entry in listed)):>10} in {len(listed):6,}"


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"
