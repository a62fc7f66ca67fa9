"""Compare the seven families of operators that networks are made of with PyTorch's.

    python -m benchmarks.operators [--only PATTERN] [--json FILE] [--plot FILE] [--trials N]
                                   [--kept FILE]

The families are element-wise, matrix, convolution, reduction, activation, pooling and recurrent
operators, the last over whole sequences. Everything is float32, warm, on two threads.

* ``autoschedule`` is the schedule of the cost model alone, without tuning;
* ``by hand`` is the schedule of ``benchmarks/cpu.py``, where it has one;
* ``tuned, kept`` is the best schedule in the database ``--kept``;
* ``tuned, seed 0`` is the best schedule of a search of ``--trials``.

``of torch`` is the time of PyTorch's eager operator over the row's own, and ``of best`` that of the
faster of PyTorch's two. The last lines have a geometric mean for each family, of the fastest of our
kernels, and the rows where ``autoschedule`` alone is below 0.8 of eager PyTorch. ``--plot`` draws
the fastest of our kernels beside eager PyTorch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import schedules, scores
from benchmarks.autoschedule import AUTO, by_model
from benchmarks.autoschedule import case as scheduled
from benchmarks.autotune import Searches
from benchmarks.cpu import ROUNDS, Run
from benchmarks.harness import Case, Column, Row, main, speeds_beside
from benchmarks.peers import Peer
from benchmarks.works import OPERATORS, TABLE, Work

TORCH = (
    Peer("torch eager", "torch_operators", ("torch",)),
    Peer("torch.compile", "torch_operators", ("torch",)),
)
PEERS = frozenset(p.implementation for p in TORCH)
BY_HAND = "by hand"
# the least speed of a schedule without tuning, beside eager PyTorch
LEAST = 0.8


def cases(run: Run, searches: Searches, options: argparse.Namespace) -> Iterator[Case]:
    """Yield the cases of each operator: PyTorch's, then ours."""
    for work in (w for works in OPERATORS.values() for w in works):
        for peer in TORCH:
            yield run.case(work, peer.module, peer.implementation, peer.missing())
        yield scheduled(run, work, AUTO, partial(by_model, work))
        if work.name in TABLE and schedules.MAIN in schedules.of(work):
            yield by_hand(run, work)
        if options.kept is not None:
            yield searches.kept(work)
        if options.trials:
            yield searches.case(work, 0, options.trials)


def by_hand(run: Run, work: Work) -> Case:
    return replace(run.case(work, "schedlang_kernels", schedules.MAIN, ""), implementation=BY_HAND)


def family(work: str) -> str:
    return next(name for name, works in OPERATORS.items() if work in (w.name for w in works))


def of_torch(row: Row, group: Sequence[Row]) -> float | None:
    """Return the time of PyTorch's eager operator over that of ``row``."""
    eager = next((r for r in group if r.case.implementation == TORCH[0].implementation), None)
    return eager.seconds / row.seconds if eager is not None and eager.correct else None


def of_best(row: Row, group: Sequence[Row]) -> float | None:
    peers = [r.seconds for r in group if r.correct and r.case.implementation in PEERS]
    return min(peers) / row.seconds if peers else None


def summary(rows: Sequence[Row]) -> str:
    """Return the mean speed of each family beside eager PyTorch, and the slow schedules."""
    ours = speeds_of_ours(rows)
    speeds: dict[str, list[float]] = {}
    for work, found in ours.items():
        speeds.setdefault(family(work), []).append(max(found.values()))
    slow = [f"{work} ({found[AUTO]:.2f})" for work, found in ours.items()
            if found.get(AUTO, LEAST) < LEAST]  # fmt: skip
    if not speeds:
        return "schedlang has no row here beside eager PyTorch"
    lines = [f"{name}: {_mean(found):.2f} of eager PyTorch ({len(found)} rows)"
             for name, found in speeds.items()]  # fmt: skip
    together = [value for found in speeds.values() for value in found]
    lines.append(f"all families: {_mean(together):.2f} (geometric mean of {len(together)} rows)")
    lines.append(f"{AUTO} alone below {LEAST} of eager PyTorch: {', '.join(slow) or 'none'}")
    return "\n".join(lines)


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw a bar for each operator: the speed of our fastest kernel, where eager PyTorch is 1."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    scored = {work: max(found.values()) for work, found in speeds_of_ours(rows).items()}
    families = list(dict.fromkeys(map(family, scored)))
    names = [name for group in families for name in scored if family(name) == group][::-1]
    figure, axes = plt.subplots(figsize=(8, 1.4 + 0.22 * len(names)), layout="constrained")
    for at, group in enumerate(families):
        heights = [n for n, name in enumerate(names) if family(name) == group]
        axes.barh(heights, [scored[names[n]] for n in heights], label=group, color=f"C{at}")
    axes.set_yticks(range(len(names)), names, fontsize="small")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("speed of schedlang, eager PyTorch = 1")
    axes.margins(y=0.01)
    axes.legend(fontsize="small", ncols=4, loc="lower center", bbox_to_anchor=(0.4, 1.0))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def speeds_of_ours(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Return, for each operator, the time of eager PyTorch over that of each kernel of ours."""
    found: dict[str, dict[str, float]] = {}
    for work, speeds in speeds_beside(rows, TORCH[0].implementation).items():
        ours = {name: speed for name, speed in speeds.items() if name not in PEERS}
        found |= {work: ours} if ours else {}
    return found


def _mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


COLUMNS = (
    Column("of torch", lambda row, group: _ratio(of_torch(row, group))),
    Column("of best", lambda row, group: _ratio(of_best(row, group))),
)


def run_all(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False)  # fmt: skip
    parser.add_argument("--trials", type=int, default=0, help="of each search (%(default)s: none)")
    parser.add_argument("--timeout", type=float, default=scores.LONGEST,
                        help="seconds of a search (%(default)g)")  # fmt: skip
    parser.add_argument("--kept", type=Path, metavar="FILE", help="a tuning database")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="add what searches find there")
    options, rest = parser.parse_known_args(given)
    options = argparse.Namespace(**vars(options), search="random", seeds=1)
    with TemporaryDirectory() as scratch:
        run = Run(Path(scratch))
        try:
            return main(
                "the seven families of operators, float32, two threads",
                cases(run, Searches(run, options), options), COLUMNS, run.ceilings, rest, summary,
                plot, rounds=ROUNDS,
            )  # fmt: skip
        finally:
            run.close()


if __name__ == "__main__":
    sys.exit(run_all())
