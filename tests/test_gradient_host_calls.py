"""Gradients through calls of NumPy on the host, compared with differences of the NumPy program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError

N = 5
STEP = 1e-6


def matrices(rng: Any, *lead: int) -> Any:
    """Return positive definite matrices whose triangles differ a little."""
    a = rng.normal(size=(*lead, N, N))
    return a @ np.matrix_transpose(a) + N * np.eye(N) + 0.1 * rng.normal(size=a.shape)


def vector(rng: Any) -> Any:
    return rng.normal(size=N)


def columns(rng: Any) -> Any:
    return rng.normal(size=(3, N, 2))


def batch(rng: Any) -> Any:
    return matrices(rng, 3)


CASES: dict[str, tuple[Callable[..., Any], list[Callable[[Any], Any]]]] = {
    "inverse": (np.linalg.inv, [batch]),
    "solve a vector": (np.linalg.solve, [matrices, vector]),
    "solve columns": (np.linalg.solve, [batch, columns]),
    "solve a vector for each matrix": (np.linalg.solve, [batch, vector]),
    "solve columns for one matrix": (np.linalg.solve, [matrices, columns]),
    "solve the same columns": (lambda a, b: np.linalg.solve(a, b[:1]), [batch, columns]),
    "solve by a batch of one": (lambda a, b: np.linalg.solve(a[:1], b), [batch, columns]),
    "solve twice with a matrix": (lambda a: np.linalg.solve(a, a * a) + a, [matrices]),
    "solve with itself": (lambda a: np.linalg.solve(a, a), [matrices]),
    "cholesky": (np.linalg.cholesky, [batch]),
    "upper cholesky": (lambda a: np.linalg.cholesky(a, upper=True) ** 2, [matrices]),
    "determinant": (lambda a: np.linalg.det(a / 5), [batch]),
    "determinant of one": (lambda a: np.linalg.det(a / 5) ** 2, [matrices]),
    "log of the determinant": (lambda a: np.linalg.slogdet(a)[1], [batch]),
    "log likelihood": (
        lambda a, b: b @ np.linalg.solve(a, b) + np.linalg.slogdet(a).logabsdet,
        [matrices, vector],
    ),
}


def weighted(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda w, *arrays: (function(*arrays) * w).sum()


def along(kernel: Any, xs: Any, w: Any, arrays: Any, ways: Any) -> float:
    """Return the derivative along a direction, from the gradients that a kernel computes."""
    values = {"w": w, **{x.name: a for x, a in zip(xs, arrays)}}
    by = kernel(**{t.name: values[t.name] for t in kernel.inputs})
    listed = by if isinstance(by, tuple) else (by,)
    return sum(float((g * way).sum()) for g, way in zip(listed, ways))


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_the_limits_of_differences(name: str) -> None:
    function, makers = CASES[name]
    rng = np.random.default_rng(len(name))
    arrays = [make(rng) for make in makers]
    w = np.asarray(rng.normal(size=np.shape(function(*arrays))))
    loss = weighted(function)
    xs = [sl.placeholder(a.shape, "float64", name=f"x{k}") for k, a in enumerate(arrays)]
    y = sl.trace(loss, sl.placeholder(w.shape, "float64", name="w"), *xs)
    by = sl.gradient(y, xs)
    ways = [rng.normal(size=a.shape) for a in arrays]
    ends = [loss(w, *(a + h * way for a, way in zip(arrays, ways))) for h in (STEP, -STEP)]
    expected = (ends[0] - ends[1]) / (2 * STEP)
    slope = along(sl.reference(by), xs, w, arrays, ways)
    assert slope == pytest.approx(expected, rel=1e-6, abs=1e-8)


def test_a_known_matrix_has_no_gradient() -> None:
    known = np.eye(N) * 2 + np.tri(N)
    B = sl.placeholder((N,), "float64", name="B")
    x = np.linalg.solve(known, B)
    head = sl.placeholder((N,), "float64", name="head")
    h = np.arange(1.0, N + 1)
    expected = np.linalg.solve(known.T, h)
    np.testing.assert_allclose(sl.reference(sl.gradient(x, B, head))(h), expected, rtol=1e-12)


def test_a_gradient_of_a_gradient_passes_through_a_call() -> None:
    rng = np.random.default_rng(4)
    a, way = matrices(rng), rng.normal(size=(N, N))
    A = sl.placeholder((N, N), "float64", name="A")
    first = sl.gradient(sl.trace(lambda a: np.linalg.slogdet(a)[1], A), A)
    second = sl.gradient(sl.trace(lambda g: (g * g).sum(), first), A)

    def squares(a: Any) -> Any:
        return (np.linalg.inv(a) ** 2).sum()

    expected = (squares(a + STEP * way) - squares(a - STEP * way)) / (2 * STEP)
    assert (sl.reference(second)(a) * way).sum() == pytest.approx(expected, rel=1e-6)


def test_a_kernel_calls_numpy_for_a_gradient() -> None:
    rng = np.random.default_rng(5)
    a = matrices(rng).astype("float32")
    A = sl.placeholder((N, N), "float32", name="A")
    by = sl.gradient(sl.trace(lambda a: np.log(np.linalg.det(a)), A), A)
    assert by.dtype == "float32"
    np.testing.assert_allclose(sl.build(sl.schedule(by))(a), np.linalg.inv(a).T, rtol=1e-3)


def test_a_rule_of_the_user_comes_first() -> None:
    A = sl.placeholder((N, N), "float64", name="A")
    B = np.linalg.inv(A)
    y = sl.trace(lambda b: b.sum(), B)
    by = sl.gradient(y, A, rules={B: lambda head: {A: head * 3.0}})
    np.testing.assert_array_equal(sl.reference(by)(), np.full((N, N), 3.0))


def test_a_batch_of_any_size() -> None:
    n = sl.var("n")
    A, B = (sl.placeholder(s, "float64", name=m) for m, s in (("A", (n, N, N)), ("B", (N, 2))))
    by = sl.gradient(sl.trace(lambda a, b: np.linalg.solve(a, b).sum(), A, B), [A, B])
    a, b = batch(np.random.default_rng(6)), columns(np.random.default_rng(7))[0]
    back = np.linalg.solve(np.matrix_transpose(a), np.ones((3, N, 2)))
    by_a, by_b = sl.reference(by)(A=a, B=b)
    np.testing.assert_allclose(by_a, -back @ np.matrix_transpose(np.linalg.solve(a, b)), rtol=1e-9)
    np.testing.assert_allclose(by_b, back.sum(0), rtol=1e-9)


def test_calls_without_a_derivative_are_refused() -> None:
    A = sl.placeholder((2, N, N), "float64", name="A")
    y = np.linalg.eigvals(A)
    head = sl.placeholder(y.shape, y.dtype, name="head")
    with pytest.raises(ComputeTypeError, match=r"np\.linalg\..*, into which schedlang cannot"):
        sl.gradient(y, A, head)
