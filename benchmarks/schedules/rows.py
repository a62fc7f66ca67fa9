"""Row-wise works: sums, softmax, layer norm. A row stays in the first-level cache throughout."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work

# lanes that are added one by one
FEW = 4


def in_lanes(
    s: sl.Schedule, T: sl.Tensor, axis: sl.Axis, lanes: int, at: sl.StageView, loop: sl.Axis
) -> None:
    """Reduce in vector lanes, then their results in a quarter of the lanes, and so on.

    All of it is computed at ``loop``. Added one by one, as many results would wait for each other.
    """
    while lanes >= FEW:
        P = s.rfactor(T, s[T].split(axis, factor=lanes)[1], factor_axis=1)
        s[P].compute_at(at, loop)
        s[P].set_scope("local")
        s[P].reorder(*s[P].op.reduce_axis, s[P].op.axis[1])
        s[P].vectorize(s[P].op.axis[1])
        (axis,) = s[T].op.reduce_axis
        lanes //= 4
    if s[T].name != at.name:
        s[T].compute_at(at, loop)


@scheduled("row_sum")
def row_sum(work: Work, target: sl.Target) -> Made:
    """Sum rows in parallel."""
    rows, width = work.sizes["rows"], work.sizes["width"]
    X = sl.placeholder((rows, width), name="X")
    k = sl.reduce_axis(width, name="k")
    S = sl.compute((rows,), lambda i: sl.sum(X[i, k], axis=k), name="S")

    s = sl.schedule(S)
    (i,) = S.op.axis
    in_lanes(s, S, k, 4 * target.vector_width("float32"), s[S], i)
    s[S].parallel(i)
    return s, [X, S]


@scheduled("softmax")
def softmax(work: Work, target: sl.Target) -> Made:
    """Compute one row at a time, which stays in the first-level cache from maximum to quotient."""
    rows, width = work.sizes["rows"], work.sizes["width"]
    lanes = 4 * target.vector_width("float32")
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
        in_lanes(s, T, axis, lanes, s[Y], i)
    s[R].compute_at(s[Y], i)
    s[E].compute_at(s[Y], i)
    _, lane = s[E].split(E.op.axis[1], factor=lanes)
    s[E].vectorize(lane)
    return s, [X, Y]


@scheduled("layer_norm")
def layer_norm(work: Work, target: sl.Target) -> Made:
    """Compute one row at a time, which stays in the first-level cache from mean to result."""
    rows, width = work.sizes["rows"], work.sizes["width"]
    lanes = 4 * target.vector_width("float32")
    X = sl.placeholder((rows, width), name="X")
    gain, bias = sl.placeholder((width,), name="gain"), sl.placeholder((width,), name="bias")
    k, r = sl.reduce_axis(width, name="k"), sl.reduce_axis(width, name="r")
    S = sl.compute((rows,), lambda i: sl.sum(X[i, k], axis=k), name="S")

    def apart(i: sl.Axis, j: sl.Axis) -> sl.Expr:
        return X[i, j] - S[i] * (1 / width)

    V = sl.compute((rows,), lambda i: sl.sum(apart(i, r) * apart(i, r), axis=r), name="V")
    R = sl.compute((rows,), lambda i: 1 / sl.sqrt(V[i] * (1 / width) + 1e-5), name="R")
    Y = sl.compute((rows, width), lambda i, j: apart(i, j) * R[i] * gain[j] + bias[j], name="Y")
    s = sl.schedule(Y)
    i, j = Y.op.axis
    _, lane = s[Y].split(j, factor=lanes)
    s[Y].vectorize(lane)
    s[Y].parallel(i)
    # 3 to 8% on cores that compute whole registers, and unmeasured on others
    if target.datapath_bytes == target.vector_bytes:
        s[Y].prefetch(X, i, 1)
    for T, axis in ((S, k), (V, r)):
        in_lanes(s, T, axis, lanes, s[Y], i)
    s[R].compute_at(s[Y], i)
    return s, [X, gain, bias, Y]
