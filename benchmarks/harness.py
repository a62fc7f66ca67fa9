"""The harness that all benchmarks share: cases, interleaved timing, one table, one JSON file.

A benchmark lists :class:`Case` objects and calls :func:`main`, which takes ``--only PATTERN``,
``--json FILE`` and ``--processor-time`` (``clock.py``). The cases of one work are sampled in turns.
Implementations with thread pools run each in a process of its own (``worker.py``). A turn there is
5 ms of untimed calls, then 20 ms of timed calls, and ends when the process' threads sleep, so that
each runs as fast as it does alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks import clock
from schedlang.runtime.evaluate import duration
from schedlang.runtime.timing import SHORTEST, median_and_spread

ROUNDS = 5
# the least seconds to spend on a case
LEAST = 0.3
# a case that has taken more seconds than this stops after three samples
ENOUGH = 2.0
PACKAGES = (
    "numpy", "numba", "llvmlite", "numba-cuda", "torch", "torchvision", "triton", "halide",
    "onnxruntime", "openvino", "apache-tvm",
)  # fmt: skip


class Unavailable(Exception):
    """The reason why a case cannot run; ``prepare`` or a call raises it."""


@dataclass(frozen=True)
class Case:
    """One implementation of one piece of work.

    ``prepare`` runs once, untimed, and returns the call to time, which does the work once. A call
    that returns a float has timed itself: the float is its seconds. With ``whole``, each such call
    is one sample and needs no warm-up. ``check`` runs after the timing and returns whether the
    result is right. ``flops`` and ``bytes`` count those of one call. A call should take at most
    ``limit`` seconds. ``missing`` says why the case cannot run here. ``facts`` go into the row's
    JSON.
    """

    work: str
    implementation: str
    prepare: Callable[[], Callable[[], object]]
    check: Callable[[], bool] | None = None
    flops: float | None = None
    bytes: float | None = None
    limit: float | None = None
    missing: str = ""
    whole: bool = False
    facts: dict[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Row:
    """A measurement: the median time of a call, its relative interquartile range, the verdict.

    ``least`` is the time of the fastest sample, for a machine where other programs ran too.
    """

    case: Case
    seconds: float
    spread: float
    correct: bool
    least: float | None = None

    def data(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            "work": self.case.work, "implementation": self.case.implementation,
            "seconds": self.seconds, "spread": self.spread, "correct": self.correct,
        }  # fmt: skip
        if self.least is not None:
            made["least_seconds"] = self.least
        if self.case.flops is not None:
            made["gflops"] = self.case.flops / self.seconds * 1e-9
        if self.case.bytes is not None:
            made["gbps"] = self.case.bytes / self.seconds * 1e-9
        if self.case.limit is not None:
            made["limit"] = self.case.limit
        return made | self.case.facts


@dataclass(frozen=True)
class Column:
    """An extra column of the table: its title, and a function of a row and the rows of its work."""

    title: str
    text: Callable[[Row, Sequence[Row]], str]


def speeds_beside(rows: Sequence[Row], base: str) -> dict[str, dict[str, float]]:
    """Return, for each work, the time of the implementation ``base`` over that of each correct row.

    A work without a correct row of ``base`` is left out.
    """
    found: dict[str, dict[str, float]] = {}
    for work, members in groupby(rows, lambda r: r.case.work):
        seconds = {r.case.implementation: r.seconds for r in members if r.correct}
        if base in seconds:
            found[work] = {name: seconds[base] / value for name, value in seconds.items()}
    return found


def main(
    title: str,
    cases: Iterable[Case] | Callable[[argparse.Namespace], Iterable[Case]],
    columns: Sequence[Column] = (),
    ceilings: Callable[[], dict[str, float]] | None = None,
    arguments: Sequence[str] | None = None,
    summary: Callable[[Sequence[Row]], str] | None = None,
    plot: Callable[[Sequence[Row], Path], None] | None = None,
    rounds: int = ROUNDS,
    about: Mapping[str, str] | None = None,
    own: argparse.ArgumentParser | None = None,
) -> int:
    """Measure the chosen cases, print the table row by row, write the JSON, return the exit status.

    The status is 1 if a result is wrong. The table marks a row over its ``limit``. A run that
    ``--minutes`` ends early goes on with ``--resume`` from the rows in the JSON. ``summary``
    returns the last lines. ``plot`` adds the option ``--plot FILE``. ``about`` holds further facts
    about the machine. ``own`` has further options, without a help of its own; a function ``cases``
    takes them all, and raises ``ValueError`` for what is wrong.
    """
    parser = argparse.ArgumentParser(
        prog=own.prog if own else None, description=title, parents=[own] if own else []
    )
    parser.add_argument("--only", metavar="PATTERN", default="", help="a regular expression on "
                        "'work implementation'")  # fmt: skip
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the rows there")
    parser.add_argument("--rounds", type=int, default=rounds, help="the fewest samples")
    parser.add_argument("--minutes", type=float, help="begin no other work after that many")
    parser.add_argument("--resume", action="store_true", help="keep the rows in the file of --json "
                        "and measure the other works")  # fmt: skip
    parser.add_argument("--processor-time", action="store_true", help="time one thread by its "
                        "processor time, on a machine where other programs run")  # fmt: skip
    if plot is not None:
        parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the rows there")
    options = parser.parse_args(arguments)
    if options.resume and options.json is None:
        parser.error("--resume: say with --json FILE where the rows are")
    if options.processor_time:
        clock.take_processor_time()
        about = {**(about or {}), "clock": "processor time of one thread"}
    if callable(cases):
        try:
            cases = cases(options)
        except ValueError as error:
            parser.error(str(error))
    pattern = re.compile(options.only, re.IGNORECASE)
    chosen = [c for c in cases if pattern.search(f"{c.work} {c.implementation}")]
    if not chosen:
        print(f"no case matches {options.only!r}", file=sys.stderr)
        return 2
    limits = ceilings() if ceilings is not None else {}
    print(title)
    here = machine() | dict(about or {})
    print(", ".join(f"{k} {v}" for k, v in here.items()))
    if limits:
        print("ceilings: " + ", ".join(f"{k} {v:.4g}" for k, v in limits.items()))
    kept = _kept(options.json, here) if options.resume else {}
    rows: list[Row] = []
    missing: list[dict[str, Any]] = []
    table = _Table(chosen, columns)
    print(table.head())
    began, left = perf_counter(), 0
    for work, members in groupby(chosen, lambda c: c.work):
        group = list(members)
        measured = [kept[key] for c in group if (key := (work, c.implementation)) in kept]
        if len(measured) < len(group):
            if options.minutes is not None and perf_counter() - began > options.minutes * 60:
                left += 1
                continue
            measured = list(measure(group, options.rounds))
        for item in measured:
            print(table.line(item, [r for r in measured if isinstance(r, Row)]), flush=True)
        rows += [r for r in measured if isinstance(r, Row)]
        missing += [
            {"work": work, "implementation": c.implementation, "missing": c.missing}
            for c in measured
            if isinstance(c, Case)
        ]
        if options.json is not None:
            write_json(options.json, [r.data() for r in rows], limits, here, missing)
    if left:
        print(f"works left: {left}; go on with --resume")
    if plot is not None and options.plot is not None:
        plot(rows, options.plot)
    if summary is not None:
        print(summary(rows))
    return 0 if all(r.correct for r in rows) else 1


def _kept(path: Path, here: Mapping[str, Any]) -> dict[tuple[str, str], Row | Case]:
    """Return the rows of an earlier run on this machine, and its cases that could not run.

    Their keys are the work and the implementation. A run without a file kept nothing.
    """
    if not path.exists():
        return {}
    data = json.loads(path.read_text(encoding="utf-8"))
    if data["machine"] != json.loads(json.dumps(here)):
        raise SystemExit(f"--resume: {path} is from another machine or from other versions")
    kept: dict[tuple[str, str], Row | Case] = {}
    for entry in (*data["rows"], *data.get("missing", ())):
        case = Case(entry["work"], entry["implementation"], _not_again)
        if "missing" in entry:
            kept[case.work, case.implementation] = replace(case, missing=entry["missing"])
        else:
            kept[case.work, case.implementation] = _row_of(case, entry)
    return kept


def _row_of(case: Case, entry: Mapping[str, Any]) -> Row:
    """Return the row that :meth:`Row.data` returned an entry for."""
    facts = dict(entry)
    seconds, spread, right = (facts.pop(name) for name in ("seconds", "spread", "correct"))
    least, gflops, gbps = (facts.pop(name, None) for name in ("least_seconds", "gflops", "gbps"))
    own = replace(
        case,
        flops=None if gflops is None else gflops * seconds * 1e9,
        bytes=None if gbps is None else gbps * seconds * 1e9,
        limit=facts.pop("limit", None),
        facts={k: v for k, v in facts.items() if k not in ("work", "implementation")},
    )
    return Row(own, seconds, spread, right, least)


def _not_again() -> Callable[[], object]:
    raise Unavailable("an earlier run measured it")


def write_json(
    path: Path,
    rows: Sequence[dict[str, Any]],
    ceilings: dict[str, float],
    here: dict[str, Any],
    missing: Sequence[dict[str, Any]] = (),
) -> None:
    """Write the record of a run: the machine, its ceilings, the rows (see :meth:`Row.data`).

    ``missing`` says which implementations could not run, and why.
    """
    data = {"machine": here, "ceilings": ceilings, "rows": rows}
    if missing:
        data["missing"] = missing
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def measure(cases: Sequence[Case], rounds: int = ROUNDS) -> Iterable[Row | Case]:
    """Time the cases of one work in turns, so that all see the same machine.

    Yield a row for each case, or the case itself where it cannot run.
    """
    absent = {c: c for c in cases if c.missing}
    calls: dict[Case, Callable[[], object]] = {}
    batches: dict[Case, int] = {}
    for case in cases:
        if case in absent:
            continue
        try:
            calls[case] = case.prepare()
            batches[case] = 1 if case.whole else _batch(calls[case])
        except Unavailable as reason:
            absent[case] = replace(case, missing=str(reason))
    found: dict[Case, list[float]] = {c: [] for c in calls if c not in absent}
    spent = dict.fromkeys(found, 0.0)
    start = perf_counter()
    done = 0
    while done < rounds or perf_counter() - start < _least(found):
        for case, samples in found.items():
            if case in absent or (case.whole and done >= 3 and spent[case] > ENOUGH):
                continue
            began = perf_counter()
            try:
                samples.append(sample(calls[case], batches[case]))
            except Unavailable as reason:
                absent[case] = replace(case, missing=str(reason))
            spent[case] += perf_counter() - began
        done += 1
    for case in cases:
        try:
            right = case in absent or case.check is None or case.check()
        except Unavailable as reason:
            absent[case] = replace(case, missing=str(reason))
        if case in absent:
            yield absent[case]
            continue
        seconds, spread = median_and_spread(found[case])
        yield Row(case, seconds, spread, right, min(found[case]))


def _least(cases: Iterable[Case]) -> float:
    """Return the least seconds to spend on ``cases``; whole samples take long enough anyway."""
    return LEAST * sum(not c.whole for c in cases)


def _batch(call: Callable[[], object]) -> int:
    """Return how many calls make one sample. The first call warms up."""
    call()
    seconds, count = sample(call, 1), 1
    while seconds * count < SHORTEST:
        count = max(2 * count, int(SHORTEST / max(seconds, 1e-9)))
        seconds = sample(call, count)
    return count


def sample(call: Callable[[], object], count: int) -> float:
    """Return the mean seconds of ``count`` calls."""
    own = 0.0
    start = clock.now()
    for _ in range(count):
        result = call()
        if isinstance(result, float):
            own += result
    return (own or clock.now() - start) / count


def machine() -> dict[str, Any]:
    """Return the processor, its cores, and the versions of the packages that are timed."""
    found: dict[str, Any] = {
        "processor": _processor(),
        "cores": _cores(),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


class _Table:
    """The printed table, whose columns are wide enough for all cases."""

    def __init__(self, cases: Sequence[Case], columns: Sequence[Column]) -> None:
        self.columns = columns
        self.work = max(len("work"), *(len(c.work) for c in cases))
        self.who = max(len("implementation"), *(len(c.implementation) for c in cases))
        self.rates = any(c.flops for c in cases), any(c.bytes for c in cases)
        self.limits = any(c.limit is not None for c in cases)

    def head(self) -> str:
        parts = [f"{'work':<{self.work}}", f"{'implementation':<{self.who}}"]
        parts += [f"{'time':>9}", "spread"]
        parts += [t for t, wanted in zip(("GFLOP/s", "   GB/s"), self.rates) if wanted]
        parts += ["    limit"] if self.limits else []
        parts += [f"{c.title:>8}" for c in self.columns]
        line = "  ".join(parts)
        return f"{line}\n{'-' * len(line)}"

    def line(self, item: Row | Case, group: Sequence[Row]) -> str:
        case = item if isinstance(item, Case) else item.case
        start = f"{case.work:<{self.work}}  {case.implementation:<{self.who}}"
        if isinstance(item, Case):
            return f"{start}  missing: {case.missing}"
        parts = [start, f"{duration(item.seconds):>9}", f"{item.spread:6.1%}"]
        for count, wanted in zip((case.flops, case.bytes), self.rates):
            if wanted:
                parts.append(" " * 7 if count is None else f"{count / item.seconds * 1e-9:7.4g}")
        if self.limits:
            parts.append(f"{duration(case.limit) if case.limit else '':>9}")
        parts += [f"{c.text(item, group):>8}" for c in self.columns]
        over = case.limit is not None and item.seconds > case.limit
        verdict = "" if item.correct else "  WRONG"
        return "  ".join(parts) + ("  over its limit" if over else "") + verdict


__all__ = [
    "Case", "Column", "Row", "Unavailable", "machine", "main", "measure", "speeds_beside",
    "write_json",
]  # fmt: skip
