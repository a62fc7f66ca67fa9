"""Time a matrix product under the steps of a person who always takes the first one offered.

    python -m benchmarks.first_steps [--only PATTERN] [--json FILE]

It begins with three plain loops on one thread. The live page and ``sl.next_steps`` list the legal
next steps, the most promising first, and each row takes the first one, while it promises anything.
``of start`` is the time of the start over the row's own, and ``promised`` what the steps promised.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import schedlang as sl
from benchmarks.harness import Case, Column, Row, main
from benchmarks.works.work import aligned

SIDES = (512, 1024)
# a step that promises less is not taken, and no more than this are
LEAST, MOST = 1.03, 8


def product(side: int) -> sl.Tensor:
    A, B = (sl.placeholder((side, side), name=name) for name in "AB")
    k = sl.reduce_axis(side, name="k")
    return sl.compute((side, side), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")


def first_steps(s: sl.Schedule) -> Iterator[tuple[str, sl.Schedule, float]]:
    """Yield the start and each schedule after it: the step, the schedule, and what it promises."""
    promised = 1.0
    yield "start", s, promised
    for number in range(1, MOST + 1):
        steps = sl.next_steps(s)
        if not steps or steps[0].speedup < LEAST:
            return
        s, promised = steps[0].schedule, promised * steps[0].speedup
        yield f"{number}: {steps[0].primitive}", s, promised


def case(side: int, name: str, s: sl.Schedule, promised: float) -> Case:
    """Return a case that compiles the kernel before timing and checks against NumPy."""
    a, b, out = (aligned((side, side)) for _ in range(3))
    for seed, array in enumerate((a, b)):
        np.random.default_rng(seed).random(out=array, dtype="float32")

    def prepare() -> Callable[[], object]:
        f = sl.build(s)
        return lambda: f(a, b, out)

    def check() -> bool:
        return bool(np.allclose(out, a.astype("float64") @ b, rtol=1e-4))

    facts = {"promised": promised}
    return Case(f"product {side}^3", name, prepare, check, 2.0 * side**3, facts=facts)


def cases(sides: Sequence[int] = SIDES) -> Iterator[Case]:
    for side in sides:
        for name, s, promised in first_steps(sl.schedule(product(side))):
            yield case(side, name, s, promised)


def _of_start(row: Row, rows: Sequence[Row]) -> str:
    return f"{rows[0].seconds / row.seconds:.1f}"


def _promised(row: Row, rows: Sequence[Row]) -> str:
    return f"{row.case.facts['promised']:.1f}"


if __name__ == "__main__":
    columns = [Column("of start", _of_start), Column("promised", _promised)]
    sys.exit(main("First steps", cases(), columns))
