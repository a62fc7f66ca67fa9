"""Keep the fastest trial of each computation in tuning databases, as a package ships them.

    python -m benchmarks.records DATABASE [DATABASE ...] --out FILE

For each computation, sizes, target and machine, the file has the line of the fastest schedule that
worked, of whatever versions, in the order of their names. An existing file is replaced.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from schedlang.autotune.database import Database, Entry
from schedlang.autotune.record import Where
from schedlang.autotune.records.entry import to_line


def fastest(databases: Sequence[Database]) -> list[Entry]:
    """Return the fastest entry for each computation, its sizes, a target and a machine."""
    found: dict[Where, Entry] = {}
    for database in databases:
        for where in dict.fromkeys(entry.where for entry in database.entries()):
            best = database.best(where)
            place = replace(where, versions=())
            known = found.get(place)
            if best is not None and (known is None or seconds(best) < seconds(known)):
                found[place] = best
    return sorted(found.values(), key=lambda e: (e.where.target, e.name, e.where.extents))


def seconds(entry: Entry) -> float:
    assert entry.seconds is not None
    return entry.seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.records")
    parser.add_argument("databases", nargs="+", type=Path, metavar="DATABASE")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    given = parser.parse_args(arguments)
    databases = [Database(path) for path in given.databases]
    missing = [str(database.path) for database in databases if not database.exists()]
    if missing:
        parser.error(f"there is no file {', '.join(missing)}")
    kept = fastest(databases)
    if not kept:
        parser.error("no trial has a time; tune first")
    given.out.write_bytes(b"".join(map(to_line, kept)))
    print(f"{len(kept)} records, {given.out.stat().st_size} bytes: {given.out}")


if __name__ == "__main__":
    main()
