"""Stencils: each thread computes some rows of a column and keeps what these share in registers."""

from __future__ import annotations

import schedlang as sl

Made = tuple[sl.Schedule, list[sl.Tensor]]


def columns(s: sl.Schedule, Y: sl.Tensor, threads: tuple[int, int], rows: int) -> sl.Axis:
    """Compute ``rows`` elements of a column per thread, with ``threads`` (y, x) in a block.

    Return the innermost axis that is bound to threads.
    """
    i, j = Y.op.axis
    by, y = s[Y].split(i, threads[0] * rows)
    ty, y = s[Y].split(y, rows)
    bx, tx = s[Y].split(j, threads[1])
    s[Y].reorder(by, bx, ty, tx, y)
    s[Y].unroll(y)
    names = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    for axis, name in zip((by, bx, ty, tx), names):
        s[Y].bind(axis, name)
    return tx


def blur(m: int, n: int) -> Made:
    """Sum rows into registers, then sum columns: both stages in one kernel."""
    X = sl.placeholder((m, n), name="X")
    H = sl.compute((m, n - 2), lambda i, j: X[i, j] + X[i, j + 1] + X[i, j + 2], name="H")
    Y = sl.compute(
        (m - 2, n - 2), lambda i, j: (H[i, j] + H[i + 1, j] + H[i + 2, j]) * (1 / 9), name="Y"
    )
    s = sl.schedule(Y)
    thread = columns(s, Y, (4, 64), 8)
    s[H].compute_at(s[Y], thread)
    for axis in s[H].op.axis:
        s[H].unroll(axis)
    return s, [X, Y]


def jacobi(m: int, n: int) -> Made:
    """Read neighbours directly: the caches serve what other threads read."""
    X = sl.placeholder((m, n), name="X")
    Y = sl.compute(
        (m - 2, n - 2),
        lambda i, j: 0.2 * (
            X[i + 1, j + 1] + X[i, j + 1] + X[i + 2, j + 1] + X[i + 1, j] + X[i + 1, j + 2]
        ), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    columns(s, Y, (2, 128), 4)
    return s, [X, Y]


__all__ = ["blur", "jacobi"]
