"""Measure the progress of each strategy of ``autotune``, and the seconds that a candidate takes.

A row is the best time after a number of trials, as the search measured it, or the seconds of a
search divided by its trials. It gives the median, the least and the most over the seeds. A search
may stop before its last trial; the row counts the searches that did. MetaSchedule searches for the
same product on the same machine, with as many trials and seeds. Its best time is its own
measurement, a mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from subprocess import CalledProcessError
from typing import Any

from benchmarks import works
from benchmarks.harness import machine, write_json
from benchmarks.peers import metaschedule
from benchmarks.works import Work
from schedlang.autotune import TuningResult
from schedlang.autotune.race_times import seconds_before_race
from schedlang.autotune.record import UNTUNED
from schedlang.errors import TuningError, first_line

SIDE = 512
WORKS = (f"sgemm {SIDE}^3", "conv C6 28^2x128>128 3x3/1")
SEARCHES = ("random", "evolve")
AFTER = (10, 30, 100)
SEEDS = 5

RowData = dict[str, Any]
Search = Callable[[Work, int, int, str], TuningResult]


def progress(
    search: Search, only: str, trials: int | None, seeds: int | None, json: Path | None
) -> None:
    """Print each row as it is measured. ``only`` is a regular expression on works."""
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
        found = []
        for seed in range(seeds):
            try:
                found.append(searched(search(work, seed, trials, strategy)))
            except TuningError as error:
                print(f"{work.name:<28}  {strategy}, seed {seed}: {first_line(error)}", flush=True)
        if not found:
            continue
        for count in AFTER:
            timed = [times for times, _ in found if best_after(times, count) is not None]
            best = [b for times in timed if (b := best_after(times, count)) is not None]
            short = sum(len(times) < count for times in timed)
            if best and count <= trials:
                yield _row(work, f"{strategy}, {count} trials", best, "ms", short)
        spent = [seconds / len(times) for times, seconds in found]
        short = sum(len(times) < trials for times, _ in found)
        yield _row(work, f"{strategy}, a candidate", spent, "s", short)
    if work.name == f"sgemm {SIDE}^3":
        absent = metaschedule.missing()
        if absent:
            print(f"{work.name:<28}  MetaSchedule: {absent}")
        else:
            yield from _others(work, trials, seeds)


def _others(work: Work, trials: int, seeds: int) -> Iterator[RowData]:
    """Yield the rows of MetaSchedule."""
    found = []
    for seed in range(seeds):
        try:
            found.append(metaschedule.search(SIDE, trials, seed))
        except CalledProcessError as error:
            said = (error.stderr or "").strip().splitlines() or [str(error)]
            print(f"{work.name:<28}  MetaSchedule, seed {seed}: {said[-1]}", flush=True)
    if failed := sum(one.failed for one in found):
        tried = sum(one.tried for one in found)
        print(f"{work.name:<28}  MetaSchedule: {failed} of {tried} candidates failed")
    for what, unit, values in (
        (f"MetaSchedule, {trials} trials", "ms", [(one, one.best) for one in found]),
        ("MetaSchedule, a candidate", "s",
         [(one, one.seconds / one.tried) for one in found if one.tried]),
    ):  # fmt: skip
        known = [(one, value) for one, value in values if value is not None]
        if known:
            short = sum(one.tried < trials for one, _ in known)
            yield _row(work, what, [value for _, value in known], unit, short)


def _row(work: Work, what: str, seconds: Sequence[float], unit: str, short: int) -> RowData:
    """Print a row and return it. ``short`` counts the searches with fewer trials than it names."""
    middle, least, most = median(seconds), min(seconds), max(seconds)
    scale = {"ms": 1e3, "s": 1.0}[unit]
    note = f"  {short} of them stopped earlier" if short else ""
    print(f"{work.name:<28}  {what:<26}  {middle * scale:.3f} {unit} ({least * scale:.3f} to "
          f"{most * scale:.3f}, {len(seconds)} seeds){note}", flush=True)  # fmt: skip
    return {"work": work.name, "implementation": what, "seconds": middle, "least": least,
            "most": most, "seeds": len(seconds), "stopped_earlier": short}  # fmt: skip


def searched(result: TuningResult) -> tuple[list[float | None], float]:
    """Return the time of each trial, without the untuned schedule, and the search's seconds."""
    trials = [t for t in result.trials if t.strategy != UNTUNED]
    return [seconds_before_race(t) for t in trials], result.facts.spent


def best_after(times: Sequence[float | None], count: int) -> float | None:
    """Return the best time of the first ``count`` trials; ``None`` if none of them was timed."""
    return min((t for t in times[:count] if t is not None), default=None)
