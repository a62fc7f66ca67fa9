"""Compare the gradients of convolutions, after a search, with PyTorch's.

    python -m benchmarks.gradients [--trials N] [--timeout S] [--only PATTERN] [--json FILE]

The rows are the gradients of C1 to C12 and D1 to D9 by their input and by their weights, as
``sl.gradient`` makes them. Every search starts from an empty database. ``of torch`` is PyTorch's
time over the row's own. The last line has the geometric mean, over the convolutions with both
gradients, of PyTorch's time for the two over ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from math import exp, log
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import scores
from benchmarks.autotune import Searches
from benchmarks.cpu import Run
from benchmarks.harness import Case, Column, Row, main
from benchmarks.peers import Peer
from benchmarks.works import GRADIENTS

TORCH = Peer("torch backward", "torch_backward", ("torch",))


def cases(run: Run, searches: Searches, trials: int) -> Iterator[Case]:
    """Yield the cases of each gradient: PyTorch's, then ours."""
    for work in GRADIENTS:
        yield run.case(work, TORCH.module, TORCH.implementation, TORCH.missing())
        yield searches.case(work, 0, trials)


def _of_torch(row: Row, rows: Sequence[Row]) -> str:
    """Return PyTorch's time for the work over that of ``row``."""
    return f"{rows[0].seconds / row.seconds:.2f}"


def summary(rows: Sequence[Row]) -> str:
    """Return the geometric mean, over convolutions, of PyTorch's time for both gradients over ours.
    """
    times: dict[str, dict[tuple[str, bool], float]] = {}
    for row in rows:
        name, _, by = row.case.work.rpartition(" by ")
        theirs = row.case.implementation == TORCH.implementation
        times.setdefault(name, {})[by, theirs] = row.seconds
    ratios = []
    for found in times.values():
        if len(found) == 4:
            torch, ours = (sum(found[by, theirs] for by in ("input", "weights"))
                           for theirs in (True, False))  # fmt: skip
            ratios.append(torch / ours)
    if not ratios:
        return "no convolution with both gradients"
    mean = exp(sum(map(log, ratios)) / len(ratios))
    return f"{len(ratios)} convolutions, both gradients: {mean:.2f} times the speed of PyTorch"


def run_all(given: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gradients", allow_abbrev=False)
    parser.add_argument("--trials", type=int, default=64, help="of each search (%(default)s)")
    parser.add_argument("--timeout", type=float, default=scores.LONGEST,
                        help="seconds of a search (%(default)g)")  # fmt: skip
    options, rest = parser.parse_known_args(given)
    options = argparse.Namespace(**vars(options), search="random", keep=None, kept=None, seeds=1)
    with TemporaryDirectory() as scratch:
        run = Run(Path(scratch))
        searches = Searches(run, options)
        try:
            return main(
                "gradients of convolutions, float32, two threads",
                cases(run, searches, options.trials), [Column("of torch", _of_torch)],
                run.ceilings, rest, summary,
            )  # fmt: skip
        finally:
            run.close()


if __name__ == "__main__":
    sys.exit(run_all())
