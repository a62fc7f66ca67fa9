"""Keep the fastest trial of each computation in tuning databases, as a package ships them.

    python -m benchmarks.records DATABASE [DATABASE ...] --out FILE

For each computation, sizes, target and machine, the file has the line of the fastest schedule that
worked, of whatever versions, in the order of their names. Loops without a schedule say nothing of
others: if they are the fastest, the fastest schedule comes behind them, and without one there is no
line. An existing file is replaced.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from schedlang.autotune.database import Database, Entry
from schedlang.autotune.record import UNTUNED, Where
from schedlang.autotune.records.entry import to_line


def fastest(databases: Sequence[Database]) -> list[Entry]:
    """Return the fastest entry for each computation, its sizes, a target and a machine."""
    timed: dict[Where, list[Entry]] = {}
    for database in databases:
        for where in dict.fromkeys(entry.where for entry in database.entries()):
            ranked = [entry for entry in database.ranked(where) if not entry.differs]
            timed.setdefault(replace(where, versions=()), []).extend(ranked)
    found = [entry for entries in timed.values() for entry in _kept(entries)]
    return sorted(found, key=lambda e: (e.where.target, e.name, e.where.extents))


def _kept(entries: Sequence[Entry]) -> list[Entry]:
    """Return the fastest entry; behind loops without a schedule, the fastest of one as well."""
    scheduled = [entry for entry in entries if entry.trial.strategy != UNTUNED]
    if not scheduled:
        return []
    best, tuned = min(entries, key=seconds), min(scheduled, key=seconds)
    return [best] if best is tuned else [best, tuned]


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
