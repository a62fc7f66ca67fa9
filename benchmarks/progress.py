"""How fast each strategy of ``autotune`` gets there, and how many candidates a second it tries.

Rows are the best time after so many trials, the median over seeds, with the distance from the
least to the most as spread; and the seconds a candidate takes, of MetaSchedule too, which searches
for the same product on the same machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import works
from benchmarks.harness import machine, write_json
from benchmarks.peers import metaschedule
from benchmarks.works import Work
from schedlang.autotune import TuningResult

SIDE = 512
WORKS = (f"sgemm {SIDE}^3", "conv C6 28^2x128>128 3x3/1")
SEARCHES = ("random", "evolve")
AFTER = (10, 30, 100)
SEEDS = 5
# candidates that MetaSchedule tries
TRIED = 64

RowData = dict[str, Any]
Search = Callable[[Work, int, int, str], TuningResult]


def progress(
    search: Search, only: str, trials: int | None, seeds: int | None, json: Path | None
) -> None:
    """Print the rows as they come; ``only`` is a regular expression on works."""
    rows: list[RowData] = []
    print(f"{'work':<28}  {'search':<26}  median (least to most) over seeds")
    for name in WORKS:
        if re.search(only, name, re.IGNORECASE):
            for row in _rows(works.ALL[name], search, trials or max(AFTER), seeds or SEEDS):
                rows.append(row)
                if json is not None:
                    write_json(json, rows, {}, machine())


def _rows(work: Work, search: Search, trials: int, seeds: int) -> Iterator[RowData]:
    for strategy in SEARCHES:
        results = [search(work, seed, trials, strategy) for seed in range(seeds)]
        for count in AFTER:
            best = [b for r in results if (b := best_after(r, count)) is not None]
            if best and count <= trials:
                yield _row(work, f"{strategy}, {count} trials", best, "ms", 1e3)
        spent = [r.facts.spent / len(r.trials) for r in results]
        yield _row(work, f"{strategy}, a candidate", spent, "s", 1)
    if work.name == f"sgemm {SIDE}^3":
        absent = metaschedule.missing()
        if absent:
            print(f"{work.name:<28}  MetaSchedule: {absent}")
        else:
            spent = [metaschedule.search(SIDE, TRIED) / TRIED]
            yield _row(work, "MetaSchedule, a candidate", spent, "s", 1)


def _row(work: Work, what: str, seconds: Sequence[float], unit: str, scale: float) -> RowData:
    middle, least, most = median(seconds), min(seconds), max(seconds)
    print(f"{work.name:<28}  {what:<26}  {middle * scale:.3f} {unit} "
          f"({least * scale:.3f} to {most * scale:.3f})", flush=True)  # fmt: skip
    return {"work": work.name, "implementation": what, "seconds": middle,
            "spread": (most - least) / middle, "correct": True, "seeds": len(seconds)}  # fmt: skip


def best_after(result: TuningResult, count: int) -> float | None:
    """The best time among the first ``count`` trials, if one was timed."""
    return min((t.seconds for t in result.trials[:count] if t.seconds is not None), default=None)
