"""Bounds inference gives the smallest boxes, few guards, and each output element once."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.reference import reference
from schedlang.errors import LoweringError, ScheduleError
from schedlang.expr.nodes import Axis, Const
from schedlang.index.linear import ZERO, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod
from schedlang.ir.interpret import interpret
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, If, Store
from schedlang.ir.verify import verify
from schedlang.lowering.hoist import hoist
from schedlang.lowering.lower import lower_state
from tests.marks import slow_but


def shape(s, name):
    """Return the printed shape of the storage of stage ``name``."""
    return [str(e) for b in lowered(s).buffers for e in b.shape if b.name == name]


def lowered(s) -> Nest:
    nest = lower_state(s.state)
    verify(nest)
    return nest


def checked(s, output, *arrays):
    """Check the result with loops run forward and backward, and return the nest."""
    nest = lowered(s)
    want = reference(output)(*arrays)
    for order in ("forward", "reverse"):
        run = interpret(nest, list(arrays), order)
        np.testing.assert_allclose(run.outputs[0], want, rtol=1e-5)
    return nest


def body(s):
    return str(lowered(s)).split("\n\n", 1)[1].splitlines()


def values(*size):
    return np.random.default_rng(0).integers(-9, 9, size=size).astype("float32")


def blur():
    A = sl.placeholder((14, 14), name="A")
    B = sl.compute((14, 14), lambda i, j: A[i, j] * 2, name="B")
    around = ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
    C = sl.compute((12, 12), lambda i, j: sum(B[i + y, j + x] for y, x in around), name="C")
    return B, C


def test_five_point_blur_needs_three_by_three():
    B, C = blur()
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[1])
    assert shape(s, "B") == ["3", "3"]
    checked(s, C, values(14, 14))


def test_five_point_blur_at_a_row_needs_three_rows():
    B, C = blur()
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    assert shape(s, "B") == ["3", "14"]
    checked(s, C, values(14, 14))


def test_conv1d_of_three_taps_needs_three():
    A = sl.placeholder((12,), name="A")
    B = sl.compute((12,), lambda i: A[i] * 2, name="B")
    W = sl.placeholder((3,), name="W")
    k = sl.reduce_axis(3, name="k")
    C = sl.compute((10,), lambda i: sl.sum(B[i + k] * W[k], axis=k), name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    assert shape(s, "B") == ["3"]
    checked(s, C, values(12), values(3))


def test_shared_rows_and_columns_need_what_all_threads_read():
    A = sl.placeholder((64, 64), name="A")
    B = sl.compute((64, 64), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((64, 64), lambda i, j: B[i, j] * 2, name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    io, ii = s[C].split(i, factor=32)
    tx, ii = s[C].split(ii, nparts=16)
    jo, ji = s[C].split(j, factor=16)
    s[C].reorder(io, jo, tx, ii, ji)
    s[C].bind(tx, "threadIdx.x")
    s[B].set_scope("shared")
    s[B].compute_at(s[C], tx)
    assert shape(s, "B") == ["32", "16"]
    s[B].set_scope("local")
    assert shape(s, "B") == ["2", "16"]


def test_a_fused_consumer_at_outer_five_needs_row_two_and_columns_three_to_five():
    A = sl.placeholder((3, 6), name="A")
    B = sl.compute((3, 6), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((3, 6), lambda i, j: B[i, j] * 2, name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), factor=3)
    s[B].compute_at(s[C], outer)
    assert shape(s, "B") == ["1", "3"]
    nest = checked(s, C, values(3, 6))
    # at outer 5: row 5//2 = 2, columns from 5%2*3 = 3 on
    assert "A[i.j.fused.outer//2, i.j.fused.outer%2*3 + j]" in str(nest)


def symbolic():
    n, m = sl.var("n"), sl.var("m")
    A = sl.placeholder((n, m), name="A")
    B = sl.compute((n, m), lambda i, j: A[i, j] + 1, name="B")
    C = sl.compute((n, m), lambda i, j: B[i, j] * 2, name="C")
    return B, C


SIZES = [(0, 3), (1, 1), (7, 9), (8, 16), (13, 5)]


@pytest.mark.parametrize("size", SIZES)
def test_symbolic_sizes_give_symbolic_boxes(size):
    B, C = symbolic()
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    assert shape(s, "B") == ["1", "m"]
    checked(s, C, values(*size))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tail", ["guard", "cut"])
def test_symbolic_tiles(size, tail):
    B, C = symbolic()
    s = sl.schedule(C)
    _, jo, _, _ = s[C].tile(*C.op.axis, 8, 8, tail=tail)
    s[B].compute_at(s[C], jo)
    assert shape(s, "B")[:2] == ["8", "8"]
    checked(s, C, values(*size))


def test_a_symbolic_split_keeps_its_producer_whole():
    B, C = symbolic()
    s = sl.schedule(C)
    s[C].split(C.op.axis[1], factor=8)
    s[C].split(C.op.axis[0], nparts=4)
    assert shape(s, "B") == ["n", "m"]
    checked(s, C, values(13, 5))


def line(n):
    A = sl.placeholder((n,), name="A")
    return sl.compute((n,), lambda i: A[i] * 2, name="C")


@pytest.mark.parametrize("tail", ["auto", "guard", "cut"])
@pytest.mark.parametrize(("extent", "factors"), [
    (100, (48, 32)), (255, (64,)), (1027, (16,)), (1025, (64, 16)), (129, (32, 8)), (1027, (1025,)),
    (129, (128, 5, 3)),
])  # fmt: skip
def test_awkward_extents_are_finalised_once(extent, factors, tail):
    C = line(extent)
    s = sl.schedule(C)
    axis = C.op.axis[0]
    for factor in factors:
        _, axis = s[C].split(axis, factor=factor, tail=tail)
    nest = checked(s, C, values(extent))
    assert bool(nest.guards) == (tail != "cut")


@pytest.mark.parametrize("extent", [100, 129, 1027])
def test_nested_splits_cut_on_both_parts(extent):
    C = line(extent)
    s = sl.schedule(C)
    _, inner = s[C].split(C.op.axis[0], factor=24, tail="cut")
    s[C].split(inner, factor=7, tail="cut")
    checked(s, C, values(extent))


def test_a_cut_whose_outer_loop_is_gone_is_refused():
    C = line(100)
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=24, tail="cut")
    with pytest.raises(ScheduleError, match="i.outer was turned into i.outer.outer and "
                                            "i.outer.inner"):
        s[C].split(outer, factor=3)
    assert len(s.steps) == 1


def test_a_guard_stands_once_around_init_and_update():
    A = sl.placeholder((13, 5), name="A")
    k = sl.reduce_axis(5, name="k")
    C = sl.compute((13,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    s[C].split(C.op.axis[0], factor=4, tail="guard")
    assert body(s) == [
        "for i.outer in 0..4:",
        "  for i.inner in 0..4:",
        "    if i.outer*4 + i.inner < 13:   # tail of i split by 4",
        "      C[i.outer*4 + i.inner] = 0",
        "      for k in 0..5:",
        "        C[i.outer*4 + i.inner] += A[i.outer*4 + i.inner, k]",
    ]


def test_a_guard_is_hoisted_out_of_loops_it_does_not_use():
    A = sl.placeholder((13, 8), name="A")
    C = sl.compute((13, 8), lambda i, j: A[i, j] * 2, name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    _, inner = s[C].split(i, factor=4, tail="guard")
    assert body(s)[2].startswith("    if ")
    s[C].reorder(inner, j)
    checked(s, C, values(13, 8))


def test_a_sliding_window_computes_each_row_once():
    A = sl.placeholder((16,), name="A")
    B = sl.compute((16,), lambda i: A[i] * 2, name="B")
    C = sl.compute((14,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].store_root()
    run = interpret(lowered(s), [values(16)])
    assert run.stores["B"] == 16
    assert any("(i == 0) | (B.i > 1)" in text for text in body(s))
    checked(s, C, values(16))


def test_the_producer_of_a_sliding_stage_computes_new_rows_only():
    A = sl.placeholder((16,), name="A")
    P = sl.compute((16,), lambda i: A[i] + 1, name="P")
    B = sl.compute((16,), lambda i: P[i] * 2, name="B")
    C = sl.compute((14,), lambda i: B[i] + B[i + 1] + B[i + 2], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].store_root()
    s[P].compute_at(s[B], B.op.axis[0])
    run = interpret(lowered(s), [values(16)])
    assert run.stores["B"] == run.stores["P"] == 16
    checked(s, C, values(16))


@pytest.mark.parametrize("factor", [2, 3, 4, 5])
@pytest.mark.parametrize("tail", ["cut", "guard"])
def test_a_split_sliding_stage_computes_each_row_once(factor: int, tail: str):
    A = sl.placeholder((16, 3), name="A")
    P = sl.compute((16, 3), lambda i, j: A[i, j] + 1, name="P")
    k = sl.reduce_axis(3, name="k")
    B = sl.compute((16,), lambda i: sl.sum(P[i, k], axis=k), name="B")
    C = sl.compute((12,), lambda i: B[i] + B[i + 2] + B[i + 4], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].store_root()
    outer, inner = s[B].split(B.op.axis[0], factor=factor, tail=tail)
    s[P].compute_at(s[B], inner)
    run = interpret(lowered(s), [values(16, 3)])
    assert run.stores["P"] == 16 * 3
    checked(s, C, values(16, 3))


def test_a_guard_moves_out_of_a_parallel_loop():
    A = sl.placeholder((6, 8), name="A")
    k = sl.reduce_axis(4, name="k")
    C = sl.compute((6, 8), lambda i, j: sl.sum(A[i, j] * k, axis=k, where=k < i), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    s[C].reorder(i, k, j)
    s[C].parallel(j)
    lines = body(s)
    at = next(n for n, text in enumerate(lines) if text.strip().startswith("if "))
    assert lines[at + 1].strip().startswith("parallel j")
    checked(s, C, values(6, 8))


def test_a_sliding_reduction_starts_and_sums_new_rows_only():
    A = sl.placeholder((9, 4), name="A")
    k = sl.reduce_axis(4, name="k")
    B = sl.compute((9,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    C = sl.compute((7,), lambda i: B[i] + B[i + 2], name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=3)
    s[B].compute_at(s[C], inner)
    s[B].store_at(s[C], outer)
    checked(s, C, values(9, 4))
    s[B].store_root()
    checked(s, C, values(9, 4))


def test_storage_outside_of_a_parallel_loop_is_refused():
    B, C = blur()
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[1])
    s[B].store_root()
    with pytest.raises(
        ScheduleError, match="iterations that run at the same time would write the same storage"
    ):
        s[C].parallel(C.op.axis[0])
    assert len(s.steps) == 2


def test_inlined_stages_between_do_not_widen_a_box():
    A = sl.placeholder((12,), name="A")
    B = sl.compute((12,), lambda i: A[i] * 2, name="B")
    T = sl.compute((11,), lambda i: B[i] + B[i + 1], name="T")
    C = sl.compute((10,), lambda i: T[i] + T[i + 1], name="C")
    s = sl.schedule(C)
    s[T].compute_inline()
    s[B].compute_at(s[C], C.op.axis[0])
    assert shape(s, "B") == ["3"]
    checked(s, C, values(12))


def test_a_clamped_read_needs_one_element():
    A = sl.placeholder((12,), name="A")
    B = sl.compute((12,), lambda i: A[i] * 2, name="B")
    C = sl.compute((12,), lambda i: B[sl.max(sl.min(i - 2, 11), 0)], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    assert shape(s, "B") == ["1"]
    checked(s, C, values(12))


def test_a_gathered_dimension_is_kept_whole():
    A = sl.placeholder((12, 3), name="A")
    table = sl.placeholder((5,), "int32", name="table")
    B = sl.compute((12, 3), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((5, 3), lambda i, j: B[table[i], j], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[1])
    assert shape(s, "B") == ["12", "1"]
    at = np.array([3, 0, 11, 5, 3], "int32")
    oracle = reference(C)
    given = {"A": values(12, 3), "table": at}
    ordered = [given[t.name] for t in oracle.inputs]
    checked(s, C, *ordered)


def test_a_prefetch_stays_within_its_tensor():
    A = sl.placeholder((10,), name="A")
    C = sl.compute((10,), lambda i: A[i] * 2, name="C")
    s = sl.schedule(C)
    s[C].prefetch(A, C.op.axis[0], 4)
    assert "  prefetch A[min(i + 4, 9)]" in body(s)
    checked(s, C, values(10))


def test_a_reduction_axis_that_starts_later_keeps_its_range():
    A = sl.placeholder((6,), name="A")
    B = sl.compute((6,), lambda i: A[i] * 2, name="B")
    k = sl.reduce_axis((1, 5), name="k")
    C = sl.compute((3,), lambda i: sl.sum(B[sl.min(k + 2, 4)] + B[k], axis=k), name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], k)
    checked(s, C, values(6))


def test_threads_with_storage_of_their_own_share_no_loop():
    B, C = blur()
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].bind(B.op.axis[0], "threadIdx.x")
    with pytest.raises(LoweringError, match="each threadIdx.x has its own local storage"):
        lower_state(s.state)
    s[B].set_scope("shared")
    with pytest.raises(
        LoweringError,
        match="(?s)i has 14 iterations, but B is computed inside a loop of 12 threadIdx.x"
        ".*bind the loop of extent 12: the inner loop of factor=12, or the outer",
    ):
        lower_state(s.state)


def test_threads_share_what_they_fetch_together():
    B, C = blur()
    s = sl.schedule(C)
    s[C].bind(C.op.axis[0], "threadIdx.x")
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope("shared")
    _, row = s[B].split(B.op.axis[0], 12)
    s[B].bind(row, "threadIdx.x")
    lowered(s)


@pytest.mark.parametrize("how", slow_but(["inline", "attached"], ["root", "inline", "attached"]))
def test_long_chains_lower_without_recursion(how):
    t = sl.placeholder((16,), name="A")
    stages = []
    for k in range(1200):
        t = sl.compute((16,), lambda i, t=t: t[i] + 1, name=f"S{k}")
        stages.append(t)
    s = sl.schedule(t)
    outer, _ = s[t].split(t.op.axis[0], factor=4)
    for producer in stages[:-1]:
        if how == "inline":
            s[producer].compute_inline()
        elif how == "attached":
            s[producer].compute_at(s[t], outer)
    nest = lowered(s)
    assert len(nest.buffers) == (2 if how == "inline" else 1201)


@pytest.mark.parametrize("how", ["root", "attached", "parts", "parallel"])
def test_sizes_of_zero_cause_no_division_by_zero(how):
    size = sl.var("n")
    A = sl.placeholder((size, size), name="A")
    B = sl.compute((size, size), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((size, size), lambda i, j: B[i, j] + 1, name="C")
    s = sl.schedule(C)
    fused = s[C].fuse(*C.op.axis)
    if how != "root":
        outer, _ = s[C].split(fused, nparts=4)
    if how in ("attached", "parallel"):
        s[B].compute_at(s[C], outer)
    if how in ("parts", "parallel"):
        _, inner = s[B].split(s[B].fuse(*B.op.axis), nparts=3)
        s[B].parallel(inner)
    f = sl.build(s, target="python")
    for n in (0, 1, 3, 7):
        a = values(n, n)
        np.testing.assert_allclose(f(a), a * 2 + 1, rtol=1e-6)


def test_quotients_of_sizes_that_need_no_division():
    n, ranges = Lin.of(sl.var("n")), Ranges()
    assert floordiv(ZERO, n, ranges) == ZERO
    assert mod(ZERO, n, ranges) == ZERO
    assert floordiv(n * n - 1, n, ranges) == n - 1
    assert mod(n * n - 1, n, ranges) == n - 1


def test_neighbouring_guards_join_only_where_they_test_the_same():
    i, j = Axis("i", 8), Axis("i", 8)
    out = Buffer("out", "int64", (8,))

    def guarded(axis: Axis, bound: int) -> If:
        store = Store((out,), (Const(bound, "int64", True),), (Const(1, "int64"),))
        return If(axis < bound, Block((store,)), "tail")

    joined = hoist(Block((guarded(i, 3), guarded(i, 3), guarded(i, 4), guarded(j, 4))))
    assert [len(s.body.stmts) for s in joined.stmts] == [2, 1, 1]


@pytest.mark.parametrize("factor_axis", [0, 1])
def test_a_condition_on_data_is_tested_inside_the_guard_of_its_rfactor(factor_axis: int):
    A = sl.placeholder((5, 40), name="A")
    k = sl.reduce_axis(40, name="k")
    S = sl.compute((5,), lambda i: sl.sum(A[i, k], axis=k, where=A[i, 39 - k] < 3), name="S")
    s = sl.schedule(S)
    _, inner = s[S].split(k, factor=16)
    P = s.rfactor(S, inner, factor_axis)
    s[P].vectorize(s[P].op.axis[factor_axis])
    a = values(5, 40)
    checked(s, S, a)
    for target in ("python", "cpu"):
        expected = reference(S)(a)
        np.testing.assert_allclose(sl.build(s, [A, S], target=target)(a), expected, rtol=1e-5)


def test_an_attached_box_of_fixed_size_is_vectorized():
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n,), lambda i: B[i] + 1, name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=16, tail="cut")
    s[B].compute_at(s[C], outer)
    s[B].vectorize(B.op.axis[0])
    f = sl.build(s, [A, C])
    for size in (0, 1, 16, 53):
        np.testing.assert_allclose(f(values(size)), values(size) * 2 + 1, rtol=1e-6)
    with pytest.raises(ScheduleError, match="at root its extent is n, which is known only at run"):
        s[B].compute_root()
    assert len(s.steps) == 3


def test_the_limit_of_unroll_applies_to_the_attached_box():
    A = sl.placeholder((4096,), name="A")
    B = sl.compute((4096,), lambda i: A[i] * 2, name="B")
    C = sl.compute((4096,), lambda i: B[i] + 1, name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    s[B].unroll(B.op.axis[0])
    checked(s, C, values(4096))


def test_the_tail_of_a_fused_row_needs_no_later_row():
    """Row 0 has seven elements in two loops of four; the eighth needs nothing of row 1."""
    A = sl.placeholder((3, 7), name="A")
    B = sl.compute((3, 7), lambda i, j: A[i, j] * 2, name="B")
    C = sl.compute((3, 7), lambda i, j: B[i, 6 - j], name="C")
    D = sl.compute((3, 7), lambda i, j: C[i, j] + 1, name="D")
    s = sl.schedule(D)
    for stage in (C, B):
        s[stage].compute_at(s[D], D.op.axis[0])
    s[C].split(s[C].fuse(*C.op.axis), factor=4, tail="guard")
    assert shape(s, "B") == ["1", "7"]
    checked(s, D, values(3, 7))


def test_a_nest_of_hundreds_of_loops_is_lowered() -> None:
    tensors = [sl.placeholder((500,), "float32", name="A")]
    for k in range(300):
        step, before = sl.reduce_axis((0, 2), name=f"k{k}"), tensors[-1]

        def body(i):
            return sl.sum(before[i + step], axis=step)  # noqa: B023

        tensors.append(sl.compute((499 - k,), body, name=f"S{k}"))
    s = sl.create_schedule(tensors[-1])
    for inner, outer in zip(tensors[1:], tensors[2:]):
        s[inner].compute_at(s[outer], s[outer].op.reduce_axis[0])
    assert str(sl.lower(s, [tensors[0], tensors[-1]])).count("for k") == 300
