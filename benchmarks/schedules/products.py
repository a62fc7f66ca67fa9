"""Matrix products: a register tile of sums, and one operand packed into panels."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work
from schedlang.demo import panels_per_group, tile_sizes


def product(work: Work, lanes: int) -> tuple[sl.Tensor, ...]:
    """Declare A, B, B packed into panels of ``lanes`` columns, and AB. Zeros pad the last."""
    M, N, K = (work.sizes[name] for name in "mnk")
    A, B = sl.placeholder((M, K), name="A"), sl.placeholder((K, N), name="B")
    k = sl.reduce_axis(K, name="k")
    P = sl.compute(
        (-(-N // lanes), K, lanes),
        lambda p, k, j: sl.if_then_else(p * lanes + j < N, B[k, p * lanes + j], 0), name="P",
    )  # fmt: skip
    C = sl.compute(
        (M, N), lambda i, j: sl.sum(A[i, k] * P[j // lanes, k, j % lanes], axis=k), name="C"
    )
    return A, B, P, C


def register_tile(s: sl.Schedule, T: sl.Tensor) -> None:
    """Unroll rows and vectorize columns, both inside the reduction."""
    *_, y, x = s[T].op.axis
    s[T].reorder(*s[T].op.reduce_axis, y, x)
    s[T].unroll(y)
    s[T].vectorize(x)


@scheduled("sgemm")
def sgemm(work: Work, target: sl.Target) -> Made:
    """Pack a group of panels of B into each thread's cache, then stream the rows of A past them."""
    rows, lanes = tile_sizes(target)
    A, B, P, C = product(work, lanes)
    s = sl.schedule(C)
    CL = s.cache_write(C, "local")
    i, j = s[C].op.axis
    column, lane = s[C].split(j, factor=lanes, tail="guard")
    panels, K = (int(n) for n in P.shape[:2])
    group, panel = s[C].split(column, factor=panels_per_group(panels, K, lanes, target))
    strip, row = s[C].split(i, factor=rows, tail="cut")
    s[C].reorder(group, strip, panel, row, lane)
    s[C].vectorize(lane)
    s[C].parallel(group)
    s[CL].compute_at(s[C], panel)
    register_tile(s, CL)
    s[CL].prefetch(P, s[CL].op.reduce_axis[0], 16)
    s[P].compute_at(s[C], group)
    p, k, lane = s[P].op.axis
    s[P].reorder(k, p, lane)
    s[P].vectorize(lane)
    return s, [A, B, C]


@scheduled("sgemm 3136x64x576")
def tall(work: Work, target: sl.Target) -> Made:
    """Compute blocks of rows of A per thread, while all threads share the few panels of B."""
    rows, lanes = tile_sizes(target)
    A, B, P, C = product(work, lanes)
    s = sl.schedule(C)
    CL = s.cache_write(C, "local")
    i, j = s[C].op.axis
    # The part of A that a block of 112 rows reads stays in a second-level cache.
    block, inside = s[C].split(i, factor=112, tail="cut")
    strip, row = s[C].split(inside, factor=rows, tail="cut")
    panel, lane = s[C].split(j, factor=lanes, tail="guard")
    s[C].reorder(block, panel, strip, row, lane)
    s[C].vectorize(lane)
    s[C].parallel(block)
    s[CL].compute_at(s[C], strip)
    register_tile(s, CL)
    s[CL].prefetch(P, s[CL].op.reduce_axis[0], 16)
    s[P].parallel(P.op.axis[0])
    s[P].vectorize(P.op.axis[2])
    return s, [A, B, C]


@scheduled("batched")
def batched(work: Work, target: sl.Target) -> Made:
    """Compute one product per thread. B is read in place: its rows are only a few tiles wide."""
    count, M, N, K = (work.sizes[name] for name in ("count", "m", "n", "k"))
    rows, lanes = tile_sizes(target)
    if target.vector_registers >= 32:
        # Wide tiles read fewer elements of A per sum, and a whole row of B stays in the cache.
        rows, lanes = rows // 2, lanes * 2
    A, B = sl.placeholder((count, M, K), name="A"), sl.placeholder((count, K, N), name="B")
    k = sl.reduce_axis(K, name="k")
    C = sl.compute((count, M, N), lambda b, i, j: sl.sum(A[b, i, k] * B[b, k, j], axis=k), name="C")
    s = sl.schedule(C)
    CL = s.cache_write(C, "local")
    b, i, j = s[C].op.axis
    panel, lane = s[C].split(j, factor=lanes)
    strip, row = s[C].split(i, factor=rows, tail="cut")
    s[C].reorder(b, panel, strip, row, lane)
    s[C].vectorize(lane)
    s[C].parallel(b)
    s[CL].compute_at(s[C], strip)
    register_tile(s, CL)
    return s, [A, B, C]


@scheduled("gemv")
def gemv(work: Work, target: sl.Target) -> Made:
    """Compute four rows at a time, which share the loads of x, as partial sums in vector lanes."""
    N, K = work.sizes["n"], work.sizes["k"]
    A, X = sl.placeholder((N, K), name="A"), sl.placeholder((K,), name="X")
    k = sl.reduce_axis(K, name="k")
    Y = sl.compute((N,), lambda i: sl.sum(A[i, k] * X[k], axis=k), name="Y")
    s = sl.schedule(Y)
    _, lane = s[Y].split(k, factor=target.vector_width("float32"))
    P = s.rfactor(Y, lane, factor_axis=1)
    strip, row = s[Y].split(Y.op.axis[0], factor=4)
    s[Y].parallel(strip)
    s[P].compute_at(s[Y], strip)
    s[P].set_scope("local")
    y, x = s[P].op.axis
    s[P].reorder(*s[P].op.reduce_axis, y, x)
    s[P].unroll(y)
    s[P].vectorize(x)
    return s, [A, X, Y]
