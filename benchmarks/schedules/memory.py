"""Work that memory bounds: each element is read once, computed in vectors, written once."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work


@scheduled("chain")
def chain(work: Work, target: sl.Target) -> Made:
    """Blocks of the arrays in parallel; the result bypasses the cache."""
    n = work.sizes["count"]
    A, B, C = (sl.placeholder((n,), name=name) for name in "ABC")
    Y = sl.compute((n,), lambda i: sl.max(A[i] * B[i] + C[i], 0) * sl.sigmoid(A[i]), name="Y")
    s = sl.schedule(Y)
    block, inside = s[Y].split(Y.op.axis[0], nparts=16)
    strip, lane = s[Y].split(inside, factor=2 * target.vector_width("float32"))
    s[Y].vectorize(lane)
    s[Y].parallel(block)
    s[Y].pragma(block, "nontemporal")
    return s, [A, B, C, Y]


@scheduled("jacobi")
def jacobi(work: Work, target: sl.Target) -> Made:
    """Rows in vectors, read again from the cache; the result bypasses it."""
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
    s[Y].pragma(block, "nontemporal")
    return s, [X, Y]


@scheduled("box_blur")
def box_blur(work: Work, target: sl.Target) -> Made:
    """A window of rows slides down each block: a row of sums is computed once and kept."""
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
    s[Y].pragma(block, "nontemporal")
    s[H].compute_at(s[Y], row)
    s[H].store_at(s[Y], block)
    _, lane = s[H].split(H.op.axis[1], factor=2 * target.vector_width("float32"))
    s[H].vectorize(lane)
    return s, [X, Y]


@scheduled("transpose")
def transpose(work: Work, target: sl.Target) -> Made:
    """Square tiles: rows are read in order, and a tile's columns stay in the cache."""
    n = work.sizes["size"]
    X = sl.placeholder((n, n), name="X")
    Y = sl.compute((n, n), lambda i, j: X[j, i], name="Y")
    s = sl.schedule(Y)
    i, j = Y.op.axis
    io, jo, ii, ji = s[Y].tile(i, j, 16, 16)
    s[Y].unroll(ii)
    s[Y].vectorize(ji)
    s[Y].parallel(io)
    return s, [X, Y]


@scheduled("softmax")
def softmax(work: Work, target: sl.Target) -> Made:
    """Row by row: the row stays in the first-level cache from its maximum to its quotient."""
    rows, width = work.sizes["rows"], work.sizes["width"]
    lanes = 2 * target.vector_width("float32")
    X = sl.placeholder((rows, width), name="X")
    k, r = sl.reduce_axis(width, name="k"), sl.reduce_axis(width, name="r")
    M = sl.compute((rows,), lambda i: sl.max(X[i, k], axis=k), name="M")
    E = sl.compute((rows, width), lambda i, j: sl.exp(X[i, j] - M[i]), name="E")
    D = sl.compute((rows,), lambda i: sl.sum(E[i, r], axis=r), name="D")
    R = sl.compute((rows,), lambda i: 1 / D[i], name="R")
    Y = sl.compute((rows, width), lambda i, j: E[i, j] * R[i], name="Y")
    s = sl.schedule(Y)
    i, j = Y.op.axis
    _, lane = s[Y].split(j, factor=lanes)
    s[Y].vectorize(lane)
    s[Y].parallel(i)
    for T, axis in ((M, k), (D, r)):
        _, lane = s[T].split(axis, factor=lanes)
        P = s.rfactor(T, lane, factor_axis=1)
        for stage in (T, P):
            s[stage].compute_at(s[Y], i)
        s[P].reorder(*s[P].op.reduce_axis, s[P].op.axis[1])
        s[P].vectorize(s[P].op.axis[1])
    s[R].compute_at(s[Y], i)
    s[E].compute_at(s[Y], i)
    _, lane = s[E].split(E.op.axis[1], factor=lanes)
    s[E].vectorize(lane)
    return s, [X, Y]


@scheduled("layer_norm")
def layer_norm(work: Work, target: sl.Target) -> Made:
    """Row by row: mean, variance and result while the row is in the first-level cache."""
    rows, width = work.sizes["rows"], work.sizes["width"]
    lanes = 2 * target.vector_width("float32")
    X = sl.placeholder((rows, width), name="X")
    gain, bias = sl.placeholder((width,), name="gain"), sl.placeholder((width,), name="bias")
    k, r = sl.reduce_axis(width, name="k"), sl.reduce_axis(width, name="r")
    S = sl.compute((rows,), lambda i: sl.sum(X[i, k], axis=k), name="S")
    apart = lambda i, j: X[i, j] - S[i] * (1 / width)  # noqa: E731
    V = sl.compute((rows,), lambda i: sl.sum(apart(i, r) * apart(i, r), axis=r), name="V")
    R = sl.compute((rows,), lambda i: 1 / sl.sqrt(V[i] * (1 / width) + 1e-5), name="R")
    Y = sl.compute((rows, width), lambda i, j: apart(i, j) * R[i] * gain[j] + bias[j], name="Y")
    s = sl.schedule(Y)
    i, j = Y.op.axis
    _, lane = s[Y].split(j, factor=lanes)
    s[Y].vectorize(lane)
    s[Y].parallel(i)
    for T, axis in ((S, k), (V, r)):
        _, lane = s[T].split(axis, factor=lanes)
        P = s.rfactor(T, lane, factor_axis=1)
        for stage in (T, P):
            s[stage].compute_at(s[Y], i)
        s[P].reorder(*s[P].op.reduce_axis, s[P].op.axis[1])
        s[P].vectorize(s[P].op.axis[1])
    s[R].compute_at(s[Y], i)
    return s, [X, gain, bias, Y]
