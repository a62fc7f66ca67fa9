"""Tests of several reductions in one lambda: one loop, several outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import from_data, structure, to_data
from schedlang.compute.work import flops
from schedlang.errors import ComputeError, OrderWarning
from schedlang.live.definition import definition

M, N = 5, 13
A = sl.placeholder((M, N), name="A")
B = sl.placeholder((M, N), "int32", name="B")
k = sl.reduce_axis(N, name="k")
rng = np.random.default_rng(0)
a = rng.integers(-9, 9, (M, N)).astype("float32")
b = rng.integers(-9, 9, (M, N)).astype("int32")


def four() -> Any:
    """Return an argmax before a sum from the first element, a maximum and a product."""
    return sl.compute(
        (M,),
        lambda i: (
            sl.argmax(A[i, k], axis=k, where=B[i, k] > -5),
            sl.sum(A[i, k], axis=k, where=B[i, k] > -5, init=A[i, 0]),
            sl.max(B[i, k], axis=k, where=B[i, k] > -5),
            sl.prod(sl.cast(A[i, k], "float64"), axis=k, where=B[i, k] > -5, init=2),
        ),
        name="T",
    )


def wanted() -> list[np.ndarray]:
    kept = b > -5
    return [
        np.where(kept, a, -np.inf).argmax(1),
        np.where(kept, a, 0).sum(1) + a[:, 0],
        np.where(kept, b, -(2**31)).max(1),
        np.where(kept, a, 1).astype("float64").prod(1) * 2,
    ]


def check(found: Any, expected: Any = None) -> None:
    for x, y in zip(found, wanted() if expected is None else expected, strict=True):
        np.testing.assert_array_equal(x, y)


def test_each_output_has_its_own_dtype_and_the_extreme_value_is_hidden() -> None:
    T = four()
    assert [t.dtype for t in T] == ["int64", "float32", "int32", "float64"]
    assert [t.name for t in T] == ["T.v0", "T.v1", "T.v2", "T.v3"]
    assert len(T[0].op.outputs) == 5


def test_reference() -> None:
    check(sl.reference(list(four()))(a, b))


def plain(s: sl.Schedule, T: Any) -> None:
    """Take no step."""


def rfactored(s: sl.Schedule, T: Any) -> None:
    outer, inner = s[T[0]].split(T[0].op.reduce_axis[0], factor=4)
    made = s.rfactor(T[0], inner)
    assert len(made) == 4
    s[made[0]].vectorize(made[0].op.axis[0])


def cached(s: sl.Schedule, T: Any) -> None:
    made = s.cache_write(list(T), "local")
    assert len(made) == 4
    s[made[0]].compute_at(s[T[0]], s[T[0]].op.axis[0])


def lanes(s: sl.Schedule, T: Any) -> None:
    s[T[0]].reorder(*s[T[0]].op.reduce_axis, *s[T[0]].op.axis)
    s[T[0]].vectorize(s[T[0]].op.axis[0])


@pytest.mark.parametrize("steps", [plain, rfactored, cached, lanes])
def test_schedules(steps: Callable[..., None]) -> None:
    T = four()
    s = sl.schedule(list(T))
    steps(s, T)
    check(sl.build(s, target="python")(a, b))
    again = sl.Schedule.from_json(s.to_json(), list(T))
    assert str(again) == str(s)


def test_compiled() -> None:
    T = four()
    s = sl.schedule(list(T))
    rfactored(s, T)
    check(sl.build(s)(a, b))
    check(sl.build(s, target="c")(a, b))


def test_the_nest_has_a_line_for_each_reduction(golden: Any) -> None:
    golden(str(sl.schedule(list(four()))))


def test_sums_stay_in_vectors_of_their_own() -> None:
    """One load feeds both, and no statement in the loop reads or writes memory otherwise."""
    X, r = sl.placeholder((8, 256), name="X"), sl.reduce_axis(256, name="r")
    T = sl.compute((8,), lambda i: (sl.sum(X[i, r], axis=r), sl.max(X[i, r], axis=r)), name="T")
    s = sl.schedule(list(T))
    _, inner = s[T[0]].split(r, factor=16)
    S, _ = s.rfactor(T[0], inner, factor_axis=1)
    s[S].compute_at(s[T[0]], s[T[0]].op.axis[0])
    s[S].reorder(s[S].op.axis[0], *s[S].op.reduce_axis, s[S].op.axis[1])
    s[S].vectorize(s[S].op.axis[1])
    nest = str(sl.build(s, target="python").machine_nest).split("\n")
    start = next(k for k, line in enumerate(nest) if "for r_outer" in line)
    assert [line.strip() for line in nest[start + 1 : start + 6]] == [
        "X_el: float32x16 = vload(X, i*256 + r_outer*16, 16)",
        "t: float32x16 = T_rf_v0_sum + X_el",
        "t_1: float32x16 = maximum(T_rf_v1_sum, X_el)",
        "T_rf_v0_sum = t",
        "T_rf_v1_sum = t_1",
    ]


def test_threads_of_a_gpu_reduce_together() -> None:
    X, r = sl.placeholder((4, 64), name="X"), sl.reduce_axis(64, name="r")
    T = sl.compute((4,), lambda i: (sl.sum(X[i, r], axis=r), sl.argmin(X[i, r], axis=r)), name="T")
    s = sl.schedule(list(T))
    s[T[0]].bind(s[T[0]].op.axis[0], "blockIdx.x")
    _, inner = s[T[0]].split(r, factor=32)
    s[T[0]].bind(inner, "threadIdx.x")
    x = rng.integers(-9, 9, (4, 64)).astype("float32")
    f = sl.build(s, target="cuda-emulator")
    check(f.check(x), [x.sum(1), x.argmin(1)])


def test_several_axes_in_any_order_and_symbolic_sizes() -> None:
    n = sl.var("n")
    X, r, q = sl.placeholder((n, 4), name="X"), sl.reduce_axis(n, name="r"), sl.reduce_axis(4, "q")
    T = sl.compute(
        (), lambda: (sl.sum(X[r, q], axis=[r, q]), sl.argmax(X[r, q], axis=[q, r])), name="T"
    )
    f = sl.build(sl.schedule(list(T)), target="python")
    x = rng.normal(size=(3, 4)).astype("float32")
    total, at = f(x)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-6)
    assert at == x.T.argmax()
    total, at = f(np.zeros((0, 4), "float32"))
    assert (total, at) == (0, -1)


def test_a_reducer_of_tuples_beside_a_sum() -> None:
    pair = sl.comm_reducer(
        lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])), lambda t, u: (0, -(2**31)), name="pair"
    )
    T = sl.compute(
        (M,), lambda i: (pair((A[i, k], B[i, k]), axis=k), sl.min(B[i, k], axis=k)), name="T"
    )
    assert len(T) == 3
    expected = [a.sum(1), b.max(1), b.min(1)]
    check(sl.build(sl.schedule(list(T)), target="python")(a, b), expected)
    check(sl.reference(list(T))(a, b), expected)


def test_one_reduction_given_twice() -> None:
    def twice(i: Any) -> Any:
        total = sl.sum(A[i, k], axis=k)
        return total, total

    T = sl.compute((M,), twice, name="T")
    check(sl.build(sl.schedule(list(T)), target="python")(a), [a.sum(1), a.sum(1)])
    check(sl.reference(list(from_data(to_data(T))))(a), [a.sum(1), a.sum(1)])


def test_data_form() -> None:
    T = four()
    again = from_data(to_data(T))
    check(sl.reference(list(again))(a, b))
    assert structure(again) == structure(T)
    other = sl.compute((M,), lambda i: (sl.sum(A[i, k], axis=k), sl.min(A[i, k], axis=k)), name="T")
    same = sl.compute((M,), lambda i: (sl.sum(A[i, k], axis=k), sl.max(A[i, k], axis=k)), name="T")
    assert structure(other).key != structure(same).key


@pytest.mark.parametrize("change", [
    lambda item: item[1][0].__setitem__(1, [0]),
    lambda item: item[1][1].__setitem__(1, ["0"]),
    lambda item: item[1][1].__setitem__(2, 0),
    lambda item: item[1][1].__setitem__(0, 0),
    lambda item: item[1].pop(),
    lambda item: item.__setitem__(1, 3),
])  # fmt: skip
def test_tampered_data(change: Callable[[Any], Any]) -> None:
    data = to_data(four())
    change(next(item for item in data["items"] if item[0] == "joint"))
    with pytest.raises(ComputeError, match="of the data"):
        from_data(data)


def test_as_python_and_latex() -> None:
    T = four()
    text = definition(list(T), {A: "A", B: "B", **{t: f"T{n}" for n, t in enumerate(T)}})
    assert "T0, T1, T2, T3 = sl.compute((5,), lambda i: (sl.argmax(A[i, k], axis=k, where=" in text
    S = sl.compute((M,), lambda i: (sl.sum(A[i, k], axis=k), sl.argmax(B[i, k], axis=k)), name="S")
    assert S[0].latex() == (
        r"\left(\mathrm{S.v0}_{i}, \mathrm{S.v1}_{i}\right) = "
        r"\left(\sum_{k=0}^{12} A_{i,k}, \arg\max_{0 \leq k < 13} B_{i,k}\right)"
    )


def test_each_reduction_counts_an_operation_a_step() -> None:
    T = sl.compute((M,), lambda i: (sl.sum(A[i, k], axis=k), sl.argmax(B[i, k], axis=k)), name="T")
    assert flops(list(T)) == M * N * 2


def test_ties_of_one_part_warn() -> None:
    first = sl.comm_reducer(
        lambda x, y: tuple(sl.select(x[1] >= y[1], p, q) for p, q in zip(x, y)),
        lambda t, u: (-1, -np.inf), name="first",
    )  # fmt: skip
    T = sl.compute(
        (M,), lambda i: (sl.max(B[i, k], axis=k), first((k, A[i, k]), axis=k)), name="T"
    )
    s = sl.schedule(list(T))
    _, inner = s[T[0]].split(k, factor=4)
    with pytest.warns(OrderWarning, match="max_first combines values"):
        s.rfactor(T[0], inner)


r, q = sl.reduce_axis(N, name="r"), sl.reduce_axis(N, name="k")
REFUSED = {
    "another axis": (
        lambda i: (sl.sum(A[i, k], axis=k), sl.max(A[i, r], axis=r)),
        "sl.sum is over k, but sl.max over r, and reductions of one lambda share their loops"),
    "an axis of the same name": (
        lambda i: (sl.sum(A[i, k], axis=k), sl.max(A[i, q], axis=q)),
        "sl.sum is over k, but sl.max over another axis named k"),
    "another where": (
        lambda i: (sl.sum(A[i, k], axis=k, where=B[i, k] > 0), sl.max(A[i, k], axis=k)),
        r"where=B\[i, k\] > 0, but sl.max has no where=.*\n.*sl.select\(B\[i, k\] > 0, ..., 0\)"),
    "an expression": (
        lambda i: (A[i, 0], sl.max(A[i, k], axis=k)),
        r"value 0, A\[i, 0\], is none.*\n.*a stage of its own"),
    "arithmetic": (
        lambda i: (sl.sum(A[i, k], axis=k), sl.max(A[i, k], axis=k) * 2),
        "a reduction must be the whole value"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    body, message = REFUSED[case]
    with pytest.raises(ComputeError, match=message):
        sl.compute((M,), body, name="T")
