"""Compare ``sl.autoschedule`` with tuned schedules and with loops that nobody scheduled.

    python -m benchmarks.autoschedule [--part families|table|stages] [--only PATTERN] [--json FILE]

* ``families``: the 52 works of the operator families. ``tuned`` is what a search found, from the
  databases that come with schedlang. ``autoschedule`` has the cost model alone, and
  ``near size`` the schedule of another work of the family, with its knobs made legal.
* ``table``: the works of ``benchmarks/cpu.py``, beside their schedules by hand.
* ``stages``: the seconds that ``sl.autoschedule`` takes for chains of 10 to 100 stages.

Kernels are timed in turns, as in ``benchmarks/cpu.py``. ``of tuned`` is the time of the tuned
kernel (or of the one by hand) over the row's own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import schedlang as sl
from benchmarks import schedules, works
from benchmarks.cpu import Run
from benchmarks.harness import Case, Column, Row, Unavailable, main
from benchmarks.peers.tuned import steps_file, tensors_of
from benchmarks.works import Work
from benchmarks.works.families import FAMILIES
from schedlang.autoschedule import choose
from schedlang.autotune.best import packaged
from schedlang.autotune.database import Database

AUTO, TUNED, NEAR, PLAIN = "autoschedule", "tuned", "near size", "unscheduled"
# the least speed of the tuned schedule, and of how many works
GOAL, SHARE = 0.5, 0.8
# a work with more operations takes seconds without a schedule
MOST_FLOPS = 3e9
CHAINS = (10, 20, 50, 100)


def case(run: Run, work: Work, label: str, made: Callable[[dict[str, Any]], sl.Schedule]) -> Case:
    """Return a case that makes a schedule, then times it; ``made`` adds facts to the row."""
    timed = run.case(work, "tuned", label, "")

    def prepare() -> Callable[[], object]:
        folder = run.scratch / "kernels"
        folder.mkdir(exist_ok=True)
        steps_file(folder, work, label).write_text(made(timed.facts).to_json(), encoding="utf-8")
        return timed.prepare()

    return replace(timed, prepare=prepare)


def outputs_of(work: Work) -> list[sl.Tensor]:
    return list(tensors_of(work)[len(work.inputs) :])


def by_model(work: Work, facts: dict[str, Any]) -> sl.Schedule:
    """Return the schedule of the cost model, with the seconds that it took."""
    outputs = outputs_of(work)
    start = perf_counter()
    # an empty database: the model decides
    with TemporaryDirectory() as folder:
        found = choose(outputs, "cpu", database=Path(folder) / "none.jsonl")
    facts["planning_seconds"] = perf_counter() - start
    facts["origin"] = found.origin
    return found.schedule


def by_near_size(work: Work, _: dict[str, Any]) -> sl.Schedule:
    """Return the schedule that a database without this very work gives."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "others.jsonl"
        name = f'"name":"{work.name}"'
        lines = [
            line for source in packaged() for line in source.path.read_text().splitlines()
            if name not in line
        ]  # fmt: skip
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        found = choose(outputs_of(work), "cpu", database=Database(path))
    if found.origin != "near size":
        raise Unavailable("no work of a near size was tuned")
    return found.schedule


def by_search(work: Work, _: dict[str, Any]) -> sl.Schedule:
    return sl.best(outputs_of(work), "cpu").schedule


def unscheduled(work: Work, _: dict[str, Any]) -> sl.Schedule:
    return sl.schedule(outputs_of(work))


def cases(run: Run, part: str) -> Iterator[Case]:
    for work in FAMILIES if part == "families" else works.TABLE.values():
        if part == "families":
            yield case(run, work, TUNED, partial(by_search, work))
            yield case(run, work, NEAR, partial(by_near_size, work))
        elif schedules.MAIN in schedules.of(work):
            yield run.case(work, "schedlang_kernels", schedules.MAIN, "")
        yield case(run, work, AUTO, partial(by_model, work))
        plain = case(run, work, PLAIN, partial(unscheduled, work))
        slow = (work.flops or 0) > MOST_FLOPS
        yield replace(plain, missing="it would take seconds") if slow else plain


def ratio(row: Row, group: Sequence[Row], names: Sequence[str]) -> float | None:
    """Return the time of the first correct row with one of these names, over the row's own."""
    known = [r.seconds for r in group if r.correct and r.case.implementation in names]
    return known[0] / row.seconds if known else None


def summary(rows: Sequence[Row]) -> str:
    """Return the lines that compare ``autoschedule`` with the goals."""
    lines = []
    groups = [list(members) for _, members in groupby(rows, lambda r: r.case.work)]
    for label, names in ((AUTO, (TUNED, schedules.MAIN)), (NEAR, (TUNED,)), (AUTO, (PLAIN,))):
        found = [
            (row, value) for group in groups for row in group
            if row.case.implementation == label
            and (value := ratio(row, group, names)) is not None
        ]  # fmt: skip
        if not found:
            continue
        mean = exp(sum(log(value) for _, value in found) / len(found))
        goal = 1.0 if names == (PLAIN,) else GOAL
        short = [f"{row.case.work} ({value:.2f})" for row, value in found if value < goal]
        lines.append(
            f"{label}: {mean:.2f} of the speed of {names[0]} (geometric mean of {len(found)} "
            f"works); {1 - len(short) / len(found):.0%} have {goal:g} or more; below: "
            f"{', '.join(short) or 'none'}"
        )
    planned = [r.case.facts["planning_seconds"] for r in rows if "planning_seconds" in r.case.facts]
    if planned:
        lines.append(f"planning: {sum(planned) / len(planned):.2f} s on average, "
                     f"{max(planned):.2f} s at most")  # fmt: skip
    return "\n".join(lines)


def chain(count: int) -> sl.Tensor:
    """Return a chain of products of 256 by 256 matrices, each with a relu: ``count`` stages."""
    X = sl.placeholder((256, 256), name="X")

    def layer(given: sl.Tensor, at: int) -> sl.Tensor:
        k = sl.reduce_axis(256, name=f"k{at}")
        T = sl.compute(
            (256, 256), lambda i, j: sl.sum(given[i, k] * X[k, j], axis=k), name=f"T{at}"
        )
        return sl.compute((256, 256), lambda i, j: sl.max(T[i, j], 0), name=f"R{at}")

    found = X
    for at in range(count // 2):
        found = layer(found, at)
    return found


def stages() -> None:
    """Print the seconds that chains take, the least of three."""
    # load what the first call loads
    choose(chain(2), "cpu", database=Path("none.jsonl"))
    for count in CHAINS:
        taken = []
        for _ in range(3):
            output, start = chain(count), perf_counter()
            choose(output, "cpu", database=Path("none.jsonl"))
            taken.append(perf_counter() - start)
        print(f"{count:4} stages: {min(taken):.2f} s")


def run_all() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.autoschedule", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)  # fmt: skip
    parser.add_argument("--part", choices=("families", "table", "stages"), default="families")
    options, rest = parser.parse_known_args()
    if options.part == "stages":
        stages()
        return 0
    with TemporaryDirectory() as scratch:
        run = Run(Path(scratch))

        def of_tuned(row: Row, group: Sequence[Row]) -> str:
            value = ratio(row, group, (TUNED, schedules.MAIN))
            return "" if value is None else f"{value:.2f}"

        def planning(row: Row, _: Sequence[Row]) -> str:
            seconds = row.case.facts.get("planning_seconds")
            return "" if seconds is None else f"{seconds:.2f} s"

        columns = [Column("of tuned", of_tuned), Column("planning", planning)]
        try:
            return main(
                "schedules at once, float32, two threads", cases(run, options.part), columns,
                arguments=rest, summary=summary,
            )  # fmt: skip
        finally:
            run.close()


if __name__ == "__main__":
    sys.exit(run_all())
