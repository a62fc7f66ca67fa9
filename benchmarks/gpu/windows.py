"""Stencils: all threads of a block read a tile and its border from shared memory."""

from __future__ import annotations

import schedlang as sl

Made = tuple[sl.Schedule, list[sl.Tensor]]


def tiles(s: sl.Schedule, Y: sl.Tensor) -> sl.Axis:
    """Tile ``Y`` by 32 by 32 elements per block of 32 by 8 threads. Return the inner block axis."""
    i, j = Y.op.axis
    by, bx, y, x = s[Y].tile(i, j, 32, 32)
    y, ty = s[Y].split(y, 8)
    s[Y].reorder(by, bx, ty, x, y)
    s[Y].unroll(y)
    names = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    for axis, name in zip((by, bx, ty, x), names):
        s[Y].bind(axis, name)
    return bx


def over_threads(s: sl.Schedule, T: sl.Tensor) -> None:
    """Divide the elements of a shared tile among 32 by 8 threads."""
    element = s[T].fuse(*s[T].op.axis)
    element, x = s[T].split(element, 32)
    _, y = s[T].split(element, 8)
    s[T].bind(y, "threadIdx.y")
    s[T].bind(x, "threadIdx.x")


def blur(m: int, n: int) -> Made:
    """Sum rows into shared memory, then sum columns: both stages in one kernel."""
    X = sl.placeholder((m, n), name="X")
    H = sl.compute((m, n - 2), lambda i, j: X[i, j] + X[i, j + 1] + X[i, j + 2], name="H")
    Y = sl.compute(
        (m - 2, n - 2), lambda i, j: (H[i, j] + H[i + 1, j] + H[i + 2, j]) * (1 / 9), name="Y"
    )
    s = sl.schedule(Y)
    block = tiles(s, Y)
    s[H].compute_at(s[Y], block)
    over_threads(s, H)
    return s, [X, Y]


def jacobi(m: int, n: int) -> Made:
    """Read each tile and its border from shared memory."""
    X = sl.placeholder((m, n), name="X")
    Y = sl.compute(
        (m - 2, n - 2),
        lambda i, j: 0.2 * (
            X[i + 1, j + 1] + X[i, j + 1] + X[i + 2, j + 1] + X[i + 1, j] + X[i + 1, j + 2]
        ), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    T = s.cache_read(X, "shared", [Y])
    block = tiles(s, Y)
    s[T].compute_at(s[Y], block)
    over_threads(s, T)
    return s, [X, Y]


__all__ = ["blur", "jacobi"]
