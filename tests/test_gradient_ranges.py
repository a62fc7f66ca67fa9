"""Gradients through ragged ranges, several reductions in one loop, and products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError

F = "float64"
STEP = 1e-5


def tensors(**shapes: tuple[Any, ...]) -> list[sl.Tensor]:
    return [sl.placeholder(shape, F, name=name) for name, shape in shapes.items()]


def results(made: Any, arrays: dict[str, Any], kernel: bool = True) -> list[np.ndarray]:
    """Return the values of tensors by the oracle, after a comparison with the kernel's."""
    f = sl.reference(made)
    found = f(**{t.name: arrays[t.name] for t in f.inputs})
    found = list(found) if isinstance(found, tuple) else [found]
    if kernel:
        g = sl.build(sl.schedule(made), target="python")
        again = g(**{t.name: arrays[t.name] for t in f.inputs})
        for a, b in zip(again if isinstance(again, tuple) else [again], found):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    return found


def check(y: sl.Tensor, xs: list[sl.Tensor], arrays: dict[str, Any], kernel: bool = True) -> Any:
    """Compare the gradients of ``y`` with its differences, and return them as tensors."""
    rng = np.random.default_rng(5)
    arrays = {t.name: arrays[t.name] for t in sl.reference(y).inputs}
    weights = rng.normal(size=np.shape(results(y, arrays, False)[0]))
    head = sl.placeholder(y.shape, F, name="head")
    made = sl.gradient(y, xs, head)
    found = results(made, {**arrays, "head": weights}, kernel)
    for x, by in zip(xs, found):
        for at in np.ndindex(by.shape):
            ends = []
            for sign in (1, -1):
                moved = arrays[x.name].copy()
                moved[at] += sign * STEP
                ends.append((results(y, {**arrays, x.name: moved}, False)[0] * weights).sum())
            slope = (ends[0] - ends[1]) / (2 * STEP)
            np.testing.assert_allclose(by[at], slope, rtol=1e-5, atol=1e-7, err_msg=f"{x.name}{at}")
    return made


RNG = np.random.default_rng(0)


# triangles ------------------------------------------------------------------------------------


def trmm() -> tuple[sl.Tensor, list[sl.Tensor]]:
    A, B = tensors(A=(5, 5), B=(5, 3))

    def element(i: Any, j: Any) -> Any:
        k = sl.reduce_axis((0, i + 1), name="k")
        return sl.sum(A[i, k] * B[k, j], axis=k)

    return sl.compute((5, 3), element, name="C"), [A, B]


def test_the_gradient_of_a_triangle_runs_over_the_transposed_one() -> None:
    C, xs = trmm()
    arrays = {"A": RNG.normal(size=(5, 5)), "B": RNG.normal(size=(5, 3))}
    by_a, by_b = check(C, xs, arrays)
    assert "for i in k..5:" in str(sl.schedule(by_b))
    (axis,) = by_b.op.reduce_axis
    assert str(axis.bounds) == "(k, 5)"


def test_ranges_inside_of_ranges() -> None:
    (A,) = tensors(A=(5, 5))

    def element(i: Any) -> Any:
        k = sl.reduce_axis((i, 5), name="k")
        m = sl.reduce_axis((0, k + 1), name="m")
        return sl.sum(A[k, m] * A[i, m], axis=(k, m))

    check(sl.compute((5,), element, name="C"), [A], {"A": RNG.normal(size=(5, 5))})


def test_a_range_that_leaves_a_single_row() -> None:
    """A constant index takes the place of the ragged axis: its range becomes that of a row."""
    (A,) = tensors(A=(6,))

    def element(i: Any) -> Any:
        k = sl.reduce_axis((0, i + 1), name="k")
        return sl.sum(sl.sin(A[sl.min(k + 2, 5)]) * A[i], axis=k)

    check(sl.compute((5,), element, name="C"), [A], {"A": RNG.normal(size=6)})


def test_a_triangle_of_symbolic_size() -> None:
    n = sl.var("n")
    A, B = tensors(A=(n, n), B=(n,))

    def element(i: Any) -> Any:
        k = sl.reduce_axis((0, i + 1), name="k")
        return sl.sum(A[i, k] * B[k], axis=k)

    C = sl.compute((n,), element, name="C")
    by_a, by_b = sl.gradient(C, [A, B], sl.placeholder((n,), F, name="head"))
    f = sl.build(sl.schedule([by_a, by_b]), target="python")
    for size in (0, 1, 4):
        a, b, g = RNG.normal(size=(size, size)), RNG.normal(size=size), RNG.normal(size=size)
        found = f(A=a, B=b, head=g)
        np.testing.assert_allclose(found[0], np.tril(np.outer(g, b)))
        np.testing.assert_allclose(found[1], np.tril(a).T @ g)


def test_causal_attention_with_ragged_ranges() -> None:
    n, d = 4, 3
    Q, K, V = tensors(Q=(n, d), K=(n, d), V=(n, d))
    c = sl.reduce_axis(d, name="c")
    S = sl.compute((n, n), lambda i, j: sl.sum(Q[i, c] * K[j, c], axis=c), name="S")

    def over(fn: Any, value: Callable[..., Any]) -> Callable[..., Any]:
        def element(i: Any, *rest: Any) -> Any:
            k = sl.reduce_axis((0, i + 1), name="k")
            return fn(value(i, k, *rest), axis=k)

        return element

    top = sl.compute((n,), over(sl.max, lambda i, k: S[i, k]), name="top")
    total = sl.compute((n,), over(sl.sum, lambda i, k: sl.exp(S[i, k] - top[i])), name="total")
    O = sl.compute(  # noqa: E741
        (n, d), over(sl.sum, lambda i, k, j: sl.exp(S[i, k] - top[i]) / total[i] * V[k, j]),
        name="O",
    )  # fmt: skip
    check(O, [Q, K, V], {name: RNG.normal(size=(n, d)) for name in "QKV"})


# ranges between elements ----------------------------------------------------------------------


def rows(
    body: Callable[..., Any], monotonic: bool = True
) -> tuple[sl.Tensor, list[sl.Tensor], dict[str, Any]]:
    """Return a reduction over the rows of a sparse matrix, its inputs and their values."""
    n, nnz = 4, 9
    P = sl.placeholder((n + 1,), "int32", name="P")
    sl.assume(P, monotonic=monotonic, within=(0, nnz))
    I = sl.placeholder((nnz,), "int32", name="I")  # noqa: E741
    D, X, R = tensors(D=(nnz,), X=(6,), R=(n,))

    def row(i: Any) -> Any:
        k = sl.reduce_axis((P[i], P[i + 1]), name="k")
        return body(i, k, D, X, I, R)

    Y = sl.compute((n,), row, name="Y")
    arrays = {
        # the first element is in no row, and a row is empty
        "P": np.array([1, 3, 3, 7, 9] if monotonic else [1, 3, 2, 7, 5], "int32"),
        "I": RNG.integers(0, 6, nnz).astype("int32"), "D": RNG.normal(size=nnz),
        "X": RNG.normal(size=6), "R": RNG.normal(size=n),
    }  # fmt: skip
    known = {t.name for t in sl.reference(Y).inputs}
    return Y, [t for t in (D, X, R) if t.name in known], arrays


BODIES: dict[str, Callable[..., Any]] = {
    "sum": lambda i, k, D, X, C, R: sl.sum(D[k] * X[C[k]] * R[i], axis=k),
    "largest": lambda i, k, D, X, C, R: sl.max(D[k], axis=k, init=-9.0),
    "largest of sums": lambda i, k, D, X, C, R: sl.max(D[k] * R[i] + X[C[k]], axis=k, init=-9.0),
    "product": lambda i, k, D, X, C, R: sl.prod(D[k] * R[i], axis=k),
    "where": lambda i, k, D, X, C, R: sl.sum(D[k] * R[i], axis=k, where=C[k] > 2),
}  # fmt: skip


@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_rows_of_a_sparse_matrix(name: str, monotonic: bool) -> None:
    check(*rows(BODIES[name], monotonic))


def test_the_gradient_by_the_elements_of_rows_has_one_term_each(golden: Any) -> None:
    Y, xs, _ = rows(BODIES["sum"])
    golden(str(sl.schedule(sl.gradient(Y, xs, sl.placeholder((4,), F, name="head")))))


def test_the_elements_of_all_rows_are_stored_once() -> None:
    Y, xs, _ = rows(BODIES["largest of sums"])
    by = sl.gradient(Y, xs[0], sl.placeholder((4,), F, name="head"))
    stored = next(s for s in sl.schedule(by).stages if s.name == "Y.elements")
    assert stored.op.shape == (9,)


def test_rows_times_a_matrix_of_symbolic_size() -> None:
    n, m, nnz = sl.var("n"), sl.var("m"), sl.var("nnz")
    P = sl.assume(sl.placeholder((n + 1,), "int32", name="P"), monotonic=True, within=(0, nnz))
    I = sl.placeholder((nnz,), "int32", name="I")  # noqa: E741
    D, B = tensors(D=(nnz,), B=(m, 3))

    def element(i: Any, j: Any) -> Any:
        k = sl.reduce_axis((P[i], P[i + 1]), name="k")
        return sl.sum(D[k] * B[I[k], j], axis=k)

    C = sl.compute((n, 3), element, name="C")
    made = sl.gradient(C, [D, B], sl.placeholder((n, 3), F, name="head"))
    f = sl.build(sl.schedule(made), target="python")
    for lengths in ([2, 0, 3], [], [0, 0]):
        count = sum(lengths)
        row = np.repeat(np.arange(len(lengths)), lengths)
        column = RNG.integers(0, 4, count).astype("int32")
        d, b = RNG.normal(size=count), RNG.normal(size=(4, 3))
        g = RNG.normal(size=(len(lengths), 3))
        starts = np.r_[0, np.cumsum(lengths)].astype("int32")
        by_d, by_b = f(P=starts, I=column, D=d, B=b, head=g)
        np.testing.assert_allclose(by_d, (g[row] * b[column]).sum(1))
        expected = np.zeros((4, 3))
        np.add.at(expected, column, d[:, None] * g[row])
        np.testing.assert_allclose(by_b, expected)


def test_sequences_of_different_lengths() -> None:
    lengths = sl.assume(sl.placeholder((4,), "int32", name="lengths"), within=(0, 6))
    X, W = tensors(X=(4, 6), W=(6,))

    def element(b: Any) -> Any:
        t = sl.reduce_axis((0, lengths[b]), name="t")
        return sl.sum(sl.tanh(X[b, t] * W[t]), axis=t)

    arrays = {"lengths": np.array([0, 6, 3, 1], "int32"),
              "X": RNG.normal(size=(4, 6)), "W": RNG.normal(size=6)}  # fmt: skip
    check(sl.compute((4,), element, name="S"), [X, W], arrays)


def test_a_scatter_over_ranges() -> None:
    P = sl.assume(sl.placeholder((4,), "int32", name="P"), monotonic=True, within=(0, 7))
    D, R = tensors(D=(7,), R=(3,))
    i = sl.reduce_axis(3, name="i")
    k = sl.reduce_axis((P[i], P[i + 1]), name="k")
    H = sl.scatter((5,), (i, k), lambda i, k: (k % 5, D[k] * R[i]), name="H")
    starts = np.array([0, 3, 3, 6], "int32")
    check(H, [D, R], {"P": starts, "D": RNG.normal(size=7), "R": RNG.normal(size=3)})


# several reductions in one loop ---------------------------------------------------------------


def test_several_reductions_of_one_loop() -> None:
    (A,) = tensors(A=(4, 4))
    k = sl.reduce_axis(4, name="k")
    total, top, product, place = sl.compute(
        (4,),
        lambda i: (
            sl.sum(A[i, k], axis=k, init=A[i, 0]), sl.max(A[i, k] * A[k, i] + A[i, k], axis=k),
            sl.prod(A[k, i], axis=k), sl.argmax(A[i, k], axis=k),
        ), name="J",
    )  # fmt: skip
    Z = sl.compute(
        (4,), lambda i: total[i] * top[i] + product[i] * sl.cast(place[i], F), name="Z"
    )
    check(Z, [A], {"A": RNG.normal(size=(4, 4))})


def test_reductions_that_nothing_reads_have_no_gradient() -> None:
    (A,) = tensors(A=(4, 5))
    k = sl.reduce_axis(5, name="k")
    total, _ = sl.compute(
        (4,), lambda i: (sl.sum(A[i, k], axis=k), sl.max(A[i, k], axis=k)), name="J"
    )
    by = sl.gradient(total, A, sl.placeholder((4,), F, name="head"))
    assert [s.name for s in sl.schedule(by).stages] == ["A_grad"]


# products -------------------------------------------------------------------------------------


def without(row: np.ndarray, *places: int) -> float:
    return float(np.prod([x for k, x in enumerate(row) if k not in places]))


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("size", [3, 11])
def test_products_with_zeros(size: int, zeros: tuple[int, ...]) -> None:
    """First and second derivatives are the products of the other factors."""
    A, v = tensors(A=(2, size), v=(2, size))
    k, i, j = (sl.reduce_axis(n, name=m) for n, m in ((size, "k"), (2, "i"), (size, "j")))
    T = sl.compute((2,), lambda i: sl.prod(A[i, k], axis=k), name="T")
    g = sl.gradient(T, A, sl.placeholder((2,), F, name="head"))
    along = sl.compute((), lambda: sl.sum(g[i, j] * v[i, j], axis=(i, j)), name="along")
    a = RNG.uniform(0.5, 1.5, (2, size))
    a[:, list(zeros)] = 0
    h, w = RNG.normal(size=2), RNG.normal(size=(2, size))
    arrays = {"A": a, "v": w, "head": h}
    first = [[h[r] * without(a[r], c) for c in range(size)] for r in range(2)]
    second = [[sum(h[r] * w[r, d] * without(a[r], c, d) for d in range(size) if d != c)
               for c in range(size)] for r in range(2)]  # fmt: skip
    np.testing.assert_allclose(results(g, arrays)[0], first, atol=1e-12)
    np.testing.assert_allclose(results(sl.gradient(along, A), arrays)[0], second, atol=1e-12)


@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_product_of_a_symbolic_size(size: int) -> None:
    n = sl.var("n")
    A, k = sl.placeholder((2, n), F, name="A"), sl.reduce_axis(n, name="k")
    T = sl.compute((2,), lambda i: sl.prod(A[i, k], axis=k, init=3.0), name="T")
    by = sl.gradient(T, A, sl.placeholder((2,), F, name="head"))
    a, h = RNG.normal(size=(2, size)), RNG.normal(size=2)
    expected = [[3 * h[r] * without(a[r], c) for c in range(size)] for r in range(2)]
    found = results(by, {"A": a, "head": h})[0]
    np.testing.assert_allclose(found, np.reshape(expected, (2, size)), atol=1e-12)


@pytest.mark.parametrize("zeros", [(), (4,), (4, 5)])
def test_second_derivatives_of_products_over_rows(zeros: tuple[int, ...]) -> None:
    Y, (D,), arrays = rows(lambda i, k, D, X, C, R: sl.prod(D[k], axis=k))
    v, k = sl.placeholder((9,), F, name="v"), sl.reduce_axis(9, name="k")
    g = sl.gradient(Y, D, sl.placeholder((4,), F, name="head"))
    along = sl.compute((), lambda: sl.sum(g[k] * v[k], axis=k), name="along")
    arrays.update(v=RNG.normal(size=9), head=RNG.normal(size=4))
    arrays["D"][list(zeros)] = 0
    d, starts = arrays["D"], arrays["P"]
    first, second = np.zeros(9), np.zeros(9)
    for row in range(4):
        own = range(starts[row], starts[row + 1])
        for c in own:
            h = arrays["head"][row]
            first[c] = h * without(d[own], *(q - own.start for q in (c,)))
            second[c] = sum(h * arrays["v"][q] * without(d[own], c - own.start, q - own.start)
                            for q in own if q != c)  # fmt: skip
    np.testing.assert_allclose(results(g, arrays)[0], first, atol=1e-12)
    np.testing.assert_allclose(results(sl.gradient(along, D), arrays)[0], second, atol=1e-12)


@pytest.mark.parametrize("monotonic", [True, False])
@pytest.mark.parametrize("start", [None, "R"])
def test_a_custom_combiner_over_rows(start: str | None, monotonic: bool) -> None:
    """Each range begins anew, at its start, and where its first elements do not count."""
    mixed = sl.comm_reducer(
        lambda a, b: a + b + a * b, lambda t: 0.0, "mixed", gradient="fold", trusted=True
    )

    def body(i: Any, k: Any, D: Any, X: Any, C: Any, R: Any) -> Any:
        init = None if start is None else R[i]
        return mixed(D[k] * X[C[k]], axis=k, where=C[k] > 1, init=init)

    Y, xs, arrays = rows(body, monotonic)
    made = check(Y, xs, arrays)
    partial = next(s for s in sl.schedule(made).stages if s.name == "Y.partials")
    assert partial.op.outputs[0].shape == ((10,) if monotonic else (10, 4))


# kinks and guards -----------------------------------------------------------------------------


def test_equal_operands_of_a_combiner_share_its_gradient() -> None:
    """The largest of equal elements, as in a log-sum-exp whose elements are one."""

    def combine(a: Any, b: Any) -> Any:
        top = sl.max(a[0], b[0])
        return top, a[1] * sl.exp(a[0] - top) + b[1] * sl.exp(b[0] - top)

    online = sl.comm_reducer(
        combine, lambda t, u: (-1e30, 0.0), "online", gradient="fold", trusted=True
    )
    (A,), k = tensors(A=(2,)), sl.reduce_axis(3, name="k")
    one = sl.const(1.0, F)
    top, total = sl.compute((2,), lambda i: online((A[i] + 0 * k, one), axis=k), name="R")
    Z = sl.compute((2,), lambda i: top[i] + sl.log(total[i]), name="Z")
    by = sl.gradient(Z, A, sl.placeholder((2,), F, name="head"))
    found = results(by, {"A": np.array([0.5, 2.0]), "head": np.array([1.0, 3.0])})
    np.testing.assert_allclose(found[0], [1, 3])


@pytest.mark.parametrize(
    "body",
    [
        lambda A, B, i: sl.if_then_else(i > 0, sl.max(A[i - 1], B[i]), 0.0),
        lambda A, B, i: sl.if_then_else(i > 0, sl.abs(A[i - 1]) ** B[i], 0.0),
        lambda A, B, i: sl.if_then_else(i > 0, A[i - 1] * B[i - 1], 0.0)
        + sl.if_then_else(i > 1, A[i - 1] * B[i - 1] * 2, 0.0),
    ],
)
def test_conditions_guard_the_reads_of_derivatives(body: Callable[..., Any]) -> None:
    A, B = tensors(A=(4,), B=(4,))
    C = sl.compute((4,), lambda i: body(A, B, i), name="C")
    check(C, [A, B], {"A": RNG.normal(size=4), "B": RNG.normal(size=4)})


def test_the_first_rows_of_a_scan_are_read_from_its_result() -> None:
    X, w = tensors(X=(4, 2), w=(2,))
    S = sl.placeholder((4, 2), F, name="S")
    first = sl.compute((1, 2), lambda t, i: sl.tanh(X[t, i] * w[i]), name="first")
    step = sl.compute((4, 2), lambda t, i: S[t - 1, i] * w[i] + X[t, i], name="step")
    check(sl.scan(first, step, S, name="R"), [X, w],
          {"X": RNG.normal(size=(4, 2)), "w": RNG.normal(size=2)})  # fmt: skip


def test_a_scan_with_a_single_step() -> None:
    X, w = tensors(X=(3, 2), w=(2, 2))
    S, m = sl.placeholder((3, 2), F, name="S"), sl.reduce_axis(2, name="m")
    first = sl.compute((2, 2), lambda t, i: X[t, i], name="first")
    mixed = sl.compute((3, 2), lambda t, j: sl.sum(S[t - 2, m] * w[m, j], axis=m), name="mixed")
    step = sl.compute((3, 2), lambda t, i: sl.tanh(mixed[t, i] + X[t, i]), name="step")
    check(sl.scan(first, step, S, name="R"), [X, w],
          {"X": RNG.normal(size=(3, 2)), "w": RNG.normal(size=(2, 2))})  # fmt: skip


def test_empty_iterations_add_nothing() -> None:
    A, B = tensors(A=(1,), B=(0,))
    C = sl.compute((0,), lambda i: A[0] * B[i], name="C")
    by = sl.gradient(C, [A, B], sl.placeholder((0,), F, name="head"))
    found = results(by, {"A": np.ones(1), "B": np.ones(0), "head": np.ones(0)})
    assert found[0].tolist() == [0] and found[1].shape == (0,)


def test_a_lookup_at_reversed_rows() -> None:
    """The condition on data reads it at an index that zeros around the head do not bound."""
    X, I = sl.placeholder((5, 2), F, name="X"), sl.placeholder((2,), "int8", name="I")  # noqa: E741
    E = sl.compute((3, 2), lambda i, j: X[2 - j, I[j]], name="E")
    check(E, [X], {"X": RNG.normal(size=(5, 2)), "I": np.array([1, 0], "int8")})


def test_reads_under_conditions_that_cannot_hold_are_no_error() -> None:
    (A,) = tensors(A=(2,))

    def body(i: sl.Axis) -> sl.Expr:
        at = sl.min(i, 1) + 1
        return sl.if_then_else(i >= 1, sl.if_then_else(at < 2, A[at], 0.5), 0.0)

    C = sl.compute((4,), body, name="C")
    assert sl.reference(C)(np.ones(2)).tolist() == [0, 0.5, 0.5, 0.5]
    with pytest.raises(BoundsError, match="index 0 is 2, but A"):
        sl.compute((4,), lambda i: sl.if_then_else(i >= 1, A[sl.min(i, 1) + 1], 0.0), name="C")


def test_an_empty_range_inside_of_an_empty_one() -> None:
    P = sl.assume(sl.placeholder((2,), "int32", name="P"), within=(0, 3))
    Q = sl.assume(sl.placeholder((3,), "int32", name="Q"), within=(0, 3))
    (A,) = tensors(A=(3,))
    i = sl.reduce_axis((P[0], P[1]), name="i")
    k = sl.reduce_axis((Q[i % 2], Q[i % 2 + 1]), name="k")
    T = sl.compute((), lambda: sl.sum(A[k], axis=(i, k)), name="T")
    found = sl.reference(T)(A=np.ones(3), P=np.array([2, 1], "int32"), Q=np.zeros(3, "int32"))
    assert found == 0
