"""Calls that te programs make: steps in te's order, threads beyond a short axis, arguments."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import schedlang as sl
import schedlang as tvm
from schedlang import te
from schedlang.errors import ScheduleError

RNG = np.random.default_rng(0)


def chain(rows: int = 37, columns: int = 5) -> tuple[Any, Any, Any]:
    A = te.placeholder((rows, columns), name="A")
    B = te.compute((rows, columns), lambda i, j: A[i, j] + 1, name="B")
    return A, B, te.compute((rows, columns), lambda i, j: B[i, j] * 2, name="C")


def check(s: Any, args: Any, expected: Any, target: str = "python", rtol: float = 1e-5) -> None:
    """Compare the kernel of a schedule with a function of NumPy."""
    *inputs, _ = args
    arrays = [RNG.random(t.shape).astype(t.dtype) for t in inputs]
    np.testing.assert_allclose(tvm.build(s, args, target)(*arrays), expected(*arrays), rtol=rtol)
    again = sl.schedule(list(s.outputs)).from_json(s.to_json(), list(s.outputs))
    assert str(again) == str(s)


def test_a_loop_may_be_annotated_twice_in_the_same_way() -> None:
    A, _, C = chain()
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    for _ in range(2):
        s[C].unroll(j)
        s[C].parallel(i)
    with pytest.raises(ScheduleError, match="j is already unrolled"):
        s[C].vectorize(j)
    check(s, [A, C], lambda a: (a + 1) * 2)


def test_a_thread_may_be_bound_twice() -> None:
    A, _, C = chain(8, 8)
    s = te.create_schedule(C.op)
    s[s.stages[0]].compute_inline()
    for _ in range(2):
        s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
        s[C].bind(C.op.axis[1], te.thread_axis("threadIdx.x"))
    check(s, [A, C], lambda a: (a + 1) * 2, "cuda-emulator")


@pytest.mark.parametrize("target", ["python", "llvm", "c"])
def test_an_argument_that_no_stage_reads(target: str) -> None:
    n = te.var("n")
    A, U = te.placeholder((n,), name="A"), te.placeholder((n, 3), "int32", name="U")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    f = tvm.build(te.create_schedule(B.op), [U, A, B], target)
    x = np.ones(7, "float32")
    np.testing.assert_array_equal(f(np.zeros((7, 3), "int32"), x), x + 1)
    with pytest.raises(sl.errors.CallError, match="n is 6 in dimension 0 of U and 7"):
        f(np.zeros((6, 3), "int32"), x)


def test_the_state_of_a_scan_is_no_argument() -> None:
    X, S = te.placeholder((5, 4), name="X"), te.placeholder((5, 4), name="S")
    first = te.compute((1, 4), lambda _, i: X[0, i], name="first")
    step = te.compute((5, 4), lambda t, i: S[t - 1, i] + X[t, i], name="step")
    R = te.scan(first, step, S, inputs=[X], name="R")
    s = te.create_schedule(R.op)
    with pytest.raises(sl.errors.LoweringError, match="S, is not a tensor of this computation"):
        tvm.build(s, [X, S, R])


@pytest.mark.parametrize("name", ["unroll", "vectorize", "auto_unroll_max_step"])
def test_a_pragma_of_te_stays_out_of_the_way(name: str) -> None:
    A, _, C = chain()
    s = te.create_schedule(C.op)
    s[C].pragma(C.op.axis[0], name, 4)
    s[C].split(C.op.axis[0], factor=8)
    check(s, [A, C], lambda a: (a + 1) * 2)


def test_a_pipeline_of_an_fpga_is_a_pragma() -> None:
    A, _, C = chain()
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], nparts=1)
    s[C].bind(outer, te.thread_axis("pipeline"))
    assert "# pragma pipeline" in str(s)
    check(s, [A, C], lambda a: (a + 1) * 2)
    with pytest.raises(sl.errors.ComputeError, match="'pipelines' is not a thread"):
        te.thread_axis("pipelines")


def test_a_cache_keeps_earlier_steps_on_data_axes() -> None:
    A = te.placeholder((9, 37), name="A")
    k = te.reduce_axis((0, 37), name="k")
    D = te.compute((9,), lambda i: te.sum(A[i, k], axis=k), name="D")
    s = te.create_schedule(D.op)
    outer, inner = s[D].split(D.op.axis[0], factor=4)
    s[D].parallel(outer)
    s[D].vectorize(inner)
    L = s.cache_write(D, "local")
    s[L].compute_at(s[D], outer)
    s[L].split(s[L].op.reduce_axis[0], factor=4)
    assert "parallel i.outer" in str(s) and "vectorize i.inner" in str(s)
    check(s, [A, D], lambda a: a.sum(1))


@pytest.mark.parametrize("rows", [1, 8, 37])
@pytest.mark.parametrize("step", ["factor", "nparts", "tile"])
def test_an_axis_with_an_attached_stage_is_split(step: str, rows: int) -> None:
    A, B, C = chain(rows)
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    s[B].compute_at(s[C], i)
    if step == "tile":
        s[B].compute_at(s[C], j)
        s[C].tile(i, j, 4, 2)
    else:
        s[C].split(i, **{step: 4})
    assert "B: float32[1" in str(s)
    check(s, [A, C], lambda a: (a + 1) * 2)


def test_a_loop_where_a_stage_is_stored_is_split() -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] + 1, name="B")
    C = te.compute((18,), lambda i: B[i] + B[i + 2], name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=6)
    s[B].compute_at(s[C], inner)
    s[B].store_at(s[C], outer)
    s[C].split(outer, factor=2)
    check(s, [A, C], lambda a: a[:-2] + a[2:] + 2)


def test_the_operation_of_each_output_makes_one_schedule() -> None:
    A = te.placeholder((6,), name="A")
    P, Q = te.compute((6,), lambda i: (A[i] + 1, A[i] * 2), name="P")
    s = te.create_schedule([P.op, Q.op, A.op])
    assert s.outputs == (P, Q)
    p, q = tvm.build(s, [A, P, Q], "python")(np.arange(6, dtype="float32"))
    np.testing.assert_array_equal(p, np.arange(6) + 1)
    np.testing.assert_array_equal(q, np.arange(6) * 2)


def test_names_of_tensors_become_identifiers() -> None:
    A = te.placeholder((4 / 2, 3), name="my input")
    B = te.compute((2, 3), lambda i, j: A[i, j] + 1, name="layer/1:0")
    assert (A.name, B.name) == ("my_input", "layer_1_0")
    check(te.create_schedule(B.op), [A, B], lambda a: a + 1)


def test_integral_floats_are_extents_everywhere() -> None:
    n = 12
    A = tvm.placeholder((n / 2,), name="A")
    C = tvm.compute((n / 2,), lambda i: A[i] + 1, name="C")
    assert C.shape == (6,) and type(C.shape[0]) is int
    check(tvm.schedule(C), [A, C], lambda a: a + 1)


# threads beyond a short axis


@pytest.mark.parametrize("rows", [1, 16, 31, 33])
def test_threads_beyond_a_short_axis_idle(rows: int) -> None:
    A, B, C = chain(rows, 3)
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    i, j = C.op.axis
    block, part = s[C].split(i, factor=32)
    ty, rest = s[C].split(part, factor=8)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(ty, te.thread_axis((0, 4), "threadIdx.y"))
    assert ty.extent == 4 and "threadIdx.y i.inner.outer in 0..4" in str(s)
    check(s, [A, C], lambda a: (a + 1) * 2, "cuda-emulator")
    assert "idle=True" in s.as_python() or rows >= 32


def test_a_short_loop_without_threads_is_cut_down() -> None:
    A, _, C = chain(16, 3)
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=32)
    assert "in 0..16" in str(s) and "if " not in str(s)
    check(s, [A, C], lambda a: (a + 1) * 2)


def test_schedules_of_sl_cut_threads_down_to_the_axis() -> None:
    A, B, C = chain(16, 3)
    s = sl.schedule(C)
    _, part = s[C].split(C.op.axis[0], factor=32)
    ty, _ = s[C].split(part, factor=8)
    with pytest.raises(ScheduleError, match="has 2 iterations, but threadIdx.y has 4 threads"):
        s[C].bind(ty, te.thread_axis((0, 4), "threadIdx.y"))
    s = sl.schedule(C)
    s[B].compute_inline()
    _, part = s[C].split(C.op.axis[0], factor=32, idle=True)
    ty, _ = s[C].split(part, factor=8)
    s[C].bind(ty, te.thread_axis((0, 4), "threadIdx.y"))
    check(s, [A, C], lambda a: (a + 1) * 2, "cuda-emulator")


def test_a_copy_and_a_pickle_keep_the_threads() -> None:
    A, _, C = chain(16, 3)
    s = te.create_schedule(C.op)
    for other in (s.copy(), pickle.loads(pickle.dumps(s)), s.at(0)):
        stage = other[other.outputs[0]]
        _, inner = stage.split(stage.op.axis[0], factor=32)
        assert inner.extent == 32


def test_a_copy_by_all_threads_of_a_block_with_few_rows() -> None:
    """The rows need two of four threads, and the copy to shared memory uses all of them."""
    A = te.placeholder((16, 64), name="A")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    AA = s.cache_read(A, "shared", [C])
    _, part = s[C].split(C.op.axis[0], factor=32)
    ty, rest = s[C].split(part, factor=8)
    thread = te.thread_axis((0, 4), "threadIdx.y")
    s[C].bind(ty, thread)
    ko, ki = s[C].split(k, factor=16)
    s[C].reorder(ty, ko, ki, rest)
    s[AA].compute_at(s[C], ko)
    fetch, _ = s[AA].split(s[AA].fuse(*s[AA].op.axis), nparts=4)
    s[AA].bind(fetch, thread)
    check(s, [A, C], lambda a: a.sum(1), "cuda-emulator")


@pytest.mark.parametrize(("m", "n"), [(32, 256), (10, 20)])
def test_threads_reduce_rows_that_are_shorter_than_a_warp(m: int, n: int) -> None:
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute((m,), lambda i: te.max(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(k, nparts=32)
    s[B].bind(outer, te.thread_axis((0, 32), "threadIdx.x"))
    block, row = s[B].split(B.op.axis[0], factor=4)
    s[B].bind(row, te.thread_axis((0, 4), "threadIdx.y"))
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    check(s, [A, B], lambda a: a.max(1), "cuda-emulator")


def test_threads_reduce_inside_a_loop_of_other_threads() -> None:
    m, n = 10, 133
    A = te.placeholder((m, n), name="A")
    k = te.reduce_axis((0, n), name="k")
    B = te.compute((m,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((m,), lambda i: B[i] + 2, name="C")
    s = te.create_schedule(C.op)
    block, ty = s[C].split(C.op.axis[0], factor=16)
    _, part = s[B].split(k, factor=16)
    BF = s.rfactor(B, part)
    s[B].compute_at(s[C], ty)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(ty, te.thread_axis("threadIdx.y"))
    thread = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], thread)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[C].set_store_predicate(thread.var.equal(0))
    assert "]   shared, " in str(s)
    check(s, [A, C], lambda a: a.sum(1) + 2, "cuda-emulator")


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("n", [5, 9])
def test_rfactor_of_an_axis_that_is_shorter_than_the_factor(n: int, part: int) -> None:
    """Parts beyond the axis stay at the identity, and read nothing."""
    A = te.placeholder((3, n), name="A")
    B = te.compute((3, n), lambda i, j: A[i, j] * 2, name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((3,), lambda i: te.max(B[i, k], axis=k), name="C")
    for inlined in (False, True):
        s = te.create_schedule(C.op)
        axes = s[C].split(k, factor=16)
        BF = s.rfactor(C, axes[part])
        assert BF.shape == ((1, 16)[part], 3)
        if inlined:
            s[B].compute_inline()
        check(s, [A, C], lambda a: (a * 2).max(1))


def pooled() -> tuple[Any, ...]:
    X = te.placeholder((2, 5, 7), name="X")

    def inside(c: Any, h: Any, w: Any) -> Any:
        edge = te.any(h < 1, h >= 6, w < 1, w >= 8)
        return te.if_then_else(edge, te.min_value("float32"), X[c, h - 1, w - 1])

    P = te.compute((2, 7, 9), inside, name="P")
    h, w = (te.reduce_axis((0, 3), name) for name in ("rh", "rw"))
    Y = te.compute((2, 5, 7), lambda c, i, j: te.max(P[c, i + h, j + w], axis=[h, w]), name="Y")
    return X, P, Y, te.create_schedule(Y.op)


def check_pooled(X: Any, Y: Any, s: Any) -> None:
    x = np.random.default_rng(0).standard_normal((2, 5, 7)).astype("float32")
    padded = np.pad(x, [(0, 0), (1, 1), (1, 1)], constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    np.testing.assert_array_equal(tvm.build(s, [X, Y], "python")(x), windows.max((-1, -2)))


@pytest.mark.parametrize("attached_first", [False, True])
def test_a_stage_at_a_vectorized_loop_is_computed_before_it(attached_first: bool) -> None:
    X, P, Y, s = pooled()
    w = Y.op.axis[2]
    if attached_first:
        s[P].compute_at(s[Y], w)
    s[Y].vectorize(w)
    if not attached_first:
        s[P].compute_at(s[Y], w)
    buffer = next(b for b in s.nest().buffers if b.name == "P")
    assert buffer.shape == (1, 3, 9)
    check_pooled(X, Y, s)
    again = tvm.Schedule.from_json(s.to_json(), Y)
    assert str(again) == str(s)


@pytest.mark.parametrize("attached_first", [False, True])
def test_a_stage_at_the_only_loop_of_a_vector_is_at_root(attached_first: bool) -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1, name="B")
    C = te.compute((8,), lambda i: B[i] * 2, name="C")
    s = te.create_schedule(C.op)
    steps = [
        lambda: s[C].vectorize(C.op.axis[0]), lambda: s[B].compute_at(s[C], C.op.axis[0])
    ]  # fmt: skip
    for step in reversed(steps) if attached_first else steps:
        step()
    x = np.arange(8, dtype="float32")
    np.testing.assert_array_equal(tvm.build(s, [A, C], "python")(x), (x + 1) * 2)
    assert next(b for b in s.nest().buffers if b.name == "B").shape == (8,)


def test_a_vector_that_is_refused_moves_no_stage() -> None:
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), name="k")
    B = te.compute((4, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((4,), lambda i: te.sum(B[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], k)
    before = s.to_json()
    with pytest.raises(ScheduleError, match="k is a reduction axis"):
        s[C].vectorize(k)
    assert s.to_json() == before
