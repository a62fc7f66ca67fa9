"""Memory-bound works: each element is read once, computed in vectors, and written once."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work


@scheduled("chain")
def chain(work: Work, target: sl.Target) -> Made:
    """Run blocks of the arrays in parallel. The stores of a large result bypass the cache."""
    n = work.sizes["count"]
    A, B, C = (sl.placeholder((n,), name=name) for name in "ABC")
    Y = sl.compute((n,), lambda i: sl.max(A[i] * B[i] + C[i], 0) * sl.sigmoid(A[i]), name="Y")
    s = sl.schedule(Y)
    block, inside = s[Y].split(Y.op.axis[0], nparts=16)
    strip, lane = s[Y].split(inside, factor=2 * target.vector_width("float32"))
    s[Y].vectorize(lane)
    s[Y].parallel(block)
    if 4 * 4 * n > target.last_cache():
        s[Y].pragma(block, "nontemporal")
    return s, [A, B, C, Y]


@scheduled("jacobi")
def jacobi(work: Work, target: sl.Target) -> Made:
    """Vectorize rows, and leave the reuse of rows to the cache."""
    n = work.sizes["size"]
    X = sl.placeholder((n + 2, n + 2), name="X")
    Y = sl.compute(
        (n, n),
        lambda y, x: 0.2 * (X[y + 1, x + 1] + X[y, x + 1] + X[y + 2, x + 1] + X[y + 1, x]
                            + X[y + 1, x + 2]), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    y, x = Y.op.axis
    block, row = s[Y].split(y, nparts=16)
    strip, lane = s[Y].split(x, factor=2 * target.vector_width("float32"))
    s[Y].vectorize(lane)
    s[Y].parallel(block)
    return s, [X, Y]


@scheduled("box_blur")
def box_blur(work: Work, target: sl.Target) -> Made:
    """Slide a window of rows down each block, so that each row of sums is computed once."""
    n = work.sizes["size"]
    X = sl.placeholder((n + 2, n + 2), name="X")
    H = sl.compute(
        (n + 2, n), lambda y, x: (X[y, x] + X[y, x + 1] + X[y, x + 2]) * (1 / 3), name="H"
    )
    Y = sl.compute((n, n), lambda y, x: (H[y, x] + H[y + 1, x] + H[y + 2, x]) * (1 / 3), name="Y")
    s = sl.schedule(Y)
    y, x = Y.op.axis
    block, row = s[Y].split(y, nparts=32)
    _, lane = s[Y].split(x, factor=2 * target.vector_width("float32"))
    s[Y].vectorize(lane)
    s[Y].parallel(block)
    s[H].compute_at(s[Y], row)
    s[H].store_at(s[Y], block)
    _, lane = s[H].split(H.op.axis[1], factor=2 * target.vector_width("float32"))
    s[H].vectorize(lane)
    return s, [X, Y]


@scheduled("transpose")
def transpose(work: Work, target: sl.Target) -> Made:
    """Transpose square tiles through a small buffer whose row stride is odd."""
    n = work.sizes["size"]
    X = sl.placeholder((n, n), name="X")
    Y = sl.compute((n, n), lambda i, j: X[j, i], name="Y")
    s = sl.schedule(Y)
    T = s.cache_read(X, "local", [Y])
    i, j = Y.op.axis
    size = 4 * target.vector_width("float32")
    io, jo, ii, ji = s[Y].tile(i, j, size, size)
    s[Y].vectorize(ji)
    s[Y].parallel(io)
    if 2 * 4 * n * n > target.last_cache():
        s[Y].pragma(io, "nontemporal")
    s[T].compute_at(s[Y], jo)
    s[T].storage_align(T.op.axis[0], 2, 1)
    s[T].vectorize(T.op.axis[1])
    return s, [X, Y]
