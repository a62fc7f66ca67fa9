"""Rows: sums, later softmax and norms."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work


@scheduled("row_sum")
def row_sum(work: Work, target: sl.Target) -> Made:
    """Partial sums in vector lanes, rows in parallel."""
    rows, width = work.sizes["rows"], work.sizes["width"]
    X = sl.placeholder((rows, width), name="X")
    k = sl.reduce_axis(width, name="k")
    S = sl.compute((rows,), lambda i: sl.sum(X[i, k], axis=k), name="S")

    s = sl.schedule(S)
    _, lanes = s[S].split(k, factor=4 * target.vector_width("float32"))
    P = s.rfactor(S, lanes, factor_axis=1)
    s[S].parallel(S.op.axis[0])
    s[P].compute_at(s[S], S.op.axis[0])
    s[P].set_scope("local")
    s[P].reorder(s[P].op.reduce_axis[0], s[P].op.axis[1])
    s[P].vectorize(s[P].op.axis[1])
    return s, [X, S]
