"""Reductions along rows and columns, each shared by the threads of a block."""

from __future__ import annotations

import schedlang as sl

Made = tuple[sl.Schedule, list[sl.Tensor]]


def row_of_threads(s: sl.Schedule, T: sl.Tensor, threads: int) -> None:
    """Divide the last reduction axis of ``T`` among threads, 4 contiguous elements at a time."""
    rest, four = s[T].split(s[T].op.reduce_axis[-1], 4)
    outer, inner = s[T].split(rest, threads)
    s[T].reorder(outer, inner, four)
    s[T].unroll(four)
    s[T].bind(inner, "threadIdx.x")


def softmax(m: int, n: int) -> Made:
    """Compute a row per block: its maximum, its sum of exponentials, its quotients."""
    X = sl.placeholder((m, n), name="X")
    k, r = sl.reduce_axis(n, name="k"), sl.reduce_axis(n, name="r")
    M = sl.compute((m,), lambda i: sl.max(X[i, k], axis=k), name="M")
    E = sl.compute((m, n), lambda i, j: sl.exp(X[i, j] - M[i]), name="E")
    T = sl.compute((m,), lambda i: sl.sum(E[i, r], axis=r), name="T")
    Y = sl.compute((m, n), lambda i, j: E[i, j] / T[i], name="Y")
    s = sl.schedule(Y)
    s[E].compute_inline()
    block_per_row(s, Y, (T, M))
    return s, [X, Y]


def block_per_row(
    s: sl.Schedule, Y: sl.Tensor, sums: tuple[sl.Tensor, ...], threads: int = 128
) -> None:
    """Compute a row of ``Y`` and its ``sums`` per block, with 16 bytes per access."""
    row, j = Y.op.axis
    s[Y].bind(row, "blockIdx.x")
    j, lane = s[Y].split(j, 4)
    _, thread = s[Y].split(j, threads)
    s[Y].vectorize(lane)
    s[Y].bind(thread, "threadIdx.x")
    for part in sums:
        s[part].compute_at(s[Y], row)
        row_of_threads(s, part, threads)


def layer_norm(m: int, n: int) -> Made:
    """Compute a row per block: its mean, its variance, its result."""
    X = sl.placeholder((m, n), name="X")
    scale, shift = sl.placeholder((n,), name="scale"), sl.placeholder((n,), name="shift")
    k, r = sl.reduce_axis(n, name="k"), sl.reduce_axis(n, name="r")
    S = sl.compute((m,), lambda i: sl.sum(X[i, k], axis=k), name="S")
    D = sl.compute((m, n), lambda i, j: X[i, j] - S[i] * (1 / n), name="D")
    Q = sl.compute((m,), lambda i: sl.sum(D[i, r] * D[i, r], axis=r), name="Q")
    Y = sl.compute(
        (m, n),
        lambda i, j: D[i, j] * sl.rsqrt(Q[i] * (1 / n) + 1e-5) * scale[j] + shift[j], name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    s[D].compute_inline()
    block_per_row(s, Y, (Q, S))
    return s, [X, scale, shift, Y]


def row_sum(m: int, n: int) -> Made:
    """Sum a row per block."""
    X = sl.placeholder((m, n), name="X")
    k = sl.reduce_axis(n, name="k")
    Y = sl.compute((m,), lambda i: sl.sum(X[i, k], axis=k), name="Y")
    s = sl.schedule(Y)
    s[Y].bind(Y.op.axis[0], "blockIdx.x")
    row_of_threads(s, Y, 256)
    return s, [X, Y]


def column_sum(m: int, n: int) -> Made:
    """Sum 32 columns per block. A warp reads contiguous elements, and 16 warps share the rows."""
    X = sl.placeholder((m, n), name="X")
    k = sl.reduce_axis(m, name="k")
    Y = sl.compute((n,), lambda j: sl.sum(X[k, j], axis=k), name="Y")
    s = sl.schedule(Y)
    block, column = s[Y].split(Y.op.axis[0], 32)
    outer, part = s[Y].split(k, 16)
    _, four = s[Y].split(outer, 4)
    s[Y].unroll(four)
    s[Y].bind(block, "blockIdx.x")
    s[Y].bind(column, "threadIdx.x")
    s[Y].bind(part, "threadIdx.y")
    return s, [X, Y]
