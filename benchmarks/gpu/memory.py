"""Memory-bound kernels: a transpose through shared tiles, and a chain of elementwise operations."""

from __future__ import annotations

import schedlang as sl

Made = tuple[sl.Schedule, list[sl.Tensor]]


def transpose(m: int, n: int) -> Made:
    """Transpose 32 by 32 elements per block. Padded rows put a tile's columns in 32 banks."""
    X = sl.placeholder((m, n), name="X")
    Y = sl.compute((n, m), lambda i, j: X[j, i], name="Y")
    s = sl.schedule(Y)
    T = s.cache_read(X, "shared", [Y])
    i, j = Y.op.axis
    by, bx, y, x = s[Y].tile(i, j, 32, 32)
    y, ty = s[Y].split(y, 8)
    s[Y].reorder(by, bx, ty, x, y)
    for axis, name in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
        (ty, "threadIdx.y"),
        (x, "threadIdx.x"),
    ):
        s[Y].bind(axis, name)
    s[T].compute_at(s[Y], bx)
    row, column = s[T].op.axis
    row, ty = s[T].split(row, 8)
    s[T].reorder(ty, column, row)
    s[T].bind(ty, "threadIdx.y")
    s[T].bind(column, "threadIdx.x")
    s[T].storage_align(s[T].op.axis[0], 32, 1)
    return s, [X, Y]


def chain(n: int) -> Made:
    """Compute 4 contiguous elements per thread, with 16 bytes per access."""
    A, B, C = (sl.placeholder((n,), name=name) for name in "ABC")
    Y = sl.compute((n,), lambda i: sl.max(A[i] * B[i] + C[i], 0.0) * sl.sigmoid(A[i]), name="Y")
    s = sl.schedule(Y)
    rest, lane = s[Y].split(Y.op.axis[0], 4)
    block, thread = s[Y].split(rest, 256)
    s[Y].vectorize(lane)
    s[Y].bind(block, "blockIdx.x")
    s[Y].bind(thread, "threadIdx.x")
    return s, [A, B, C, Y]
