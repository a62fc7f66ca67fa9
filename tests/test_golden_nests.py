"""Golden loop nests of each primitive alone and of corner cases, to be read by eye."""

from __future__ import annotations

import schedlang as sl
from tests.conftest import GOLDEN, Golden
from tests.graphs import blur, chain, product, scaled


def test_split_that_divides(golden: Golden) -> None:
    _, B = scaled(128)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=32)
    golden(s)


def test_split_guard(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=32, tail="guard")
    golden(s)


def test_split_cut(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=32, tail="cut")
    golden(s)


def test_split_nparts(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], nparts=8)
    golden(s)


def test_split_twice(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    outer, _ = s[B].split(B.op.axis[0], factor=48)
    s[B].split(outer, factor=32)
    golden(s)


def test_split_of_the_inner_part(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=48)
    s[B].split(inner, factor=32)
    golden(s)


def test_split_factor_above_the_extent(golden: Golden) -> None:
    _, B = scaled(5)
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=8)
    golden(s)


def test_split_symbolic_guard(golden: Golden) -> None:
    _, B = scaled(sl.var("n"))
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=8, tail="guard")
    golden(s)


def test_split_symbolic_cut(golden: Golden) -> None:
    _, B = scaled(sl.var("n"))
    s = sl.schedule(B)
    s[B].split(B.op.axis[0], factor=8, tail="cut")
    golden(s)


def test_split_symbolic_vectorized(golden: Golden) -> None:
    _, B = scaled(sl.var("n"))
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    golden(s)


def test_split_of_a_reduction(golden: Golden) -> None:
    _, _, C = product(8, 8, 30)
    s = sl.schedule(C)
    s[C].split(C.op.reduce_axis[0], factor=8)
    golden(s)


def test_fuse(golden: Golden) -> None:
    _, B = scaled(4, 6)
    s = sl.schedule(B)
    s[B].fuse(*B.op.axis)
    golden(s)


def test_fuse_and_split(golden: Golden) -> None:
    _, B = scaled(5, 7)
    s = sl.schedule(B)
    s[B].split(s[B].fuse(*B.op.axis), factor=16)
    golden(s)


def test_fuse_of_nothing(golden: Golden) -> None:
    _, B = scaled(4)
    s = sl.schedule(B)
    s[B].bind(s[B].fuse(), "threadIdx.x")
    golden(s)


def test_reorder(golden: Golden) -> None:
    _, _, C = product(8, 16, 4)
    s = sl.schedule(C)
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    s[C].reorder(k, j, i)
    golden(s)


def test_reorder_reduction_in_the_middle(golden: Golden) -> None:
    _, _, C = product(8, 16, 4)
    s = sl.schedule(C)
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    s[C].reorder(i, k, j)
    golden(s)


def test_tile(golden: Golden) -> None:
    _, B = scaled(64, 100)
    s = sl.schedule(B)
    s[B].tile(*B.op.axis, 16, 32)
    golden(s)


def test_vectorize_with_a_tail(golden: Golden) -> None:
    _, B = scaled(100)
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].vectorize(inner)
    golden(s)


def test_unroll(golden: Golden) -> None:
    _, B = scaled(64)
    s = sl.schedule(B)
    _, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].unroll(inner)
    golden(s)


def test_parallel(golden: Golden) -> None:
    _, B = scaled(64, 64)
    s = sl.schedule(B)
    s[B].parallel(B.op.axis[0])
    golden(s)


def test_bind(golden: Golden) -> None:
    _, B = scaled(1000)
    s = sl.schedule(B)
    block, thread = s[B].split(B.op.axis[0], factor=256)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(thread, "threadIdx.x")
    golden(s)


def test_vthread(golden: Golden) -> None:
    _, B = scaled(1024)
    s = sl.schedule(B)
    block, rest = s[B].split(B.op.axis[0], factor=256)
    virtual, thread = s[B].split(rest, nparts=2)
    s[B].bind(block, "blockIdx.x")
    s[B].bind(virtual, "vthread")
    s[B].bind(thread, "threadIdx.x")
    golden(s)


def test_pragma(golden: Golden) -> None:
    _, B = scaled(64, 64)
    s = sl.schedule(B)
    i, j = B.op.axis
    s[B].pragma(i, "unroll_hint", 4)
    s[B].pragma(j, "loop_partition_hint")
    golden(s)


def test_prefetch(golden: Golden) -> None:
    A, B = scaled(64, 64)
    s = sl.schedule(B)
    s[B].prefetch(A, B.op.axis[0], 2)
    golden(s)


def test_a_prefetch_that_rows_share(golden: Golden) -> None:
    A, B = sl.placeholder((8, 4, 32), name="A"), sl.placeholder((4, 32, 7), name="B")
    r, q = sl.reduce_axis(4, name="r"), sl.reduce_axis(32, name="q")
    C = sl.compute((8, 7), lambda i, j: sl.sum(A[i, r, q] * B[r, q, j], axis=[r, q]), name="C")
    s = sl.schedule(C)
    over, inner = s[C].split(C.op.axis[0], factor=2)
    s[C].reorder(over, r, C.op.axis[1], q, inner)
    s[C].prefetch(A, r, 1, at=C.op.axis[1])
    golden(s)


def test_compute_inline(golden: Golden) -> None:
    _, B, C = chain(100)
    s = sl.schedule(C)
    s[B].compute_inline()
    golden(s)


def test_compute_at(golden: Golden) -> None:
    _, B, C = chain(98)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=8)
    s[B].compute_at(s[C], outer)
    golden(s)


def test_compute_at_the_innermost_loop(golden: Golden) -> None:
    _, B, C = chain(98)
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    golden(s)


def test_compute_root(golden: Golden) -> None:
    _, B, C = chain(98)
    s = sl.schedule(C)
    s[B].compute_inline()
    s[B].compute_root()
    golden(s)


def test_store_at_slides(golden: Golden) -> None:
    _, B, C = chain(100)
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=10)
    s[B].compute_at(s[C], inner)
    s[B].store_at(s[C], outer)
    golden(s)


def test_store_root_slides(golden: Golden) -> None:
    _, B, C = chain(100)
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].store_root()
    golden(s)


def test_cache_read(golden: Golden) -> None:
    A, _, C = product(64, 64, 64)
    s = sl.schedule(C)
    copy = s.cache_read(A, "local", [C])
    s[copy].compute_at(s[C], C.op.axis[0])
    golden(s)


def test_cache_write(golden: Golden) -> None:
    _, _, C = product(64, 64, 64)
    s = sl.schedule(C)
    sums = s.cache_write(C, "local")
    s[sums].compute_at(s[C], C.op.axis[1])
    golden(s)


def test_rfactor(golden: Golden) -> None:
    A = sl.placeholder((1000,), name="A")
    k = sl.reduce_axis(1000, name="k")
    S = sl.compute((), lambda: sl.sum(A[k], axis=k), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=16)
    s.rfactor(S, inner)
    golden(s)


def test_rfactor_where(golden: Golden) -> None:
    """Guards of tails have a note; the condition of the reduction itself has none."""
    A = sl.placeholder((8, 40), name="A")
    k = sl.reduce_axis(40, name="k")
    S = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k, where=A[i, k] > 0), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=16)
    partial = s.rfactor(S, inner)
    _, again = s[partial].split(s[partial].op.reduce_axis[0], factor=2)
    s.rfactor(partial, again)
    golden(s)


def test_rfactor_vectorized(golden: Golden) -> None:
    A = sl.placeholder((8, 1024), name="A")
    k = sl.reduce_axis(1024, name="k")
    S = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=16)
    lanes = s.rfactor(S, inner, factor_axis=1)
    s[lanes].compute_at(s[S], S.op.axis[0])
    s[lanes].reorder(s[lanes].op.reduce_axis[0], s[lanes].op.axis[1])
    s[lanes].vectorize(s[lanes].op.axis[1])
    golden(s)


def test_set_scope(golden: Golden) -> None:
    _, B, C = chain(100)
    s = sl.schedule(C)
    s[B].set_scope("shared")
    golden(s)


def test_storage_align(golden: Golden) -> None:
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((64, 64), lambda i, j: B[j, i] + 1, name="C")
    s = sl.schedule(C)
    s[C].tile(*C.op.axis, 32, 32)
    s[B].compute_at(s[C], s[C].leaf_axes[1])
    s[B].set_scope("shared")
    s[B].storage_align(B.op.axis[0], 32, 1)
    golden(s)


def test_transform_layout(golden: Golden) -> None:
    A = sl.placeholder((20, 50), name="A")
    B = sl.compute((20, 50), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((50, 20), lambda i, j: B[j, i] + 1, name="C")
    s = sl.schedule(C)
    jo, ji = s[C].split(C.op.axis[0], factor=16)
    s[B].compute_at(s[C], jo)
    s[B].transform_layout(lambda i, j: (j // 4, i, j % 4))
    golden(s)


def test_double_buffer(golden: Golden) -> None:
    A, _, C = product(64, 64, 64)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=8)
    copy = s.cache_read(A, "shared", [C])
    s[copy].compute_at(s[C], outer)
    s[copy].double_buffer()
    golden(s)


def test_set_store_predicate(golden: Golden) -> None:
    A = sl.placeholder((32, 64), name="A")
    k = sl.reduce_axis(64, name="k")
    S = sl.compute((32,), lambda i: sl.sum(A[i, k], axis=k), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=16)
    parts = s.rfactor(S, inner)
    last = s[S].op.reduce_axis[0]
    s[S].bind(S.op.axis[0], "blockIdx.x")
    s[S].bind(last, "threadIdx.x")
    s[parts].compute_at(s[S], last)
    s[S].set_store_predicate(last == 0)
    golden(s)


def test_no_dimensions(golden: Golden) -> None:
    A = sl.placeholder((), name="A")
    golden(sl.schedule(sl.compute((), lambda: A[()] * 2, name="B")))


def test_extents_of_zero_and_one(golden: Golden) -> None:
    A = sl.placeholder((4, 1, 0), name="A")
    B = sl.compute((4, 1), lambda i, j: A[i, j, 0] if False else sl.cast(i, "float32"), name="B")
    k = sl.reduce_axis(0, name="k")
    C = sl.compute((4, 1), lambda i, j: sl.sum(B[i, j] * A[i, j, k], axis=k), name="C")
    D = sl.compute((0, 4), lambda i, j: C[j, 0], name="D")
    golden(sl.schedule([C, D]))


def test_equal_axis_names(golden: Golden) -> None:
    H, V = blur()
    s = sl.schedule(V)
    s[H].compute_at(s[V], V.op.axis[0])
    s[V].split(V.op.axis[1], factor=32)
    golden(s)


def test_equal_tensor_names(golden: Golden) -> None:
    A = sl.placeholder((8,), name="T")
    B = sl.compute((8,), lambda i: A[i] + 1, name="T")
    golden(sl.schedule(sl.compute((8,), lambda i: B[i] * 2, name="T")))


def test_condition_and_gather(golden: Golden) -> None:
    A = sl.placeholder((64,), name="A")
    index = sl.placeholder((64,), "int32", name="index")
    B = sl.compute(
        (64,), lambda i: sl.if_then_else((i >= 1) & (i < 63), A[index[i]] - A[i - 1], 0.5), name="B"
    )
    golden(sl.schedule(B))


def test_where_and_init(golden: Golden) -> None:
    A = sl.placeholder((8, 8), name="A")
    k = sl.reduce_axis((2, 8), name="k")
    L = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k, where=k <= i, init=i), name="L")
    golden(sl.schedule(L))


def test_places_that_do_not_fit(golden: Golden) -> None:
    _, B, C = chain(64)
    D = sl.compute((64,), lambda i: B[i] * C[i], name="D")
    s = sl.schedule([C, D])
    s[B].compute_at(s[C], C.op.axis[0])
    golden(s)


def test_chains_of_choices(golden: Golden) -> None:
    A = sl.placeholder((64, 64), name="A")

    def at_edges(choose, y, x):  # type: ignore[no-untyped-def]
        edges = ((y < 1, A[0, x]), (y >= 63, A[63, x]), (x < 1, A[y, 0]), (x >= 63, A[y, 63]))
        value = A[y, x]
        for cond, edge in edges:
            value = choose(cond & (A[y, x] > 0), edge * 0.5, value)
        return value

    short = sl.compute((64,), lambda y: sl.select(y < 1, 0, sl.select(y < 2, 1, A[y, 0])), name="S")
    lazy = sl.compute((64, 64), lambda y, x: at_edges(sl.if_then_else, y, x), name="L")
    both = sl.compute((64, 64), lambda y, x: at_edges(sl.select, y, x), name="E")
    k = sl.reduce_axis(64, name="k")
    R = sl.compute((64,), lambda y: sl.sum(at_edges(sl.if_then_else, y, k), axis=k), name="R")
    golden(sl.schedule([short, lazy, both, R]))


def test_one_step_as_a_diff(golden: Golden) -> None:
    _, _, C = product(64, 64, 64)
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*C.op.axis, 8, 8)
    s[C].reorder(io, jo, C.op.reduce_axis[0], ii, ji)
    golden(s.diff(2))


def test_every_golden_text_has_its_test() -> None:
    written = {p.stem for p in (GOLDEN / "test_golden_nests").glob("*.txt")}
    assert written <= {name for name in globals() if name.startswith("test_")}
