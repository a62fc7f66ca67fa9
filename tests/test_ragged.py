"""Ragged reductions: ranges that depend on other axes and on elements of integer tensors."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import dumps, loads
from schedlang.compute.facts import Facts, check_facts
from schedlang.compute.ragged import without_ranges
from schedlang.compute.work import flops, needed_flops
from schedlang.errors import (
    BoundsError,
    CallError,
    ComputeError,
    ComputeTypeError,
    ScheduleError,
)
from schedlang.index.elements import Elements
from schedlang.ir.interpret import interpret
from schedlang.ir.nodes import For, If, walk
from schedlang.ir.trimmed import trim_loop
from schedlang.live.definition import definition

RNG = np.random.default_rng(0)


def sparse(rows: int, columns: int, longest: int = 9) -> dict[str, np.ndarray]:
    """Return a sparse matrix as a computation of this file takes it; some rows are empty."""
    lengths = RNG.integers(0, longest, rows) * RNG.integers(0, 2, rows)
    indptr = np.r_[0, np.cumsum(lengths)].astype("int32")
    return {
        "indptr": indptr,
        "indices": RNG.integers(0, columns, indptr[-1]).astype("int32"),
        "data": RNG.standard_normal(indptr[-1]).astype("float32"),
    }


def dense(matrix: dict[str, np.ndarray], columns: int) -> np.ndarray:
    rows = len(matrix["indptr"]) - 1
    found = np.zeros((rows, columns))
    at = np.repeat(np.arange(rows), np.diff(matrix["indptr"])), matrix["indices"]
    np.add.at(found, at, matrix["data"])
    return found


def csr(n: Any, nnz: Any, facts: bool = True) -> tuple[sl.Tensor, sl.Tensor, sl.Tensor]:
    indptr = sl.placeholder((n + 1,), "int32", name="indptr")
    if facts:
        sl.assume(indptr, monotonic=True, within=(0, nnz))
    indices = sl.placeholder((nnz,), "int32", name="indices")
    return indptr, indices, sl.placeholder((nnz,), name="data")


def spmv(facts: bool = True) -> sl.Tensor:
    n, m, nnz = sl.var("n"), sl.var("m"), sl.var("nnz")
    indptr, indices, data = csr(n, nnz, facts)
    x = sl.placeholder((m,), name="x")

    def row(i: Any) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        return sl.sum(data[k] * x[indices[k]], axis=k)

    return sl.compute((n,), row, name="y")


def trmm(n: Any = 20, m: Any = 24) -> sl.Tensor:
    A, B = sl.placeholder((n, n), name="A"), sl.placeholder((n, m), name="B")

    def element(i: Any, j: Any) -> Any:
        k = sl.reduce_axis((0, i + 1), name="k")
        return sl.sum(A[i, k] * B[k, j], axis=k)

    return sl.compute((n, m), element, name="C")


def agrees(
    schedule: sl.Schedule, expected: np.ndarray, targets: tuple[str, ...] = ("python",),
    **arrays: np.ndarray,
) -> None:  # fmt: skip
    """Assert that a schedule computes ``expected``, in the interpreter and on ``targets``."""
    nest = sl.lower(schedule)
    inputs = [a for a in nest.args if a not in nest.outputs and a.name in arrays]
    known = [arrays[a.name] for a in inputs]
    run = interpret(nest, known)
    np.testing.assert_allclose(run.outputs[0], expected, rtol=1e-4, atol=1e-5)
    for target in targets:
        made = sl.build(schedule, target=target)(**arrays)
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-5, err_msg=target)


# computations ---------------------------------------------------------------------------------


def test_triangular_product_is_that_of_numpy() -> None:
    a, b = (RNG.standard_normal(s).astype("float32") for s in ((20, 20), (20, 24)))
    C = trmm()
    np.testing.assert_allclose(sl.reference(C)(a, b), np.tril(a) @ b, rtol=1e-4, atol=1e-5)
    agrees(sl.schedule(C), np.tril(a) @ b, ("python", "cpu"), A=a, B=b)


@pytest.mark.parametrize("facts", [True, False])
def test_sparse_product_is_that_of_numpy(facts: bool) -> None:
    matrix, x = sparse(40, 30), RNG.standard_normal(30).astype("float32")
    y = spmv(facts)
    expected = dense(matrix, 30) @ x
    np.testing.assert_allclose(sl.reference(y)(**matrix, x=x), expected, rtol=1e-4, atol=1e-5)
    agrees(sl.schedule(y), expected, ("python", "cpu"), **matrix, x=x)


def test_sparse_times_dense() -> None:
    n, m, p, nnz = (sl.var(name) for name in ("n", "m", "p", "nnz"))
    indptr, indices, data = csr(n, nnz)
    B = sl.placeholder((m, p), name="B")

    def element(i: Any, j: Any) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        return sl.sum(data[k] * B[indices[k], j], axis=k)

    C = sl.compute((n, p), element, name="C")
    matrix, b = sparse(12, 9), RNG.standard_normal((9, 16)).astype("float32")
    expected = dense(matrix, 9) @ b
    s = sl.schedule(C)
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    s[C].reorder(i, k, j)
    s[C].parallel(i)
    agrees(s, expected, ("python", "cpu"), **matrix, B=b)
    np.testing.assert_allclose(sl.reference(C)(**matrix, B=b), expected, rtol=1e-4, atol=1e-5)


def test_trapezoid_and_a_range_over_an_outer_reduction_axis() -> None:
    A = sl.placeholder((9, 9), name="A")

    def row(i: Any) -> Any:
        j = sl.reduce_axis((i, 9), name="j")
        k = sl.reduce_axis((i - 1, j), name="k")
        return sl.sum(A[j, sl.max(k, 0)], axis=[j, k])

    S = sl.compute((9,), row, name="S")
    a = RNG.standard_normal((9, 9)).astype("float32")
    expected = np.array(
        [sum(a[j, max(k, 0)] for j in range(i, 9) for k in range(i - 1, j)) for i in range(9)]
    )
    np.testing.assert_allclose(sl.reference(S)(a), expected, rtol=1e-4, atol=1e-5)
    for order in (("j", "k"), ("k", "j")):
        s = sl.schedule(S)
        axes = {axis.name: axis for axis in s[S].op.reduce_axis}
        s[S].reorder(*(axes[name] for name in order))
        agrees(s, expected, A=a)


def test_ragged_batch_and_mean() -> None:
    lengths = sl.placeholder((5,), "int64", name="lengths")
    X = sl.placeholder((5, 8, 3), name="X")

    def total(b: Any, d: Any) -> Any:
        t = sl.reduce_axis((0, lengths[b]), name="t")
        return sl.sum(X[b, t, d], axis=t)

    T = sl.compute((5, 3), total, name="T")
    M = sl.compute((5, 3), lambda b, d: T[b, d] / sl.max(lengths[b], 1).astype("float32"), name="M")
    x = RNG.standard_normal((5, 8, 3)).astype("float32")
    count = np.array([3, 0, 8, -2, 1])
    expected = np.array([x[b, : max(n, 0)].sum(axis=0) / max(n, 1) for b, n in enumerate(count)])
    np.testing.assert_allclose(sl.reference(M)(X=x, lengths=count), expected, rtol=1e-4, atol=1e-6)
    made = sl.build(sl.schedule(M), target="python")(X=x, lengths=count)
    np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-6)


def test_an_end_may_be_the_element_of_a_0_d_tensor() -> None:
    count = sl.placeholder((), "int32", name="count")
    X = sl.placeholder((7,), name="X")

    def first(i: Any) -> Any:
        k = sl.reduce_axis(count, name="k")
        return sl.sum(X[k], axis=k)

    S = sl.compute((2,), first, name="S")
    x = np.arange(7, dtype="float32")
    agrees(sl.schedule(S), np.full(2, 3.0), X=x, count=np.array(3, "int32"))


def test_segment_softmax_of_graph_attention() -> None:
    n, nnz = sl.var("n"), sl.var("nnz")
    indptr, indices, data = csr(n, nnz)

    def largest(i: Any) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        return sl.max(data[k], axis=k)

    M = sl.compute((n,), largest, name="M")

    def total(i: Any) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        return sl.sum(sl.exp(data[k] - M[i]), axis=k)

    T = sl.compute((n,), total, name="T")
    matrix = sparse(20, 20)
    s = sl.schedule(T)
    s[M].compute_at(s[T], T.op.axis[0])
    s[T].parallel(T.op.axis[0])
    rows = np.split(matrix["data"], matrix["indptr"][1:-1])
    expected = np.array([np.exp(r - r.max()).sum() if len(r) else 0 for r in rows])
    agrees(s, expected, indptr=matrix["indptr"], data=matrix["data"])


@pytest.mark.parametrize("name", ["min", "max", "prod", "argmax", "argmin", "any", "all"])
def test_each_reducer_over_ranges_of_which_some_are_empty(name: str) -> None:
    lengths = sl.placeholder((6,), "int32", name="lengths")
    X = sl.placeholder((6, 7), "int32", name="X")

    def row(i: Any) -> Any:
        k = sl.reduce_axis((0, lengths[i]), name="k")
        value = X[i, k] > 0 if name in ("any", "all") else X[i, k]
        return getattr(sl, name)(value, axis=k)

    R = sl.compute((6,), row, name="R")
    x = RNG.integers(-4, 5, (6, 7)).astype("int32")
    count = np.array([0, 7, 3, -1, 1, 5], "int32")
    identity = {
        "min": 2**31 - 1, "max": -(2**31), "prod": 1, "argmax": -1, "argmin": -1, "any": False,
        "all": True,
    }[name]  # fmt: skip
    taken = [x[i, : max(n, 0)] > 0 if name in ("any", "all") else x[i, : max(n, 0)]
             for i, n in enumerate(count)]  # fmt: skip
    expected = [getattr(np, name)(r) if len(r) else identity for r in taken]
    assert sl.reference(R)(X=x, lengths=count).tolist() == expected
    assert sl.build(sl.schedule(R), target="python")(X=x, lengths=count).tolist() == expected


def test_custom_combiner_and_where_and_init() -> None:
    lengths = sl.placeholder((6,), "int32", name="lengths")
    X = sl.placeholder((6, 7), name="X")
    bias = sl.placeholder((6,), name="bias")
    hypot = sl.comm_reducer(
        lambda x, y: sl.sqrt(x * x + y * y), lambda t: 0, name="hypot", trusted=True
    )

    def row(i: Any) -> Any:
        k = sl.reduce_axis((1, lengths[i]), name="k")
        return hypot(X[i, k], axis=k, where=X[i, k] > 0, init=bias[i])

    R = sl.compute((6,), row, name="R")
    x = RNG.standard_normal((6, 7)).astype("float32")
    count, start = np.array([0, 7, 3, 1, 2, 6], "int32"), np.arange(6, dtype="float32")
    rows = [x[i, 1 : max(n, 1)] for i, n in enumerate(count)]
    expected = [np.sqrt(b * b + (r[r > 0] ** 2).sum()) for r, b in zip(rows, start)]
    given = {"X": x, "lengths": count, "bias": start}
    np.testing.assert_allclose(sl.reference(R)(**given), expected, rtol=1e-5)
    agrees(sl.schedule(R), np.array(expected), **given)


@pytest.mark.parametrize("sizes", [(0, 0, 5), (3, 0, 5), (1, 4, 1)])
def test_empty_sizes(sizes: tuple[int, int, int]) -> None:
    rows, nnz, columns = sizes
    matrix = {
        "indptr": np.minimum(np.arange(rows + 1) * nnz, nnz).astype("int32"),
        "indices": np.zeros(nnz, "int32"), "data": np.ones(nnz, "float32"),
    }  # fmt: skip
    x = np.ones(columns, "float32")
    expected = dense(matrix, columns) @ x
    assert sl.reference(spmv())(**matrix, x=x).tolist() == expected.tolist()
    assert sl.build(sl.schedule(spmv()), target="python")(**matrix, x=x).tolist() == (
        expected.tolist()
    )


def test_the_oracle_keeps_long_ranges_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    from schedlang.compute import ragged_chunks

    monkeypatch.setattr(ragged_chunks, "CHUNK", 16)
    matrix, x = sparse(30, 8, 200), RNG.standard_normal(8).astype("float32")
    expected = dense(matrix, 8) @ x
    np.testing.assert_allclose(sl.reference(spmv())(**matrix, x=x), expected, rtol=1e-3, atol=1e-4)


# schedules ------------------------------------------------------------------------------------


def test_loops_run_over_the_range_alone(golden: Callable[[object], None]) -> None:
    texts = [str(sl.lower(sl.schedule(spmv()))), str(sl.lower(sl.schedule(trmm())))]
    s = sl.schedule(C := trmm())
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    outer, inner = s[C].split(i, factor=4)
    left, lanes = s[C].split(j, factor=8)
    s[C].reorder(outer, left, k, inner, lanes)
    s[C].unroll(inner)
    s[C].vectorize(lanes)
    texts.append(str(sl.lower(s)))
    s = sl.schedule(y := spmv())
    outer, inner = s[y].split(s[y].op.reduce_axis[0], factor=8)
    texts.append(str(sl.lower(s)))
    golden("\n\n".join(texts))


def _split_rows(s: sl.Schedule, C: sl.Tensor) -> None:
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    outer, inner = s[C].split(i, factor=3)
    s[C].reorder(outer, k, inner, j)


def _split_steps(s: sl.Schedule, C: sl.Tensor) -> None:
    outer, inner = s[C].split(s[C].op.reduce_axis[0], factor=7)
    s[C].unroll(inner)


def _cut_steps(s: sl.Schedule, C: sl.Tensor) -> None:
    s[C].split(s[C].op.reduce_axis[0], factor=7, tail="cut")


def _steps_outside(s: sl.Schedule, C: sl.Tensor) -> None:
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    s[C].reorder(k, i, j)
    s[C].vectorize(s[C].split(j, factor=8)[1])


def _tile(s: sl.Schedule, C: sl.Tensor) -> None:
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    io, ii = s[C].split(i, factor=4)
    jo, ji = s[C].split(j, factor=16)
    s[C].reorder(io, jo, k, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[C].parallel(io)


def _lanes_of_rows(s: sl.Schedule, C: sl.Tensor) -> None:
    i, j = s[C].op.axis
    (k,) = s[C].op.reduce_axis
    io, ii = s[C].split(i, factor=8)
    s[C].reorder(io, j, k, ii)
    s[C].vectorize(ii)


def _cached(s: sl.Schedule, C: sl.Tensor) -> None:
    L = s.cache_write(C, "local")
    i, j = s[C].op.axis
    io, ii = s[C].split(i, factor=4)
    s[L].compute_at(s[C], io)
    (k,) = s[L].op.reduce_axis
    ko, ki = s[L].split(k, factor=8)
    s[L].reorder(ko, ki, *s[L].op.axis)
    A = s[L].op.input_tensors[0]
    P = s.cache_read(A, "local", [L])
    s[P].compute_at(s[L], ko)


def _partial_sums(s: sl.Schedule, C: sl.Tensor) -> None:
    _, inner = s[C].split(s[C].op.reduce_axis[0], factor=4)
    P = s.rfactor(C, inner)
    s[P].compute_at(s[C], s[C].op.axis[1])
    lanes, *_ = s[P].op.axis
    s[P].reorder(s[P].op.reduce_axis[0], lanes)
    s[P].vectorize(lanes)


def _fused(s: sl.Schedule, C: sl.Tensor) -> None:
    i, j = s[C].op.axis
    s[C].parallel(s[C].fuse(i, j))


SCHEDULES = [
    _split_rows, _split_steps, _cut_steps, _steps_outside, _tile, _lanes_of_rows, _cached,
    _partial_sums, _fused,
]  # fmt: skip


@pytest.mark.parametrize("steps", SCHEDULES)
@pytest.mark.parametrize("symbolic", [False, True])
def test_schedules_of_a_triangular_product(steps: Callable[..., None], symbolic: bool) -> None:
    C = trmm(sl.var("n"), sl.var("m")) if symbolic else trmm()
    s = sl.schedule(C)
    steps(s, C)
    a, b = (RNG.standard_normal(x).astype("float32") for x in ((20, 20), (20, 24)))
    agrees(s, np.tril(a) @ b, A=a, B=b)
    if not symbolic:
        # only loops over steps or rows are trimmed: a whole box would be twice the points
        assert any(trim_loop(loop).tests for loop in sl.lower(s).loops)


def test_a_trimmed_loop_runs_no_more_iterations_than_its_range() -> None:
    C = trmm(8, 1)
    a, b = np.ones((8, 8), "float32"), np.ones((8, 1), "float32")
    run = interpret(sl.lower(sl.schedule(C)), [a, b])
    # a loop over 8 rows, and 1 + 2 + ... + 8 steps in it; a box would have 64
    assert run.iterations == 8 + 36


@pytest.mark.parametrize("target", ["python", "cpu"])
def test_the_tail_of_a_data_axis_is_tested_where_the_range_is_empty(target: str) -> None:
    """The sum of such an element is loaded, though no iteration adds to it."""
    A = sl.placeholder((9, 5), "float32", name="A")

    def row(i: sl.Axis, j: sl.Axis) -> sl.Expr:
        k = sl.reduce_axis((j, sl.min(j + 1, 3)), name="k")
        return sl.sum(A[i, k], axis=k)

    B = sl.compute((9, 5), row, name="B")
    C = sl.compute((9, 5), lambda i, j: B[i, j] * 2, name="C")
    s = sl.schedule(C)
    i, j = B.op.axis
    outer, inner = s[B].split(B.op.reduce_axis[0], factor=3)
    _, _, _, outer = s[B].tile(i, outer, 2, 2, tail="guard")
    s[B].fuse(outer, inner)
    s[B].fuse(*s[B].split(j, factor=4, tail="guard"))
    rows = np.random.default_rng(0).random((9, 5), "float32")
    wanted = np.where(np.arange(5) < 3, rows * 2, 0)
    np.testing.assert_array_equal(sl.build(s, target=target)(rows), wanted)


def test_a_user_s_condition_trims_nothing() -> None:
    A, k = sl.placeholder((8, 8), name="A"), sl.reduce_axis(8, name="k")
    C = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k, where=k <= i), name="C")
    assert "for k in 0..8:\n    if k <= i:" in str(sl.lower(sl.schedule(C)))


def test_a_loop_with_another_effect_is_not_trimmed() -> None:
    """A stage stored outside the loop is computed in all its iterations."""
    A = sl.placeholder((8, 8), name="A")
    D = sl.compute((8, 8), lambda i, k: A[i, k] * 2, name="D")

    def row(i: Any) -> Any:
        k = sl.reduce_axis((0, i + 1), name="k")
        return sl.sum(D[i, k], axis=k)

    C = sl.compute((8,), row, name="C")
    s = sl.schedule(C)
    s[D].compute_at(s[C], s[C].op.reduce_axis[0])
    s[D].store_at(s[C], s[C].op.axis[0])
    assert "for k in 0..8:" in str(sl.lower(s))
    a = RNG.standard_normal((8, 8)).astype("float32")
    agrees(s, np.tril(a * 2).sum(axis=1), A=a)


def test_the_nest_keeps_the_box_for_the_verifier() -> None:
    nest = sl.lower(sl.schedule(trmm()))
    loop = nest.loops[-1]
    assert (loop.extent, trim_loop(loop).start, str(trim_loop(loop).stop)) == (20, 0, "i + 1")
    assert [s.bounds for s, _ in walk(nest.body) if isinstance(s, If)] == ["inside"]
    assert all(isinstance(s, (For, If)) or s.stage for s, _ in walk(nest.body))


def test_parallel_kernels_and_c() -> None:
    matrix, x = sparse(40, 30), RNG.standard_normal(30).astype("float32")
    y = spmv()
    s = sl.schedule(y)
    s[y].parallel(y.op.axis[0])
    agrees(s, dense(matrix, 30) @ x, ("c",), **matrix, x=x)


# facts ----------------------------------------------------------------------------------------


def test_facts_are_checked_at_each_call() -> None:
    matrix, x = sparse(10, 30), np.ones(30, "float32")
    f = sl.build(sl.schedule(spmv()), target="python")
    nnz = len(matrix["data"])
    for run in (f, sl.reference(spmv())):
        low = {**matrix, "indptr": matrix["indptr"].copy()}
        low["indptr"][0] = -1
        with pytest.raises(CallError, match=rf"indptr\[0\] is -1.*lies in 0\.\.{nnz}, {nnz} incl"):
            run(**low, x=x)
        falls = {**matrix, "indptr": matrix["indptr"].copy()}
        falls["indptr"][4] = nnz
        falls["indptr"][5] = 0
        with pytest.raises(CallError, match=r"indptr\[5\] is 0, less than indptr\[4\]"):
            run(**falls, x=x)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
@pytest.mark.parametrize(("low", "high"), [(0, 5), (0, 300), (1, 5), (-2, 5), (0, 2**63 - 1)])
def test_elements_at_the_ends_of_a_range_and_of_a_dtype(dtype: str, low: int, high: int) -> None:
    kinds = np.iinfo(dtype)
    for value in {kinds.min, -1, 0, 1, 5, 6, kinds.max, low, high}:
        if not kinds.min <= value <= kinds.max:
            continue
        array = np.full((3, 4), 3, dtype)
        array[1, 2] = value
        facts = Facts(within=(low, high))
        if low <= value <= high:
            check_facts("I", facts, array[:, ::2], int)
            continue
        with pytest.raises(CallError, match=rf"I\[1, 1\] is {value}, but sl.assume"):
            check_facts("I", facts, array[:, ::2], int)


def test_a_bound_call_checks_facts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = sparse(10, 30), np.ones(30, "float32")
    f = sl.build(sl.schedule(spmv()))
    given = [{**matrix, "x": x}[p.name] for p in f.signature.parameters if not p.is_output]
    out = np.empty(10, "float32")
    run, flat = f.bound(*given, out)
    checked: list[object] = []
    monkeypatch.setattr("schedlang.compute.facts.check_facts", lambda *a: checked.append(a))
    run(*flat)
    assert not checked
    np.testing.assert_allclose(out, f(*given), rtol=1e-6)
    assert len(checked) == 1


def test_a_constant_array_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, x = sparse(10, 30), np.ones(30, "float32")
    f = sl.build(sl.schedule(spmv()), target="python")
    expected = f(**matrix, x=x)
    checked: list[str] = []
    check = check_facts

    def counted(name: str, *rest: Any) -> None:
        checked.append(name)
        check(name, *rest)

    def checks(indptr: np.ndarray) -> int:
        checked.clear()
        np.testing.assert_array_equal(f(**{**matrix, "indptr": indptr}, x=x), expected)
        return len(checked)

    monkeypatch.setattr("schedlang.compute.facts.check_facts", counted)
    indptr = matrix["indptr"]
    assert (checks(indptr), checks(indptr)) == (1, 1)
    # one that can be written to through what it is a view of
    view = indptr[:]
    view.flags.writeable = False
    assert (checks(view), checks(view)) == (1, 1)
    indptr.flags.writeable = False
    assert (checks(indptr), checks(indptr), checks(view), checks(view)) == (1, 0, 1, 0)
    # calls with another one that may change
    assert (checks(indptr.copy()), checks(view)) == (1, 0)
    # the same elements, within another range
    matrix["indices"], matrix["data"] = (
        np.concatenate([matrix[n], matrix[n][:1]]) for n in ("indices", "data")
    )
    assert (checks(view), checks(view)) == (1, 0)
    # another array, perhaps at the address of the last one, and the same one as writeable again
    wrong = indptr.copy()
    wrong[4:6] = wrong[-1], 0
    wrong.flags.writeable = False
    for _ in range(2):
        with pytest.raises(CallError, match="less than"):
            f(**{**matrix, "indptr": wrong}, x=x)
    assert checks(indptr) == 1
    indptr.flags.writeable = True
    indptr[4:6] = indptr[-1], 0
    with pytest.raises(CallError, match="less than"):
        f(**matrix, x=x)
    again = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(again(**{**matrix, "indptr": indptr * 0}, x=x), 0)


def test_facts_of_a_saved_file(tmp_path: Any) -> None:
    matrix, x = sparse(10, 30), np.ones(30, "float32")
    path = sl.build(sl.schedule(spmv())).save(tmp_path / "kernel.py")
    text = path.read_text()
    assert "_holds(indptr, 'indptr', (n + 1,), True, (0, nnz))" in text
    space: dict[str, Any] = {"__name__": "kernel", "__file__": str(path)}
    exec(text.replace("cache=True, ", ""), space)
    given = {**matrix, "indptr": matrix["indptr"] - 1}
    with pytest.raises(ValueError, match="each element of indptr must lie in"):
        space["y"](**given, x=x)


def test_indices_outside_of_the_range_are_found_by_checked_targets() -> None:
    matrix, x = sparse(10, 30), np.ones(30, "float32")
    beyond = {**matrix, "indptr": matrix["indptr"].copy()}
    beyond["indptr"][-1] += 1
    y = spmv(facts=False)
    with pytest.raises(BoundsError, match="load at offset"):
        sl.build(sl.schedule(y), target="python")(**beyond, x=x)
    with pytest.raises(BoundsError, match=r"reduces over k in \(indptr\[i\], indptr\[i \+ 1\]\)"):
        sl.reference(y)(**beyond, x=x)


def test_an_unsigned_or_bounded_length_is_a_box() -> None:
    lengths = sl.assume(sl.placeholder((4,), "int32", name="lengths"), within=(-1, 5))
    X = sl.placeholder((4, 9), name="X")

    def row(i: Any) -> Any:
        k = sl.reduce_axis((lengths[i] // 2, lengths[i] * 2 - 1), name="k")
        return sl.sum(X[i, sl.max(k, 0)], axis=k)

    (k,) = sl.compute((4,), row, name="R").op.reduce_axis
    assert (k.lo, k.extent) == (-1, 10)


def test_reads_at_declared_elements_are_in_bounds() -> None:
    assert sl.compute((4,), gather(SIZE - 1), name="R").op.input_tensors[0].name == "W"


def test_an_element_may_be_negative_until_a_fact_says_otherwise() -> None:
    starts = sl.assume(sl.placeholder((3,), "int8", name="starts"), within=(-2, 4))
    X = sl.placeholder((3, 4), name="X")

    def row(i: Any) -> Any:
        k = sl.reduce_axis((sl.max(starts[i], 0), 4), name="k")
        return sl.sum(X[i, k], axis=k)

    R = sl.compute((3,), row, name="R")
    (k,) = R.op.reduce_axis
    assert (k.lo, k.extent) == (0, 4)
    x, given = np.ones((3, 4), "float32"), np.array([-2, 1, 4], "int8")
    agrees(sl.schedule(R), np.array([4, 3, 0]), X=x, starts=given)


# the computation as text and data -------------------------------------------------------------


@pytest.mark.parametrize("make", [spmv, trmm, lambda: spmv(False)])
def test_data_form_and_definition(make: Callable[[], sl.Tensor]) -> None:
    tensor = make()
    (again,) = loads(dumps(tensor))
    assert dumps(again) == dumps(tensor)
    space: dict[str, Any] = {}
    text = definition([tensor], {tensor: "out"})
    assert "from schedlang.compute.data" not in text
    exec(text, space)
    assert dumps(space["out"]) == dumps(tensor)
    op = tensor.op
    assert without_ranges(op.where, len(op.limits)) is None


def test_data_with_a_wrong_box_is_refused() -> None:
    text, axis = dumps(trmm()), '["axis", "k", 20, "reduce", 0, ""'
    assert axis in text
    with pytest.raises(ComputeError, match="does not follow from its range"):
        loads(text.replace(axis, axis.replace("20", "10")))


def test_latex() -> None:
    assert trmm().latex() == r"C_{i,j} = \sum_{k=0}^{i} A_{i,k} B_{k,j}"
    assert r"\sum_{k=\mathrm{indptr}_{i}}^{\mathrm{indptr}_{i + 1} - 1}" in spmv().latex()


def test_domain_of_a_ragged_axis() -> None:
    (k,) = trmm().op.reduce_axis
    assert (k.extent, str(k.dom), str(k.dom.extent)) == (20, "(0, i + 1)", "i + 1")


# costs ----------------------------------------------------------------------------------------


def test_costs_count_the_range() -> None:
    assert (flops([trmm(8, 3)]), needed_flops([trmm(8, 3)])) == (2 * 36 * 3, 2 * 36 * 3)
    found = sl.cost(trmm(sl.var("n"), 1))
    assert found.at(n=8).flops == 2 * 36 and not found.notes
    sparse_ = sl.cost(sl.schedule(spmv()))
    assert str(sparse_.flops) == "2*nnz" and str(sparse_.loads) == "2*n + 4*nnz"
    assert "filled the box" in sparse_.notes[0]


# refusals -------------------------------------------------------------------------------------

N = sl.placeholder((4,), "int32", name="N")
V = sl.placeholder((9,), name="V")


SIZE = sl.var("n")


def gather(last: Any) -> Callable[[Any], Any]:
    """Return the element of a gather whose indices are declared to lie in ``0..last``."""
    at = sl.assume(sl.placeholder((4,), "int32", name="at"), within=(0, last))
    W = sl.placeholder((SIZE,), name="W")
    return lambda i: W[at[i]]


def in_row(make: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: sl.compute((4,), make, name="R")


REFUSALS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "float end": (
        in_row(lambda i: sl.sum(V[0], axis=sl.reduce_axis((0, V[i]), name="k"))),
        ComputeTypeError, r"an end of its range, V\[i\], is float32"),
    "no box": (
        in_row(lambda i: sl.sum(V[i], axis=sl.reduce_axis((0, N[i]), name="k"))),
        ComputeError, r"not known to lie between fixed ends\n.*sl.assume\(N, within=\(0, n\)\)"),
    "range of an axis without a box": (
        in_row(lambda i: sl.reduce_axis((0, sl.reduce_axis((0, N[i]), name="j")), name="k")),
        ComputeError, r"depends on j, whose own range \(0, N\[i\]\)"),
    "data axis by an element": (
        lambda: sl.compute((N[0],), lambda i: V[i], name="R"),
        ComputeError, "must be known before a call reads any element"),
    "placeholder by an element": (
        lambda: sl.placeholder((N[0],), name="P"), ComputeError,
        r"sl.reduce_axis\(\(0, N\[0\]\)\)"),
    "other axis": (
        in_row(lambda i: sl.sum(V[i], axis=sl.reduce_axis((0, trmm().op.axis[0]), name="k"))),
        ComputeError, "uses the axis i, which belongs to another computation"),
    "reversed numbers": (lambda: sl.reduce_axis((5, 2)), ComputeError, "hi is less than lo"),
    "negative length": (lambda: sl.reduce_axis(-3), ComputeError, "must be 0 or more"),
    "text as an end": (
        in_row(lambda i: sl.sum(V[i], axis=sl.reduce_axis((i, "9")))), ComputeTypeError,
        "contains '9'"),
    "argmax from a negative start": (
        in_row(lambda i: sl.argmax(V[sl.max(k := sl.reduce_axis((i - 1, 5)), 0)], axis=k)),
        ComputeError, "cannot be negative"),
    "elements beyond a tensor": (
        in_row(lambda i: V[sl.assume(sl.placeholder((4,), "int32", name="at"), within=(0, 9))[i]]),
        BoundsError, r"index 0 takes the values 0\.\.9, but V of shape \(9,\) has extent 9"),
    "a size beyond a tensor": (
        lambda: sl.compute((4,), gather(SIZE), name="R"), BoundsError, r"takes the values 0\.\.n,"),
    "a negative element": (
        in_row(lambda i: V[sl.assume(sl.placeholder((4,), "int32", name="at"), within=(-1, 3))[i]]),
        BoundsError, r"takes the values -1\.\.3"),
    "assume a float": (lambda: sl.assume(V, within=(0, 1)), ComputeTypeError, "V is float32"),
    "assume no tensor": (lambda: sl.assume(np.arange(3)), ComputeTypeError, "made by sl.placehold"),
    "assume a result": (
        lambda: sl.assume(sl.compute((4,), lambda i: N[i] + 1, name="R"), within=(0, 9)),
        ComputeTypeError, "R is computed, and facts are checked when a call passes an input"),
    "assume one end": (lambda: sl.assume(N, within=9), ComputeTypeError, r"within=\(0, n - 1\)"),
    "assume nothing fits": (lambda: sl.assume(N, within=(9, 0)), ComputeError, "least element f"),
    "assume an element": (
        lambda: sl.assume(N, within=(0, N[0])), ComputeTypeError, "is not an end of a range"),
    "assume an order of one": (
        lambda: sl.assume(sl.placeholder((), "int32", name="Z"), monotonic=True), ComputeError,
        "0-d, so that it has no order"),
    "vectorized steps": (
        lambda: sl.schedule(C := trmm())[C].vectorize(C.op.reduce_axis[0]),
        ScheduleError, "is a reduction axis"),
    "parallel steps": (
        lambda: sl.schedule(C := trmm())[C].parallel(C.op.reduce_axis[0]),
        ScheduleError, "is a reduction axis"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal(case: str) -> None:
    make, error, pattern = REFUSALS[case]
    with pytest.raises(error, match=pattern):
        make()


# elements in index arithmetic -----------------------------------------------------------------


def test_equal_reads_are_one_variable() -> None:
    P = sl.placeholder((9,), "int32", name="P")
    i = sl.compute((8,), lambda i: P[i], name="Q").op.axis[0]
    elements = Elements(lambda read: read.tensor, lambda read: (None, None))
    a, b = elements.lin(P[i + 1] * 2 - P[P[i]]), elements.lin(P[1 + i] + P[i + 1] - P[P[i]])
    assert a == b
    assert elements.depend(a, {i}) and not a.depends_on({i})
    assert str(elements.expr(a)) == "int64(P[i + 1])*2 - int64(P[P[i]])"


def test_the_oracle_evaluates_what_a_cache_stage_holds() -> None:
    stop = sl.assume(sl.placeholder((4,), "int32", name="stop"), within=(0, 3))
    A = sl.placeholder((4, 3), name="A")

    def row(i: sl.Axis) -> sl.Expr:
        k = sl.reduce_axis((0, stop[i]), name="k")
        return sl.sum(A[i, k] + 1, axis=k)

    C = sl.compute((4,), row, name="C")
    s = sl.schedule(C)
    s.cache_write(C, "global")
    rows = np.random.default_rng(0).random((4, 3), "float32")
    given = {"A": rows, "stop": np.array([0, 3, 1, 2], "int32")}
    found = sl.reference(list(s.outputs))
    result = found(*[given[t.name] for t in found.inputs])
    wanted = [(row[:n] + 1).sum() for row, n in zip(given["A"], given["stop"])]
    np.testing.assert_allclose(result, wanted, rtol=1e-6)


def test_ends_that_differ_are_told_apart_after_they_are_gone() -> None:
    """Nothing else keeps the expressions, so that a later one may lie at the same address."""
    start = sl.placeholder((9,), "int32", name="start")
    elements = Elements(lambda read: read.tensor, lambda read: (None, None))
    ends = []
    for k in range(500):
        value = start[k % 8]
        end = sl.select(value < 0, value + k, value)
        ends.append(elements.lin(end))
    assert len(set(ends)) == len(ends)
