"""Compare CPU kernels with libraries: time all in turns, check every result, print one table.

    python -m benchmarks.cpu [--part table|dot-products] [--only PATTERN] [--json FILE]
                             [--plot FILE]

* ``table``, the default: everything is float32, warm, on two threads.
* ``dot-products``: the products and convolutions of bytes and of bfloat16 in
  ``dot_products.py``, in one process, beside PyTorch and ONNX Runtime (oneDNN and MLAS).

The columns of a row of the table are:

* ``of best``: the best peer's time over the row's own;
* ``ceiling``: the fraction that it reaches of this run's multiply-add rate or copy bandwidth,
  whichever bounds the work;
* ``in C``: the time of the same schedule for ``target="c"``, over the row's own;
* ``compile``: the time from a schedule to machine code.

Works are in ``works/``, peers in ``peers/``, schedlang's schedules in ``schedules/``. A cache
(``cache.py``) keeps what peers compile. The first run fills it, and takes an hour.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from math import exp, log
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import schedules, works
from benchmarks.harness import Case, Column, Row, main
from benchmarks.peers import PEERS
from benchmarks.peers.ceiling import CEILING
from benchmarks.worker import Worker
from benchmarks.works import Work
from schedlang.runtime.timing import quantile

ROUNDS = 7
RATIO, FRACTION = 0.97, 0.9


class Run:
    """The workers of one run, the expected results that they share, and the ceilings."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.workers: dict[str, Worker] = {}
        self.limits: dict[str, float] = {}
        self.expected: tuple[str, list[str]] = ("", [])

    def worker(self, module: str, implementation: str) -> Worker:
        if implementation not in self.workers:
            # An empty folder, so that schedlang's compile times are those of a first build.
            extra = {"SCHEDLANG_CACHE": str(self.scratch / "kernels")}
            self.workers[implementation] = Worker(module, implementation, extra)
        return self.workers[implementation]

    def case(self, work: Work, module: str, implementation: str, missing: str) -> Case:
        facts: dict[str, Any] = {}

        def prepare() -> Callable[[], float]:
            worker = self.worker(module, implementation)
            facts.update(worker.ask(do="prepare", work=work.name)["facts"])
            return worker.sample

        def check() -> bool:
            worker = self.worker(module, implementation)
            wrong = worker.ask(do="check", expected=self.oracle(work))["wrong"]
            if wrong:
                facts["wrong"] = wrong
                print(f"{work.name}, {implementation}: {wrong}", file=sys.stderr)
            return not wrong

        return Case(
            work.name, implementation, prepare, check, work.flops, _bytes(work), missing=missing,
            whole=True, facts=facts,
        )  # fmt: skip

    def ceiling(self, work: Work) -> Case:
        """Return a case that measures the least time that the ceiling allows."""

        def prepare() -> Callable[[], float]:
            worker = self.worker("ceiling", CEILING)
            part = worker.ask(do="prepare", work=work.name)["facts"]["part"]
            return lambda: worker.sample() * part

        flops = work.flops if work.bound == "fma" else None
        return Case(work.name, CEILING, prepare, None, flops, _bytes(work), whole=True)

    def oracle(self, work: Work) -> list[str]:
        """Return the files of the expected results, which are written once for each work."""
        import numpy as np

        if self.expected[0] != work.name:
            paths = []
            for at, array in enumerate(work.expected(work.arrays())):
                paths.append(str(self.scratch / f"expected{at}.npy"))
                np.save(paths[-1], array)
            self.expected = (work.name, paths)
        return self.expected[1]

    def cases(self) -> Iterator[Case]:
        for work in works.TABLE.values():
            for peer in PEERS:
                if peer.has(work):
                    yield self.case(work, peer.module, peer.implementation, peer.missing())
            labels = schedules.of(work)
            for label in labels:
                yield self.case(work, "schedlang_kernels", label, "")
            if schedules.MAIN in labels:
                missing = "" if has_compiler() else "there is no C compiler"
                yield self.case(work, "schedlang_kernels", schedules.IN_C, missing)
            if not labels:
                yield self.case(work, "schedlang_kernels", schedules.MAIN, "no schedule yet")

    def ceilings(self) -> dict[str, float]:
        self.limits = self.worker("schedlang_kernels", schedules.MAIN).ask(do="ceilings")
        return self.limits

    def fraction(self, row: Row) -> float:
        """Return the least time that the bounding ceiling allows, over the row's own."""
        work = works.ALL[row.case.work]
        if work.bound == "fma":
            return (work.flops or 0) / (self.limits["FMA GFLOP/s"] * 1e9) / row.seconds
        copied = max(self.limits["copy GB/s"], self.limits["streaming GB/s"])
        return work.bytes / (copied * 1e9) / row.seconds

    def summary(self, rows: Sequence[Row]) -> str:
        return "\n".join([*_score(rows, self.fraction), *self.interrupted()])

    def interrupted(self) -> list[str]:
        """Return the line that says how many samples other processes interrupted."""
        samples = sum(w.samples for w in self.workers.values())
        if not samples:
            return []
        part = sum(w.interrupted for w in self.workers.values()) / samples
        return [f"samples that other processes interrupted: {part:.0%}"]

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()


def _bytes(work: Work) -> float | None:
    return work.bytes if work.bound == "copy" else None


def ours(row: Row) -> bool:
    return row.case.implementation.startswith(schedules.MAIN)


def ratio(row: Row, group: Sequence[Row]) -> float | None:
    """Return the best peer's time over the row's own; ``None`` without a correct peer."""
    peers = [r.seconds for r in group if r.correct and not ours(r)]
    return min(peers) / row.seconds if peers else None


def in_c(row: Row, group: Sequence[Row]) -> float | None:
    """Return the time of the C form over the row's own, for a main row that has one."""
    times = [r.seconds for r in group if r.correct and r.case.implementation == schedules.IN_C]
    is_main = row.case.implementation == schedules.MAIN
    return times[0] / row.seconds if times and is_main else None


def has_compiler() -> bool:
    return any(map(which, ("cc", "gcc", "clang")))


def _score(rows: Sequence[Row], fraction: Callable[[Row], float]) -> list[str]:
    """Return the lines that compare schedlang with the peers over all rows."""
    scored = ratios(rows)
    if not scored:
        return ["schedlang has no row here"]
    mean = exp(sum(log(value) for _, value in scored) / len(scored))
    short = [
        f"{row.case.work} ({value:.2f} of the best peer, {fraction(row):.2f} of the ceiling)"
        for row, value in scored
        if value < RATIO and fraction(row) < FRACTION
    ]
    compiled = [f["compile_seconds"] for row, _ in scored if (f := row.case.facts)]
    groups = [list(members) for _, members in groupby(rows, lambda r: r.case.work)]
    times = [value for group in groups for row in group if (value := in_c(row, group))]
    c_form = []
    if times:
        most, mean_c = max(times), exp(sum(map(log, times)) / len(times))
        c_form = [f"the C form takes {mean_c:.3f} of the time (geometric mean), {most:.2f} at most"]
    return [
        *c_form,
        f"schedlang against the best peer of each row: {mean:.3f} "
        f"(geometric mean of {len(scored)} rows)",
        f"short of {RATIO} of the best peer and {FRACTION} of the ceiling: "
        + ("; ".join(short) or "none"),
        f"compile time: {quantile(compiled, 0.5):.2f} s (median), {max(compiled):.2f} s (most)",
    ]


def ratios(rows: Sequence[Row]) -> list[tuple[Row, float]]:
    """Return schedlang's main row of each work, and its ratio to the best peer."""
    found = []
    for _, members in groupby(rows, lambda r: r.case.work):
        group = list(members)
        for row in group:
            value = ratio(row, group)
            if row.case.implementation == schedules.MAIN and value is not None:
                found.append((row, value))
    return found


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw a bar for each work: schedlang's speed over the best peer's."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    scored = ratios(rows)[::-1]
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.24 * len(scored)), layout="constrained")
    names = [row.case.work for row, _ in scored]
    values = [value for _, value in scored]
    axes.barh(names, values, color=["#2a7f62" if v >= RATIO else "#c06030" for v in values])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("speed of schedlang, best peer of each row = 1")
    axes.margins(y=0.01)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _columns(run: Run) -> list[Column]:
    def best(row: Row, group: Sequence[Row]) -> str:
        value = ratio(row, group)
        return "" if value is None else f"{value:.2f}"

    def compiled(row: Row, _: Sequence[Row]) -> str:
        seconds = row.case.facts.get("compile_seconds")
        return "" if seconds is None else f"{seconds:.2f} s"

    def ceiling(row: Row, _: Sequence[Row]) -> str:
        return f"{run.fraction(row):.2f}"

    def c_form(row: Row, group: Sequence[Row]) -> str:
        value = in_c(row, group)
        return "" if value is None else f"{value:.2f}"

    return [
        Column("of best", best), Column("ceiling", ceiling), Column("in C", c_form),
        Column("compile", compiled),
    ]  # fmt: skip


def run_part(arguments: Sequence[str] | None = None) -> int:
    """Measure the chosen rows of a part, print them, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)  # fmt: skip
    parser.add_argument("--part", choices=("table", "dot-products"), default="table")
    options, rest = parser.parse_known_args(arguments)
    if options.part == "dot-products":
        # it changes how threads of this process wait, which the table is not to see
        from benchmarks import dot_products

        return dot_products.run(rest)
    with TemporaryDirectory() as scratch:
        run = Run(Path(scratch))
        try:
            return main(
                "CPU kernels, float32, two threads", run.cases(), _columns(run), run.ceilings,
                rest, summary=run.summary, plot=plot, rounds=ROUNDS,
            )  # fmt: skip
        finally:
            run.close()


if __name__ == "__main__":
    sys.exit(run_part())
