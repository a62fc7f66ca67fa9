"""Compare a stencil on a padded picture with the same stencil on an input that has borders.

    python -m benchmarks.padded [--only PATTERN] [--json FILE]

``of unpadded`` is the time without padding over the row's own: 1 means equally fast. Schedules
inline the padded picture, compute it at a tile, or slide a window of it down a strip of rows, for
each mode of ``sl.pad``. No window can slide over ``"wrap"``, whose first row reads the last one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks.harness import Case, Column, Row, main
from benchmarks.works.work import aligned

SIDE = 2048
MODES = ("constant", "edge", "reflect", "wrap")
NONE = "unpadded"
ROWS, COLUMNS = 32, 256


def stencil(side: int, mode: str) -> tuple[sl.Tensor, sl.Tensor]:
    """Declare the picture that the stencil reads, and the mean of its 3 by 3 windows.

    Without padding, the picture is a copy of an input with borders, so that every schedule applies.
    """
    if mode == NONE:
        A = sl.placeholder((side + 2, side + 2), name="A")
        P = sl.compute((side + 2, side + 2), lambda y, x: A[y, x], name="P")
    else:
        A = sl.placeholder((side, side), name="A")
        P = sl.pad(A, 1, mode=mode, name="P")

    def mean(y: sl.Axis, x: sl.Axis) -> sl.Expr:
        return sum(P[y + i, x + j] for i in range(3) for j in range(3)) * (1 / 9)

    return P, sl.compute((side, side), mean, name="C")


def inlined(P: sl.Tensor, C: sl.Tensor, width: int) -> sl.Schedule:
    s = sl.schedule(C)
    s[P].compute_inline()
    s[C].vectorize(s[C].split(C.op.axis[1], factor=width)[1])
    return s


def in_parallel(P: sl.Tensor, C: sl.Tensor, width: int) -> sl.Schedule:
    s = inlined(P, C, width)
    s[C].parallel(s[C].split(C.op.axis[0], factor=ROWS)[0])
    return s


def in_tiles(P: sl.Tensor, C: sl.Tensor, width: int) -> sl.Schedule:
    s = sl.schedule(C)
    yo, xo, _, x = s[C].tile(C.op.axis[0], C.op.axis[1], ROWS, COLUMNS)
    s[C].vectorize(s[C].split(x, factor=width)[1])
    s[C].parallel(yo)
    s[P].compute_at(s[C], xo)
    s[P].vectorize(s[P].split(P.op.axis[1], factor=width)[1])
    return s


def sliding(P: sl.Tensor, C: sl.Tensor, width: int) -> sl.Schedule:
    s = sl.schedule(C)
    strip, y = s[C].split(C.op.axis[0], factor=ROWS)
    s[C].vectorize(s[C].split(C.op.axis[1], factor=width)[1])
    s[C].parallel(strip)
    s[P].compute_at(s[C], y)
    s[P].store_at(s[C], strip)
    s[P].vectorize(s[P].split(P.op.axis[1], factor=width)[1])
    return s


SCHEDULES = (inlined, in_parallel, in_tiles, sliding)


def by_numpy(a: Any, mode: Any) -> Any:
    padded = a if mode == NONE else np.pad(a, 1, mode=mode)
    windows = np.lib.stride_tricks.sliding_window_view(padded.astype("float64"), (3, 3))
    return windows.mean(axis=(2, 3))


def case(scheduled: Callable[..., sl.Schedule], mode: str, side: int) -> Case:
    """Return a case that compiles the kernel before timing and checks against NumPy."""
    size = side + 2 if mode == NONE else side
    a = aligned((size, size))
    np.random.default_rng(0).random(out=a, dtype="float32")
    out = aligned((side, side))

    def prepare() -> Callable[[], object]:
        P, C = stencil(side, mode)
        f = sl.build(scheduled(P, C, sl.Target("cpu").vector_width("float32")))
        return lambda: f(a, out)

    def check() -> bool:
        return bool(np.allclose(out, by_numpy(a, mode), rtol=1e-5))

    return Case(scheduled.__name__.replace("_", " "), mode, prepare, check)


def cases(side: int = SIDE) -> Iterator[Case]:
    """Yield the cases of each schedule, the unpadded one first."""
    for scheduled in SCHEDULES:
        for mode in (NONE, *MODES):
            if not (scheduled is sliding and mode == "wrap"):
                yield case(scheduled, mode, side)


def _of_unpadded(row: Row, rows: Sequence[Row]) -> str:
    """Return the time of the work's first row over that of ``row``."""
    return f"{rows[0].seconds / row.seconds:.2f}"


if __name__ == "__main__":
    sys.exit(main("Padded stencils", cases(), [Column("of unpadded", _of_unpadded)]))
