"""Compare whole networks with the runtimes that people use, and check every result.

    python -m benchmarks.networks [--small] [--only PATTERN] [--json FILE] [--plot FILE]
                                  [--rounds N] [--database FILE] [--tune MINUTES]
                                  [--tvm-trials N]

Everything is float32, warm, on two threads, with the same weights. The runtimes of a row take
turns, each in a process of its own (``worker.py``). Further columns come from another new process
(``fresh_process.py``), which loads what was compiled before. They are

* ``of best``: the best runtime's time over the row's own;
* ``first``: the seconds from the imports to the first result;
* ``peak``: the most memory of the process during that and later calls, above its start;
* ``calls``: the most during later calls, above the memory of the libraries alone;
* ``allocs``: the allocations of one call;
* ``kernels``: the kernels that one call runs.

A result is right within 1e-3 of the largest output of the network in float64. ``--small`` runs
networks of a few layers, as a test of the benchmark; their times mean nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import cache, fresh_process
from benchmarks.cpu import Run
from benchmarks.fresh_process import Failed
from benchmarks.harness import Case, Column, Row, Unavailable, main, speeds_beside
from benchmarks.peers import Peer, allocations
from benchmarks.peers.networks import DATABASE, MINUTES, NETWORK_PEERS, OURS, tvm_tuned
from benchmarks.worker import REPLY_TIMEOUT, threads_and_caches
from benchmarks.works import NETWORKS, SMALL, Work

ROUNDS = 15
EAGER = "torch eager"
# the implementations that are ours
OWN = (OURS.implementation,)
MEGABYTE = 1e6
# the least speed that the picture has a point for, where eager PyTorch is 1
LEAST_DRAWN = 0.2


def cases(
    run: Run, works: Sequence[Work], trials: int = 0, ours_given: Mapping[str, str] | None = None
) -> Iterator[Case]:
    """Yield the cases of each network: the peers, TVM also after ``trials``, then ours.

    ``ours_given`` is added to the environment in which our networks are built.
    """
    tuned = (tvm_tuned(trials),) if trials else ()
    for work in works:
        for peer in (*NETWORK_PEERS, *tuned, OURS):
            if peer.has(work):
                yield case(run, work, peer, (ours_given or {}) if peer is OURS else {})


def case(run: Run, work: Work, peer: Peer, environment: Mapping[str, str]) -> Case:
    """Return a case that builds a network, calls it in a new process, then times it in a worker."""
    timed = run.case(work, "networks", peer.implementation, peer.missing())

    def prepare() -> Callable[[], object]:
        log = cache.folder("logs") / f"{peer.implementation.replace(' ', '_')}_fresh.txt"
        given = threads_and_caches() | {"SCHEDLANG_CACHE": str(run.scratch / "kernels")}
        preloads: dict[str, str] = {}
        if not allocations.missing():
            preloads["LD_PRELOAD"] = str(allocations.library(cache.folder("allocations")))
        longest = REPLY_TIMEOUT + 60 * float(environment.get(MINUTES, 0))
        try:
            for what, extra in (("build", environment), ("first", preloads)):
                timed.facts.update(
                    fresh_process.ask(what, peer.implementation, work, {**given, **extra}, log,
                                      longest)
                )  # fmt: skip
        except Failed as reason:
            raise Unavailable(str(reason)) from None
        return timed.prepare()

    return replace(timed, prepare=prepare)


def best(group: Sequence[Row], ours: bool, own: Collection[str] = OWN) -> Row | None:
    """Return the fastest correct row of ``own``, or of the peers."""
    found = [r for r in group if r.correct and (r.case.implementation in own) == ours]
    return min(found, key=lambda r: r.seconds) if found else None


def summary(rows: Sequence[Row], own: Collection[str] = OWN) -> str:
    """Return the best peer of each network and the geometric mean of our speed over it."""
    lines, ratios = ["best peer of each network:"], []
    for work, members in groupby(rows, lambda r: r.case.work):
        group = list(members)
        peer, mine = best(group, False, own), best(group, True, own)
        if peer is None:
            lines.append(f"  {work}: none is right")
            continue
        line = f"  {work}: {peer.case.implementation}, {peer.seconds * 1e3:.4g} ms"
        if mine is not None:
            ratios.append(peer.seconds / mine.seconds)
            line += f"; schedlang {ratios[-1]:.2f} of it"
        lines.append(line)
    if ratios:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        lines.append(f"schedlang: {mean:.3f} of the best peer (geometric mean of {len(ratios)})")
    else:
        lines.append("schedlang has no row here")
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw a line for each network: the speed of every runtime, where eager PyTorch is 1.

    Speeds below ``LEAST_DRAWN`` are numbers below the axis, since they leave no room for others.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullLocator

    speeds = speeds_beside(rows, EAGER)
    works = list(speeds)[::-1]
    slow = [
        f"{name}, {work}: {speed:.2g}"
        for work, found in speeds.items() for name, speed in found.items() if speed < LEAST_DRAWN
    ]  # fmt: skip
    speeds = {
        work: {name: speed for name, speed in found.items() if speed >= LEAST_DRAWN}
        for work, found in speeds.items()
    }
    names = list(dict.fromkeys(name for found in speeds.values() for name in found))
    figure, axes = plt.subplots(figsize=(8, 1.6 + 0.34 * len(works)), layout="constrained")
    for name in names:
        heights = [at for at, work in enumerate(works) if name in speeds[work]]
        mine = name == OURS.implementation
        axes.scatter([speeds[works[at]][name] for at in heights], heights, label=name,
                     s=70 if mine else 28, marker="D" if mine else "o", zorder=3)  # fmt: skip
    axes.set_yticks(range(len(works)), works)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("\n".join(["speed, eager PyTorch = 1", *slow]))
    axes.grid(axis="y", linewidth=0.4)
    axes.legend(fontsize="small", ncols=4, loc="lower center", bbox_to_anchor=(0.4, 1.0))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def of_best(row: Row, group: Sequence[Row], own: Collection[str] = OWN) -> str:
    """Return the best peer's time over the row's own, as text."""
    peer = best(group, False, own)
    return "" if peer is None else f"{peer.seconds / row.seconds:.2f}"


def fact(name: str, form: Callable[[Any], str]) -> Callable[[Row, Sequence[Row]], str]:
    """Return a column's text of a fact of each row; rows without it have none."""
    def text(row: Row, _: Sequence[Row]) -> str:
        value = row.case.facts.get(name)
        return "" if value is None else form(value)

    return text


def _gflops(row: Row, _: Sequence[Row]) -> str:
    flops = row.case.facts.get("flops")
    return "" if flops is None else f"{flops / row.seconds * 1e-9:.4g}"


def megabytes(value: float) -> str:
    return f"{value / MEGABYTE:.0f} MB"


COLUMNS = (
    Column("GFLOP/s", _gflops),
    Column("of best", of_best),
    Column("first", fact("first_seconds", lambda v: f"{v:.2f} s")),
    Column("peak", fact("peak_bytes", megabytes)),
    Column("calls", fact("calls_bytes", megabytes)),
    Column("allocs", fact("allocations", lambda v: f"{v:.0f}")),
    Column("kernels", fact("kernels", str)),
)


def run_all(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)  # fmt: skip
    parser.add_argument("--small", action="store_true", help="networks of a few layers")
    parser.add_argument("--tvm-trials", type=int, default=0, metavar="N",
                        help="add TVM after a search of N trials for each network")  # fmt: skip
    parser.add_argument("--database", type=Path, metavar="FILE",
                        help="a tuning database for our networks")  # fmt: skip
    parser.add_argument("--tune", type=float, default=0, metavar="MINUTES",
                        help="tune each of our networks first, into the database")  # fmt: skip
    options, rest = parser.parse_known_args(given)
    ours_given = {}
    if options.database is not None:
        ours_given[DATABASE] = str(options.database.resolve())
    if options.tune:
        ours_given[MINUTES] = str(options.tune)
    with TemporaryDirectory() as scratch:
        run = Run(Path(scratch))
        try:
            return main(
                "whole networks, float32, two threads",
                cases(run, SMALL if options.small else NETWORKS, options.tvm_trials, ours_given),
                COLUMNS,
                arguments=rest, summary=lambda rows: "\n".join([summary(rows), *run.interrupted()]),
                plot=plot, rounds=ROUNDS,
            )  # fmt: skip
        finally:
            run.close()


if __name__ == "__main__":
    sys.exit(run_all())
