"""Passes over loops: each keeps what a nest computes, and shows its decisions in the nest."""

from __future__ import annotations

import warnings
from dataclasses import replace
from random import Random
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import BuildError, SchedlangError
from schedlang.ir.interpret import cooperative, interpret
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Copies, Copy, For, Kept, Lanes, Masked, walk
from schedlang.ir.printer import nest_text
from schedlang.lowering.lower import lower_state
from schedlang.machine.loops.blocks import block_unrolls
from schedlang.machine.loops.conditions import settle_conditions
from schedlang.machine.loops.functions import becomes_function, mark_functions
from schedlang.machine.loops.job import LoopJob, LoopPass
from schedlang.machine.loops.plain_loops import mark_plain_loops
from schedlang.machine.loops.rounding import round_products
from schedlang.machine.loops.shared_loads import share_loads
from schedlang.machine.loops.streams import stream_stores
from schedlang.machine.loops.strips import strip_mine
from schedlang.machine.loops.sums import keep_sums
from schedlang.machine.loops.tails import peel_tails
from schedlang.machine.loops.transposes import transpose_loads
from schedlang.machine.loops.unroll import unroll
from schedlang.machine.lower import CPU_LOOP_PASSES
from tests.fuzz.case import MOST_ITERATIONS, given_arrays, iterations
from tests.fuzz.graphs import build, random_graph
from tests.fuzz.inputs import arrays
from tests.fuzz.record import Case
from tests.fuzz.search import schedule_randomly

NARROW = sl.Target("cpu", vector_bytes=16, vector_registers=16)
WIDE = sl.Target("cpu", vector_bytes=64, vector_registers=32)


def after(s: sl.Schedule, *passes: LoopPass, target: sl.Target = WIDE) -> Nest:
    nest = sl.lower(s)
    body = nest.body
    for run in passes:
        body = run(body, LoopJob(nest, target))
    return replace(nest, body=body)


def text(nest: Nest) -> str:
    """Return the statements of a nest as text, without the header."""
    return nest_text(nest).partition("\n\n")[2]


def golden(expected: str) -> str:
    return dedent(expected).strip("\n")


def doubled(n: int) -> sl.Schedule:
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[0])
    return s


def product(m: int, n: int, depth: int) -> tuple[sl.Schedule, sl.Tensor]:
    A, B = sl.placeholder((m, depth), name="A"), sl.placeholder((depth, n), name="B")
    k = sl.reduce_axis(depth, "k")
    C = sl.compute((m, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    s[C].reorder(k, *C.op.axis)
    return s, C


def unrolled(*shape: int, reduced: bool = False) -> sl.Schedule:
    """Return a stage whose loops are unrolled: a sum of an element and its indices."""
    A = sl.placeholder(shape, name="A")
    if len(shape) == 1:
        B = sl.compute(shape, lambda i: A[i] + i, name="B")
    else:
        B = sl.compute(shape, lambda *at: A[at] + sum(at), name="B")
    if reduced:
        k = sl.reduce_axis(shape[-1], "k")
        B = sl.compute(shape[:-1], lambda *at: sl.sum(A[(*at, k)], axis=k), name="B")
    s = sl.schedule(B)
    for axis in B.op.axis:
        s[B].unroll(axis)
    return s


def test_a_long_unrolled_loop_is_a_loop_over_blocks() -> None:
    assert text(after(unrolled(150), block_unrolls)) == golden("""
        for i in 0..2:
          unroll i.copy in 0..64:
            B[i*64 + i.copy] = A[i*64 + i.copy] + float32(i*64 + i.copy)
        unroll i.copy in 0..22:
          B[i.copy + 128] = A[i.copy + 128] + float32(i.copy + 128)
    """)
    assert text(after(unrolled(128), block_unrolls)) == text(sl.lower(unrolled(128)))


def test_the_last_iteration_alone_tests_its_lanes() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    s = sl.schedule(B)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=4, tail="guard")[1])
    nest = after(s, peel_tails)
    assert text(nest) == golden("""
        for i.outer in 0..n//4:
          vectorize i.inner in 0..4:
            B[i.outer*4 + i.inner] = A[i.outer*4 + i.inner] * 2
        for i.outer in 0..((n + 3)//4 - n//4):
          vectorize i.inner in 0..4:
            if (i.outer + n//4)*4 + i.inner < n:   # tail of i split by 4
              B[(i.outer + n//4)*4 + i.inner] = A[(i.outer + n//4)*4 + i.inner] * 2
    """)
    for size in (0, 1, 3, 4, 5, 8, 11):
        a = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(interpret(nest, [a]).outputs[0], a * 2)


@pytest.mark.parametrize("factor", [3, 8])
def test_the_tails_of_a_triangle(factor: int) -> None:
    A = sl.placeholder((21, 21), name="A")

    def row(i: sl.Expr) -> sl.Expr:
        k = sl.reduce_axis((0, i), name="k")
        return sl.sum(A[i, k], axis=k)

    S = sl.compute((21,), row, name="S")
    s = sl.schedule(S)
    inner = s[S].split(S.op.reduce_axis[0], factor=factor)[1]
    P = s.rfactor(S, inner)
    s[P].compute_at(s[S], S.op.axis[0])
    s[P].reorder(s[P].op.reduce_axis[0], s[P].op.axis[0])
    s[P].vectorize(s[P].op.axis[0])
    nest = after(s, peel_tails)
    peeled = [loop for loop in nest.loops if loop.axis is s[P].op.reduce_axis[0]]
    a = np.arange(441, dtype="float32").reshape(21, 21) % 7
    (sums,) = interpret(nest, [a]).outputs
    np.testing.assert_array_equal(sums, np.tril(a, -1).sum(axis=1))
    assert len(peeled) == 2


@pytest.mark.parametrize("shape", [(129,), (1024,), (31, 33), (2, 512), (512, 2), (3, 5, 61)])
def test_blocks_of_copies_are_right(shape: tuple[int, ...]) -> None:
    s = unrolled(*shape)
    f = sl.build(s, target="python")
    body = f.source[f.source.index("@njit") : f.source.index("def _array")]
    assert "for " in body and body.count("store(") <= 128
    a = np.random.default_rng(0).random(shape, "float32")
    np.testing.assert_allclose(f(a), a + sum(np.indices(shape)), rtol=1e-6)


def test_copies_that_may_keep_values_in_registers_stay_together() -> None:
    s = unrolled(16, 16, 3, reduced=True)
    assert text(after(s, block_unrolls)) == text(sl.lower(s))


def test_strips_and_a_remainder() -> None:
    assert text(after(doubled(147), strip_mine)) == golden("""
        for i in 0..128 by 64:
          64 lanes i:
            B[i] = A[i] * 2
        lanes i in 128..144:
          B[i] = A[i] * 2
        lanes i in 144..146:
          B[i] = A[i] * 2
        i = 146:
          B[i] = A[i] * 2
        """)


def test_vectors_that_update_kept_sums_are_written_out() -> None:
    s, C = product(1, 100, 9)
    s[C].vectorize(C.op.axis[1])
    found = text(after(s, keep_sums, strip_mine)).partition("keep")[2]
    assert "keep" + found == golden("""
        keep C in registers:
          for k in 0..9:
            lanes j in 0..64:
              C[0, j] += A[0, k] * B[k, j]
            lanes j in 64..96:
              C[0, j] += A[0, k] * B[k, j]
            lanes j in 96..100:
              C[0, j] += A[0, k] * B[k, j]
        """)


def test_a_tile_of_sums_in_registers() -> None:
    s, C = product(2, 16, 9)
    s[C].unroll(C.op.axis[0])
    s[C].vectorize(C.op.axis[1])
    assert text(after(s, keep_sums, strip_mine, unroll, share_loads)) == golden("""
        copies:
          i = 0:
            lanes j in 0..16:
              C[i, j] = 0
          i = 1:
            lanes j in 0..16:
              C[i, j] = 0
        keep C in registers:
          for k in 0..9:
            copies, which share loads of B:
              i = 0:
                lanes j in 0..16:
                  C[i, j] += A[i, k] * B[k, j]
              i = 1:
                lanes j in 0..16:
                  C[i, j] += A[i, k] * B[k, j]
        """)


def guarded() -> tuple[sl.Schedule, sl.Tensor]:
    A = sl.placeholder((30,), name="A")
    B = sl.compute((30,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    outer, inner = s[B].split(B.op.axis[0], factor=16, tail="guard")
    s[B].vectorize(inner)
    return s, B


def test_a_guard_that_differs_between_lanes_is_a_mask() -> None:
    s, _ = guarded()
    assert text(after(s, strip_mine, settle_conditions)) == golden("""
        for i.outer in 0..2:
          lanes i.inner in 0..16:
            mask i.outer*16 + i.inner < 30:   # tail of i split by 16
              B[i.outer*16 + i.inner] = A[i.outer*16 + i.inner] + 1
        """)


def test_copies_settle_their_conditions() -> None:
    s, B = guarded()
    s[B].unroll(s[B].leaf_iter_vars[0])
    assert text(after(s, strip_mine, unroll, settle_conditions)) == golden("""
        copies:
          i.outer = 0:
            lanes i.inner in 0..16:
              B[i.outer*16 + i.inner] = A[i.outer*16 + i.inner] + 1
          i.outer = 1:
            lanes i.inner in 0..16:
              mask i.outer*16 + i.inner < 30:   # tail of i split by 16
                B[i.outer*16 + i.inner] = A[i.outer*16 + i.inner] + 1
        """)


def test_conditions_of_whole_strips_hold() -> None:
    A = sl.placeholder((200,), name="A")
    B = sl.compute((200,), lambda i: sl.if_then_else(i >= 100, A[i], 0.0), name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[0])
    found = after(s, strip_mine, settle_conditions)
    lines = text(found).splitlines()
    assert lines[-1].strip() == "B[i] = A[i]" and "if i >= 100" in lines[2]


def transposed(reads: str) -> sl.Schedule:
    A = sl.placeholder((64, 8), name="A")
    k = sl.reduce_axis(8, "k")
    rows = {
        "all": lambda i: sl.sum(A[i, k], axis=k),
        "some": lambda i: sl.sum(sl.if_then_else(k < 5, A[i, k], 0.0), axis=k),
    }
    C = sl.compute((64,), rows[reads], name="C")
    s = sl.schedule(C)
    outer, lanes = s[C].split(C.op.axis[0], factor=16)
    s[C].reorder(outer, k, lanes)
    s[C].unroll(k)
    s[C].vectorize(lanes)
    return s


@pytest.mark.parametrize("reads", ["all", "some"])
def test_a_block_is_transposed_only_if_its_rows_are_read_whole(reads: str) -> None:
    passes = (keep_sums, strip_mine, unroll, settle_conditions, transpose_loads)
    found = text(after(transposed(reads), *passes))
    assert ("copies, transposed: A:" in found) == (reads == "all")
    s = transposed(reads)
    A = np.random.default_rng(0).random((64, 8), "float32")
    wanted = A.sum(1) if reads == "all" else A[:, :5].sum(1)
    np.testing.assert_allclose(sl.build(s, target="python")(A), wanted, rtol=1e-5)


def test_pragmas_of_a_plain_loop() -> None:
    A = sl.placeholder((4, 32), name="A")
    B = sl.compute((4, 32), lambda i, j: A[i, j] + 1, name="B")
    assert text(after(sl.schedule(B), mark_plain_loops)) == golden("""
        for i in 0..4:
          for j in 0..32:   # pragma vectorizable, pragma rolled = 2
            B[i, j] = A[i, j] + 1
        """)


def test_a_sum_that_waits_adds_rounded_products() -> None:
    A, x = sl.placeholder((5, 1000), name="A"), sl.placeholder((1000,), name="x")
    k = sl.reduce_axis(1000, "k")
    y = sl.compute((5,), lambda i: sl.sum(A[i, k] * x[k], axis=k), name="y")
    found = text(after(sl.schedule(y), keep_sums, round_products))
    assert found == golden("""
        for i in 0..5:
          y[i] = 0
          keep y in registers:
            for k in 0..1000:
              y[i] = y[i] + rounded(A[i, k] * x[k])
        """)


def test_streamed_stores() -> None:
    s = doubled(64)
    s[s.outputs[0]].pragma(s[s.outputs[0]].leaf_iter_vars[0], "nontemporal")
    stores = [s_ for s_, _ in walk(after(s, stream_stores).body) if hasattr(s_, "streamed")]
    assert [store.streamed for store in stores] == [True]


def test_sums_stay_in_registers_under_a_mask() -> None:
    A, B = sl.placeholder((7, 13), name="A"), sl.placeholder((7, 30), name="B")
    k = sl.reduce_axis(7, "k")
    C = sl.compute((13, 30), lambda i, j: sl.sum(A[k, i] * B[k, j], axis=k), name="C")
    s = sl.schedule(C)
    i, j = C.op.axis
    outer, inner = s[C].split(j, factor=8, tail="guard")
    s[C].reorder(i, outer, inner, k)
    s[C].vectorize(inner)
    found = after(s, keep_sums, strip_mine, settle_conditions)
    masks = [stmt for stmt, _ in walk(found.body) if isinstance(stmt, Masked)]
    assert any(isinstance(inside, Kept) for mask in masks for inside, _ in walk(mask.body))
    loop = str(sl.build(s, target="python").machine_nest).partition("for k in 0..7:")[2]
    assert "C_sum = C_sum +" in loop and "vload_masked(C" not in loop
    rng = np.random.default_rng(0)
    a, b = rng.random((7, 13), "float32"), rng.random((7, 30), "float32")
    for target in ("python", "cpu"):
        np.testing.assert_allclose(sl.build(s, target=target)(a, b), a.T @ b, rtol=1e-5)


def test_lanes_outside_of_a_mask_keep_their_first_value() -> None:
    A = sl.placeholder((24, 5), name="A")
    k = sl.reduce_axis(5, "k")
    C = sl.compute((24,), lambda i: sl.prod(A[i, k], axis=k, where=i % 3 == 0), name="C")
    s = sl.schedule(C)
    s[C].vectorize(C.op.axis[0])
    found = after(s, keep_sums, strip_mine, settle_conditions)
    assert any(isinstance(stmt, Kept) for stmt, _ in walk(found.body))
    a = np.random.default_rng(0).random((24, 5), "float32")
    wanted = np.where(np.arange(24) % 3 == 0, a.prod(1), 1)
    for target in ("python", "cpu"):
        np.testing.assert_allclose(sl.build(s, target=target)(a), wanted, rtol=1e-5)


def test_a_gathered_test_under_a_mask_is_one_for_all_lanes() -> None:
    A, F = sl.placeholder((7, 30), name="A"), sl.placeholder((9,), name="F")
    X = sl.placeholder((7,), "int64", name="X")
    k = sl.reduce_axis(7, "k")
    C = sl.compute((30,), lambda i: sl.sum(A[k, i], axis=k, where=F[X[k]] > 0.5), name="C")
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[0], factor=8, tail="guard")[1])
    rng = np.random.default_rng(0)
    arrays = (rng.random((7, 30), "float32"), rng.random(9, "float32"), rng.integers(0, 9, 7))
    given = dict(zip("AFX", arrays))
    f = sl.build(s, target="python")
    ordered = [given[p.name] for p in f.signature.parameters if p.name in given]
    np.testing.assert_allclose(f(*ordered), sl.reference(C)(*ordered), rtol=1e-6)


def test_the_last_value_of_a_reduction_under_a_mask() -> None:
    v = sl.placeholder((5,), name="v")
    k = sl.reduce_axis(5, "k")
    last = sl.comm_reducer(lambda x, y: y, lambda t: sl.const(0, t), name="last", trusted=True)
    C = sl.compute((30,), lambda i: last(v[k], axis=k), name="C")
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[0], factor=8, tail="guard")[1])
    values = np.arange(5, dtype="float32")
    for target in ("python", "cpu"):
        np.testing.assert_array_equal(sl.build(s, target=target)(values), np.full(30, 4.0))


def test_copies_count_in_each_function_alone() -> None:
    A = sl.placeholder((40,), name="A")
    B = sl.compute((40, *[2] * 17, 30), lambda *i: A[i[0]] + 1, name="B")
    s = sl.schedule(B)
    s[B].unroll(B.op.axis[0])
    s[B].unroll(B.op.axis[-1])
    nest = sl.lower(s)
    body = mark_functions(nest.body, LoopJob(nest, WIDE))
    marked = [f for f, _ in walk(body) if isinstance(f, For) and becomes_function(f)]
    assert [loop.axis.name for loop in marked] == [B.op.axis[17].name]
    # 40 copies of a call, of a function with 30 copies
    assert len(sl.build(s, target="python").machine_nest.functions) > 1


def test_a_vectorized_loop_inside_of_another_is_refused() -> None:
    s, C = product(8, 8, 3)
    nest = sl.lower(s)
    for_i = next(loop for loop in nest.loops if loop.axis.name == "i")

    def vectorized(loop: For) -> For:
        inner = loop.body.stmts[0]
        assert isinstance(inner, For)
        body = replace(loop.body, stmts=(replace(inner, kind="vectorize"),))
        return replace(loop, kind="vectorize", body=body)

    body = replace(nest.body, stmts=(vectorized(for_i),))
    with pytest.raises(BuildError, match="vectorizes j inside the vectorized loop i"):
        strip_mine(body, LoopJob(replace(nest, body=body), WIDE))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**20))
def test_each_pass_keeps_what_a_random_schedule_computes(seed: int) -> None:
    rng = Random(seed)
    case = Case(str(seed), random_graph(rng))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # a computation may be refused, such as the maximum of no elements
            space = build(case.graph)
            outputs = [space[name] for name in case.graph.outputs]
            s = schedule_randomly(rng, case, outputs, False)
            nest = lower_state(s.state)
        except SchedlangError:
            return
    if cooperative(nest) or iterations(nest, case.graph.sizes) > MOST_ITERATIONS // 10:
        return
    values = arrays(case.graph, seed, case.graph.sizes)
    given_ = given_arrays(nest, values, case.graph.sizes)
    wanted = interpret(nest, given_).outputs
    body = nest.body
    for run in CPU_LOOP_PASSES:
        try:
            body = run(body, LoopJob(nest, NARROW))
        except BuildError:
            return
        # a rounded update is a plain store, so elements count as finalised more than once
        found = interpret(replace(nest, body=body), given_, complete=False).outputs
        for one, other in zip(found, wanted):
            np.testing.assert_array_equal(one, other, err_msg=run.__name__)
    left = [stmt for stmt, _ in walk(body) if isinstance(stmt, For)]
    assert not any(loop.kind == "vectorize" for loop in left)
    assert all(lanes.count > 1 for lanes, _ in walk(body) if isinstance(lanes, Lanes))


def squares(stages: int) -> sl.Schedule:
    """Return the square of a matrix, squared again and again, with 1,024 sums in each tile."""
    T = sl.placeholder((64, 64), name="A")
    tensors = []
    for number in range(stages):
        k = sl.reduce_axis(64, name="k")
        T = sl.compute(
            (64, 64), lambda i, j, T=T, k=k: sl.sum(T[i, k] * T[k, j], axis=k), name=f"B{number}"
        )
        tensors.append(T)
    s = sl.schedule(T)
    for T in tensors:
        x, y, xi, yi = s[T].tile(*T.op.axis, 32, 32)
        s[T].reorder(x, y, T.op.reduce_axis[0], xi, yi)
        s[T].unroll(xi)
        s[T].unroll(yi)
    return s


@pytest.mark.parametrize("target", ["cpu", "python", "c"])
@pytest.mark.parametrize(("stages", "most"), [
    (6, 5_000), pytest.param(100, 100_000, marks=pytest.mark.slow),
])  # fmt: skip
def test_a_kernel_of_too_many_statements_is_refused(
    target: str, stages: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlang.machine.loops.statement_count.MOST_STATEMENTS", most)
    s = squares(stages)
    with pytest.raises(BuildError) as refused:
        sl.build(s, target=target)
    message = str(refused.value)
    count = int(message.partition("it has ")[2].partition(" ")[0].replace(",", ""))
    passes = CPU_LOOP_PASSES[: CPU_LOOP_PASSES.index(unroll) + 1]
    # a walk visits each copy
    grouping = (Block, Copies, Copy, Lanes)
    nest = after(s, *passes)
    assert count == sum(not isinstance(stmt, grouping) for stmt, _ in walk(nest.body)) > most
    last = f"kernel B{stages - 1}"
    assert message.startswith(f"{last}: with its unrolled loops and vectors written out")
    assert f"at most {most:,} statements in all. Stage B" in message
    assert "1,024 of them, by unrolling i.inner (32 copies) and j.inner (32 copies)." in message
