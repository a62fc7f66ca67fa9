"""Products of matrices: a tile of sums in registers, one operand packed into panels."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work


def tile_of(target: sl.Target) -> tuple[int, int]:
    """Rows and columns of sums that fit into the vector registers, with operands beside them."""
    return (12 if target.vector_registers >= 32 else 6), 2 * target.vector_width("float32")


def rows_a_block(M: int) -> int:
    """At most 160 rows, in an even number of equal blocks where M allows that."""
    return next((M // n for n in range(2, M, 2) if M % n == 0 and M // n <= 160), 120)


@scheduled("sgemm")
def sgemm(work: Work, target: sl.Target) -> Made:
    """B in panels as wide as the tile; a block of rows of A stays in the second-level cache."""
    M, N, K = (work.sizes[name] for name in "mnk")
    rows, lanes = tile_of(target)
    A, B = sl.placeholder((M, K), name="A"), sl.placeholder((K, N), name="B")
    k = sl.reduce_axis(K, name="k")
    P = sl.compute(
        (-(-N // lanes), K, lanes),
        lambda p, k, j: sl.if_then_else(p * lanes + j < N, B[k, p * lanes + j], 0), name="P",
    )  # fmt: skip
    C = sl.compute(
        (M, N), lambda i, j: sl.sum(A[i, k] * P[j // lanes, k, j % lanes], axis=k), name="C"
    )
    s = sl.schedule(C)
    CL = s.cache_write(C, "local")
    i, j = s[C].op.axis
    block, inside = s[C].split(i, factor=rows_a_block(M), tail="cut")
    strip, row = s[C].split(inside, factor=rows, tail="cut")
    panel, lane = s[C].split(j, factor=lanes, tail="guard")
    s[C].reorder(block, panel, strip, row, lane)
    s[C].vectorize(lane)
    s[C].parallel(block)
    s[CL].compute_at(s[C], strip)
    y, x = s[CL].op.axis
    s[CL].reorder(*s[CL].op.reduce_axis, y, x)
    s[CL].unroll(y)
    s[CL].vectorize(x)
    p, _, column = s[P].op.axis
    s[P].vectorize(column)
    s[P].parallel(p)
    return s, [A, B, C]


@scheduled("batched")
def batched(work: Work, target: sl.Target) -> Made:
    """A product a thread; B is read in place, as a row of it is as wide as a few tiles."""
    count, M, N, K = (work.sizes[name] for name in ("count", "m", "n", "k"))
    rows, lanes = tile_of(target)
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
    _, y, x = s[CL].op.axis
    s[CL].reorder(*s[CL].op.reduce_axis, y, x)
    s[CL].unroll(y)
    s[CL].vectorize(x)
    return s, [A, B, C]


@scheduled("gemv")
def gemv(work: Work, target: sl.Target) -> Made:
    """Four rows at a time share what is read of x; partial sums in vector lanes."""
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
