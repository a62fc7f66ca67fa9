"""Arguments whose arrays have another layout than their tensors, and te's transform_layout."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import schedlang as sl
import schedlang as tvm
from schedlang import te
from schedlang.errors import ScheduleError, TuningError
from schedlang.schedule.step_memo import StepMemo

RNG = np.random.default_rng(0)


def rows_of_sums(dtype: str = "int32") -> tuple[Any, Any, Any]:
    A = sl.placeholder((6, 20, 7), dtype, name="A")
    k = sl.reduce_axis(7, name="k")
    B = sl.compute((6, 20), lambda i, j: sl.sum(A[i, j, k] * (k + 1), axis=k), name="B")
    a = RNG.integers(0, 9, (6, 20, 7)).astype(dtype)
    return A, B, a


def panels(a: np.ndarray, width: int) -> np.ndarray:
    """Return a matrix as an array (panel, row, column in panel)."""
    rows, columns = a.shape
    return np.ascontiguousarray(a.reshape(rows, columns // width, width).transpose(1, 0, 2))


@pytest.mark.parametrize("dtype", ["int16", "float64"])
@pytest.mark.parametrize("target", ["python", "cuda-emulator"])
def test_the_caller_passes_arrays_in_the_layout(dtype: str, target: str) -> None:
    A, B, a = rows_of_sums(dtype)
    s = sl.schedule(B)
    s.transform_argument(A, lambda i, j, k: (k, i * 20 + j))
    s.transform_argument(B, lambda i, j: (j // 5, i, j % 5))
    if target != "python":
        s[B].bind(B.op.axis[0], "blockIdx.x")
        s[B].bind(B.op.axis[1], "threadIdx.x")
    f = sl.build(s, [A, B], target)
    given = np.ascontiguousarray(a.reshape(120, 7).T)
    result = f(given)
    assert result.shape == (4, 6, 5)
    np.testing.assert_allclose(result, panels(a @ np.arange(1, 8, dtype=dtype), 5))
    assert not f.unproven
    with pytest.raises(sl.errors.CallError, match=r"shape"):
        f(a)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "c"])
def test_machine_code_of_a_layout(target: str) -> None:
    A, B, a = rows_of_sums("float32")
    s = te.create_schedule(B.op)
    s[A].transform_layout(lambda i, j, k: [j, k, i])
    i, j = s[B].transform_layout(lambda i, j: [j, i])
    assert (i.extent, j.extent) == (20, 6)
    s[B].vectorize(j)
    s[B].parallel(i)
    f = tvm.build(s, [A, B], target)
    given = np.ascontiguousarray(a.transpose(1, 2, 0))
    np.testing.assert_allclose(f(given), (a @ np.arange(1, 8, dtype="float32")).T, rtol=1e-6)


MAPS: dict[str, tuple[Callable[..., Any], Callable[[np.ndarray], np.ndarray]]] = {
    "reversed": (lambda *at: at[::-1], lambda b: b.transpose(2, 1, 0)),
    "flat": (lambda i, j, k: (i * 3 + j) * 10 + k, lambda b: b.ravel()),
    "the last in parts": (
        lambda *at, last: [*at, last // 5, last % 5],
        lambda b: b.reshape(4, 3, 2, 5),
    ),
    "unpacked": (
        lambda i, j, k: [i % 2, k, te.AXIS_SEPARATOR, i // 2 % 2, j],
        lambda b: b.reshape(2, 2, 3, 10).transpose(1, 3, 0, 2),
    ),
    "parts of several": (
        lambda i, j, k: [k % 2 * 4 + i, j * 5 + k // 2],
        lambda b: b.reshape(4, 3, 5, 2).transpose(3, 0, 1, 2).reshape(8, 15),
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_loops_follow_the_layout_in_te(name: str) -> None:
    index_map, stored = MAPS[name]
    A = te.placeholder((4, 3, 10), "int32", "A")
    B = te.compute((4, 3, 10), lambda i, j, k: A[i, j, k] * 2, name="B")
    s = te.create_schedule(B.op)
    assert s[A].transform_layout(index_map) == []
    loops = s[B].transform_layout(index_map)
    a = RNG.integers(0, 99, (4, 3, 10)).astype("int32")
    expected = stored(a * 2)
    assert [loop.extent for loop in loops] == list(expected.shape)
    assert [loop.extent for loop in s[B].leaf_iter_vars] == list(expected.shape)
    f = tvm.build(s, [A, B], "python")
    np.testing.assert_array_equal(f(np.ascontiguousarray(stored(a))), expected)
    twin = sl.Schedule.from_json(s.to_json(), B)
    assert str(twin) == str(s) == str(pickle.loads(pickle.dumps(s)))


def test_intermediate_stages_and_copies_in_te() -> None:
    A = te.placeholder((6, 8), "int32", "A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] * 3, name="C")
    s = te.create_schedule(C.op)
    near = s.cache_write(C, "local")
    loops = s[B].transform_layout(lambda i, j: [j // 4, i, j % 4])
    assert [loop.extent for loop in loops] == [2, 6, 4]
    s[C].transform_layout(lambda i, j: [j, i])
    s[near].compute_at(s[C], s[C].leaf_axes[0])
    a = RNG.integers(0, 99, (6, 8)).astype("int32")
    np.testing.assert_array_equal(tvm.build(s, [A, C], "python")(a), ((a + 1) * 3).T)
    assert "B: int32[2, 6, 4]" in str(s)


def test_loops_with_a_step_and_layouts_that_te_lacks_stay() -> None:
    A = te.placeholder((6, 8), "int32", "A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] * 3, name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[1], factor=3)
    assert s[C].transform_layout(lambda i, j: [j, i]) is None
    # panels with gaps, and a symbolic extent
    assert s[B].transform_layout(lambda i, j: [j // 3, i, j % 3]) is None
    assert [loop.extent for loop in s[C].leaf_axes] == [6, 3, 3]
    a = RNG.integers(0, 99, (6, 8)).astype("int32")
    np.testing.assert_array_equal(tvm.build(s, [A, C], "python")(a), ((a + 1) * 3).T)

    n = te.var("n")
    X = te.placeholder((n, 8), "int32", "X")
    Y = te.compute((n, 8), lambda i, j: X[i, j] + 1, name="Y")
    Z = te.compute((n, 8), lambda i, j: Y[i, j] * 3, name="Z")
    s = te.create_schedule(Z.op)
    assert s[Y].transform_layout(lambda i, j: [j, i]) is None
    np.testing.assert_array_equal(tvm.build(s, [X, Z], "python")(a), (a + 1) * 3)


def test_a_refused_layout_leaves_the_schedule_as_it_was() -> None:
    A, B, _ = rows_of_sums()
    s = te.create_schedule(B.op)
    for index_map in (lambda i, j: [j // 3, i, j % 3], lambda i, j: [i, j + 1], lambda i, j: [i]):
        with pytest.raises(ScheduleError):
            s[B].transform_layout(index_map)
    assert not s.steps
    with pytest.raises(ScheduleError, match="A is an input and has no loops"):
        s[A].split(A.op.axis, factor=2)
    with pytest.raises(ScheduleError, match="A is an input and has no loops"):
        sl.schedule(B)[A]


def test_refusals_name_the_call_of_te() -> None:
    A = te.placeholder((6, 8), "int32", "A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((6, 8), lambda i, j: B[i, j] * 3, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(
        ScheduleError, match=r"^transform_layout\(index_map\) on stage C: stage B is"
    ):
        s[C].transform_layout(lambda i, j: i * 8 + j)
    s[A].transform_layout(lambda i, j: (j, i))
    with pytest.raises(
        ScheduleError, match=r"^transform_layout\(index_map\) on input A: the array"
    ):
        s[A].transform_layout(lambda i, j: (j, i))
    with pytest.raises(ScheduleError, match=r"on stage A: index_map is missing"):
        s[A].transform_layout()
    k = te.reduce_axis((0, 8), name="k")
    D = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="D")
    late = te.create_schedule(D.op)
    late[D].transform_layout(lambda i: (i // 2, i % 2))
    with pytest.raises(ScheduleError, match="call it before transform_layout"):
        late.rfactor(D, k)
    assert s[A].op is A.op and repr(copy.copy(s[A])) == "<Input A>"
    # a parameter with a default is no dimension
    s[C].transform_layout(lambda i, j, *, width=4: (j // width, i, j % width))
    a = RNG.integers(0, 99, (6, 8)).astype("int32")
    result = tvm.build(s, [A, C], "python")(np.ascontiguousarray(a.T))
    np.testing.assert_array_equal(result, panels((a + 1) * 3, 4))


@pytest.mark.parametrize("copied", [False, True])
def test_rows_that_another_array_chooses(copied: bool) -> None:
    X, rows = sl.placeholder((6, 6), "int32", name="X"), sl.placeholder((4,), "int32", name="rows")
    C = sl.compute((4, 6), lambda i, j: X[rows[i], j] + 1, name="C")
    x, at = RNG.integers(0, 99, (6, 6)).astype("int32"), np.array([3, 1, 5, 0], "int32")
    stored = x.reshape(3, 2, 6).transpose(0, 2, 1)
    for index_map, array in (
        (lambda i, j: (j, i), x.T),
        (lambda i, j: i * 6 + j, x.ravel()),
        (lambda i, j: (i // 2, j, i % 2), stored),
    ):
        s = sl.schedule(C)
        if copied:
            s.cache_write(C, "global")
        s.transform_argument(X, index_map)
        result = sl.build(s, [X, rows, C], "python")(np.ascontiguousarray(array), at)
        np.testing.assert_array_equal(result, x[at] + 1)


def test_schedules_that_share_steps_keep_layouts() -> None:
    _, B, _ = rows_of_sums()
    memo = StepMemo(sl.schedule(B))
    for factor in (2, 4):
        s = memo.schedule()
        s[B].split(B.op.axis[1], factor=factor)
        s.transform_argument(B, lambda i, j: (j, i))
        assert "-> B: int32[20, 6]" in str(s)


def test_a_search_refuses_layouts_of_arguments(tmp_path: Path) -> None:
    _, B, _ = rows_of_sums()
    s = sl.schedule(B)
    s.transform_argument(B, lambda i, j: (j, i))
    database = tmp_path / "log"

    def template(s: Any, knobs: Any) -> None:
        s.transform_argument(B, lambda i, j: (j, i))

    for given in ({"start": s}, {"template": template}):
        with pytest.raises(TuningError, match="transform_argument gives B another layout"):
            sl.autotune(B, "python", trials=1, database=database, **given)


def _scan() -> tuple[Any, Any]:
    X = sl.placeholder((5, 4), name="X")
    state = sl.placeholder((5, 4), name="state")
    init = sl.compute((1, 4), lambda _, i: X[0, i], name="init")
    update = sl.compute((5, 4), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    return X, sl.scan(init, update, state, inputs=[X])


def test_arguments_that_have_no_other_layout() -> None:
    n = sl.var("n")
    A = sl.placeholder((n, 4), name="A")
    B = sl.compute((n, 4), lambda i, j: A[i, j] + 1, name="B")
    with pytest.raises(ScheduleError, match="A has a symbolic size, which a call could not read"):
        sl.schedule(B).transform_argument(A, lambda i, j: (j, i))
    C, D = sl.compute((4, 6), lambda i, j: (i + j, i - j), name="CD")
    with pytest.raises(ScheduleError, match="CD stores its 2 tensors together"):
        sl.schedule([C, D]).transform_argument(C, lambda i, j: (j, i))
    _, total = _scan()
    with pytest.raises(ScheduleError, match="is a scan, whose rows are stored one after another"):
        sl.schedule(total).transform_argument(total, lambda t, i: (i, t))
    P = sl.assume(sl.placeholder((9,), "int32", name="P"), monotonic=True)
    E = sl.compute((9,), lambda i: P[i] + 1, name="E")
    with pytest.raises(ScheduleError, match=r"sl.assume declares facts of P"):
        sl.schedule(E).transform_argument(P, lambda i: (i // 3, i % 3))


def test_a_function_of_the_user_knows_its_arrays() -> None:
    A = sl.placeholder((4, 6), name="A")

    def double(a: np.ndarray, out: np.ndarray) -> None:
        out[:] = a * 2

    B = sl.extern((4, 6), [A], double, name="B")
    for tensor in (A, B):
        with pytest.raises(ScheduleError, match=rf"double knows {tensor.name} as an array"):
            sl.schedule(B).transform_argument(tensor, lambda i, j: (j, i))


def test_data_of_a_step_that_does_not_fit() -> None:
    A, B, _ = rows_of_sums()
    s = sl.schedule(B)
    s.transform_argument(B, lambda i, j: (j, i))
    text = s.to_json()
    assert "[1, 1, 0, 0, 1, 0]" in text
    others = ("[1, 1, 0, 0, 1]", "[1, 1, 0, 2, 1, 0]", "[1, 0, 0, 0, 1, 0]", "[1, 1, 0, 1, 1, 0]")
    for numbers in others:
        with pytest.raises(ScheduleError, match="step 1, transform_argument, cannot be replayed"):
            sl.Schedule.from_json(text.replace("[1, 1, 0, 0, 1, 0]", numbers), B)
