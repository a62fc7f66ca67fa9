"""The side of a choice that is not chosen adds nothing to a gradient, not even NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

import schedlang as sl
from schedlang import topi
from tests.test_gradient_seams import total

NAN, INFINITY = float("nan"), float("inf")


def chosen_at(function: Callable[[Any], Any], x: float, order: int) -> float:
    """Return a derivative of the side that is chosen at ``x``; ``function`` returns that side."""
    side = function(x)
    with mpmath.workdps(40):
        return float(mpmath.diff(side, mpmath.mpf(x), order))


def zero(x: Any) -> Any:
    return x * 0


def _softplus(x: Any) -> Any:
    return np.where(x < 20, np.log1p(np.exp(x)), x)


def _roots_twice(x: Any) -> Any:
    root = np.sqrt(x)
    return np.where(x > 0, root * root, 0.0) + np.where(x > 1, root, 0.0)


def _nested(x: Any) -> Any:
    return np.where(x > 0, np.where(x < 4, np.sqrt(4 - x), 1.0) * np.log(x), 0.0)


def _clipped(x: Any) -> Any:
    return np.maximum(np.sqrt(np.maximum(x, 0.0)), 1.0)


def _in_sequence(x: Any) -> Any:
    """Make the condition of each choice that of all before it, too."""
    value = np.sqrt(x)
    # over a tuple, since a trace would keep a loop over a range, whose choices end at its border
    for k in tuple(range(12)):
        value = np.where(x > k, value, 0.0) * 1.5 + 0.0
    return value


# the function of elements or arrays, the side that mpmath differentiates, points
ELEMENTS: dict[str, tuple[Any, Any, list[float]]] = {
    "sqrt": (lambda x: np.where(x > 0, np.sqrt(x), 0),
             lambda x: mpmath.sqrt if x > 0 else zero, [-1, 0, 4]),
    "the other side": (lambda x: np.where(x <= 0, x * x, np.sqrt(x)),
                       lambda x: mpmath.sqrt if x > 0 else lambda t: t * t, [-1, 0, 4]),
    "softplus": (_softplus, lambda x: (lambda t: mpmath.log1p(mpmath.exp(t))) if x < 20
                 else lambda t: t, [-1, 0, 1000]),
    "quotient": (lambda x: np.where(x != 0, np.sin(x) / x, 1.0),
                 lambda x: (lambda t: mpmath.sin(t) / t) if x else zero, [0, 1]),
    "x log x": (lambda x: np.where(x > 0, x * np.log(x), 0.0),
                lambda x: (lambda t: t * mpmath.log(t)) if x > 0 else zero, [-2, 0, 2]),
    "power": (lambda x: np.where(x > 0, x**0.3, 2 * x),
              lambda x: (lambda t: t ** mpmath.mpf("0.3")) if x > 0 else lambda t: 2 * t,
              [-2, 0, 2]),
    "arccos": (lambda x: np.where(np.abs(x) < 1, np.arccos(x), x),
               lambda x: mpmath.acos if abs(x) < 1 else lambda t: t, [-1, 0.5, 1, 3]),
    "a product that overflows": (
        lambda x: np.where(x < 10, np.exp(x) * x, x),
        lambda x: (lambda t: mpmath.exp(t) * t) if x < 10 else lambda t: t, [1, 1000]),
    "nested": (_nested, lambda x: zero if x <= 0 else (lambda t: mpmath.sqrt(4 - t) * mpmath.log(t))
               if x < 4 else mpmath.log, [-1, 0, 2, 4, 5]),
    "used twice": (_roots_twice, lambda x: zero if x <= 0 else (lambda t: t) if x <= 1
                   else lambda t: t + mpmath.sqrt(t), [-1, 0, 0.5, 4]),
    "maximum": (_clipped, lambda x: mpmath.sqrt if x > 1 else zero, [-1, 0, 0.5, 4]),
    "in sequence": (_in_sequence, lambda x: (lambda t: mpmath.sqrt(t) * mpmath.mpf("1.5") ** 12)
                    if x > 11 else zero, [-1, 0, 4, 20]),
    "beside a length": (
        lambda x: np.where(x > 1, x, np.exp(x) - np.hypot(x - 2, x - 2)),
        lambda x: (lambda t: t) if x > 1 else lambda t: mpmath.exp(t) - mpmath.sqrt(2) * (2 - t),
        [-1, 0.5, 2]),
    "reciprocal": (lambda x: np.where(x == 0, 0.0, 1 / x) * x,
                   lambda x: (lambda t: t / t) if x else zero, [0, 2]),
    "of arrays alone": (lambda x: np.select([x > 1, x > 0], [np.log(x - 1), np.sqrt(x)], x),
                        lambda x: (lambda t: mpmath.log(t - 1)) if x > 1 else mpmath.sqrt
                        if x > 0 else lambda t: t, [-1, 0, 1, 3]),
    "of topi": (lambda x: topi.where(x > 0, topi.sqrt(x), x),
                lambda x: mpmath.sqrt if x > 0 else lambda t: t, [-1, 0, 4]),
}  # fmt: skip


def _in_lambda(function: Any) -> Any:
    return lambda x: sl.compute(x.shape, lambda i: function(x[i]), name="y")


def _traced(function: Any) -> Any:
    return lambda x: sl.trace(function, x)


FORMS = {"in a lambda": _in_lambda, "traced": _traced, "of arrays": lambda function: function}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ELEMENTS)
def test_a_side_that_is_not_chosen_adds_nothing(name: str, form: str) -> None:
    function, side, points = ELEMENTS[name]
    if name.startswith("of ") and form != "of arrays":
        return
    X = sl.placeholder((len(points),), "float64", name="X")
    y = FORMS[form](function)(X)
    first = sl.gradient(total(y, "loss"), X)
    second = sl.gradient(total(first, "again"), X)
    with np.errstate(all="ignore"):
        for order, by in ((1, first), (2, second)):
            f = sl.reference(by)
            given = {"X": np.array(points, "float64")} if f.inputs else {}
            expected = [chosen_at(side, x, order) for x in points]
            np.testing.assert_allclose(f(**given), expected, rtol=1e-7, atol=1e-12)
            kernel = sl.build(sl.schedule(by), target="python")
            np.testing.assert_allclose(kernel(**given), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("name", ["sqrt", "softplus", "x log x", "used twice"])
def test_select_in_a_lambda(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """``sl.select`` and ``np.where`` are the same choice."""
    function, side, points = ELEMENTS[name]
    X = sl.placeholder((len(points),), "float64", name="X")
    with monkeypatch.context() as patch:
        patch.setattr(np, "where", sl.select)
        y = _in_lambda(function)(X)
    by = sl.gradient(total(y, "loss"), X)
    with np.errstate(all="ignore"):
        found = sl.reference(by)(np.array(points, "float64"))
    np.testing.assert_allclose(found, [chosen_at(side, x, 1) for x in points], rtol=1e-7)


def _normalized(x: Any) -> Any:
    length = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    return np.where(length > 0, x / length, 0.0)


def _masked_roots(x: Any) -> Any:
    return np.where(x[:, 0] > 0, np.sum(np.sqrt(x), axis=1), 0.0)


def _roots_of_some(x: Any) -> Any:
    return np.sum(np.sqrt(x), axis=1, where=x > 0)


def _mean_of_positive(x: Any) -> Any:
    count = np.sum(x > 0, axis=1)
    return np.where(count > 0, np.sqrt(np.sum(np.maximum(x, 0.0), axis=1) / count), 0.0)


def _transposed(x: Any) -> Any:
    return np.where(x.T > 0, np.sqrt(x).T, 0.0)[1:]


def _over_all(x: Any) -> Any:
    """Read a number for all elements, none of which needs it."""
    return np.where(x > 9, np.sqrt(x[0, 0]) * x, x)


def _softmax_of_some(x: Any) -> Any:
    powers = np.exp(x * 400)
    return np.where(np.isfinite(powers.sum(axis=1, keepdims=True)),
                    powers / powers.sum(axis=1, keepdims=True), x)  # fmt: skip


X0 = np.array([[0.0, 0.0, 0.0], [1.0, 4.0, -2.0], [0.0, 1.0, 9.0], [-1.0, -4.0, 0.0]])


def _of_normalized(x: np.ndarray) -> np.ndarray:
    length = np.sqrt((x * x).sum(1, keepdims=True))
    safe = np.where(length > 0, length, 1)
    unit = x / safe
    return np.where(length > 0, (1 - unit * unit.sum(1, keepdims=True)) / safe, 0)


def _inverse_root(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, 0.5 / np.sqrt(np.where(x > 0, x, 1)), 0)


def _of_masked_roots(x: np.ndarray) -> np.ndarray:
    by = np.zeros_like(x)
    rows = x[:, 0] > 0
    with np.errstate(all="ignore"):
        by[rows] = 0.5 / np.sqrt(x[rows])
    return by


def _of_mean(x: np.ndarray) -> np.ndarray:
    count = (x > 0).sum(1, keepdims=True)
    sums = np.maximum(x, 0).sum(1, keepdims=True)
    some = np.where(count > 0, count, 1)
    root = np.sqrt(np.where(count > 0, sums / some, 1))
    return np.where((count > 0) & (x > 0), 0.5 / root / some, 0)


def _of_softmax(x: np.ndarray) -> np.ndarray:
    # the sum of a softmax is 1; a row whose powers are infinite is copied
    return np.where(np.exp(x * 400).sum(1, keepdims=True) < np.inf, 0.0, np.ones_like(x))


# functions of arrays with reductions, and the gradients of their sums
ARRAYS: dict[str, tuple[Any, Any]] = {
    "normalized": (_normalized, _of_normalized),
    "masked rows": (_masked_roots, _of_masked_roots),
    "where=": (_roots_of_some, _inverse_root),
    "mean of some": (_mean_of_positive, _of_mean),
    "transposed": (_transposed, lambda x: _inverse_root(x) * [0, 1, 1]),
    "a number that none needs": (_over_all, np.ones_like),
    "softmax": (_softmax_of_some, _of_softmax),
}


@pytest.mark.parametrize("form", ["traced", "of arrays"])
@pytest.mark.parametrize("name", ARRAYS)
def test_reductions_on_sides_that_are_not_chosen(name: str, form: str) -> None:
    function, expected = ARRAYS[name]
    X = sl.placeholder(X0.shape, "float64", name="X")
    by = sl.gradient(total(FORMS[form](function)(X), "loss"), X)
    with np.errstate(all="ignore"):
        wanted = expected(X0)
        np.testing.assert_allclose(sl.reference(by)(X0), wanted, rtol=1e-9, atol=1e-12)
        kernel = sl.build(sl.schedule(by), target="python")
        np.testing.assert_allclose(kernel(X0), wanted, rtol=1e-9, atol=1e-12)


def test_elements_that_are_nan_count_for_nothing_where_they_are_replaced() -> None:
    def weighted(x: Any, w: Any) -> Any:
        return np.where(np.isnan(x), 0.0, x * w)

    X, W = sl.placeholder((3,), "float64", name="X"), sl.placeholder((3,), "float64", name="W")
    for y in (weighted(X, W), sl.compute((3,), lambda i: weighted(X[i], W[i]), name="y")):
        f = sl.reference(sl.gradient(total(y, "loss"), [X, W]))
        by_x, by_w = f(X=np.array([NAN, 2, INFINITY]), W=np.array([5.0, 6, 7]))
        assert by_x.tolist() == [0, 6, 7] and by_w.tolist() == [0, 2, INFINITY]


def test_choices_in_the_steps_of_a_loop() -> None:
    def walk(x: Any) -> Any:
        def step(t: Any, state: Any) -> Any:
            return np.where(x[t] > 0, state * 0.5 + np.sqrt(x[t]), state)

        return sl.fori_loop(0, 4, step, np.zeros(3))

    X = sl.placeholder(X0.shape, "float64", name="X")
    by = sl.gradient(total(sl.trace(walk, X), "loss"), X)
    later = (X0 > 0)[::-1].cumsum(0)[::-1] - (X0 > 0)
    with np.errstate(all="ignore"):
        found = sl.reference(by)(X0)
    np.testing.assert_allclose(found, _inverse_root(X0) * 0.5**later)


def test_a_second_derivative_where_the_first_one_is_0() -> None:
    """The condition decides, and not whether what flows back happens to be 0."""
    X = sl.placeholder((2,), "float64", name="X")
    y = np.where(X > 0, np.square(np.sqrt(X) - 2), 0.0)
    first = sl.gradient(total(y, "loss"), X)
    second = sl.gradient(total(first, "again"), X)
    at = np.array([4.0, 0.0])
    with np.errstate(all="ignore"):
        assert sl.reference(first)(at).tolist() == [0, 0]
        np.testing.assert_allclose(sl.reference(second)(at), [1 / 8, 0])


def test_products_of_matrices_test_no_conditions() -> None:
    """A rectified layer costs what it did: its sums have no condition."""
    X, W = sl.placeholder((4, 5), name="X"), sl.placeholder((5, 6), name="W")
    H = np.maximum(X @ W, 0.0)
    made = sl.gradient(H, [X, W], sl.placeholder((4, 6), name="head"))
    assert all(by.op.where is None for by in made)
    assert str(sl.schedule(made)).count(" if ") == 1


def _scaled(x: Any, s: Any) -> Any:
    return np.maximum(x * s, 0.0)


def _batch_norm(x: Any, s: Any) -> Any:
    y = (x - np.mean(x, axis=0)) / np.sqrt(np.var(x, axis=0) + 1e-5) * s
    return np.where(y > 0, y, 0.0)


def _leaky(x: Any, s: Any) -> Any:
    y = x / np.exp(s)
    return np.where(y > 0, y, 0.1 * y)


@pytest.mark.parametrize("layer", [_scaled, _batch_norm, _leaky])
def test_stages_of_finite_derivatives_test_no_conditions(layer: Any) -> None:
    """Only the choice itself tests its condition, where all elements count or all are finite."""
    X, S = sl.placeholder((4, 5), name="X"), sl.placeholder((5,), name="S")
    made = sl.gradient(sl.trace(layer, X, S), [X, S], sl.placeholder((4, 5), name="head"))
    text = str(sl.schedule(made))
    assert "chosen" not in text and text.count(" if ") == (2 if layer is _leaky else 1)


def _norm_of_some(x: Any) -> Any:
    count = np.sum(x > 0, axis=1)
    squares = np.sum(np.square(np.maximum(x, 0.0)), axis=1)
    return np.where(count > 0, np.sqrt(squares / count + 0.25), 0.0)


def _of_norm_of_some(x: np.ndarray) -> np.ndarray:
    count = np.maximum((x > 0).sum(1, keepdims=True), 1)
    high = np.maximum(x, 0)
    return high / count / np.sqrt((high * high).sum(1, keepdims=True) / count + 0.25)


def _product_of_inverse(x: Any) -> Any:
    return np.where(x != 0, (1 / x) * (x + 3.0), 0.0)


def _of_product(x: np.ndarray) -> np.ndarray:
    return np.where(x != 0, -3 / np.where(x != 0, x, 1) ** 2, 0)


@pytest.mark.parametrize(
    ("function", "expected"),
    [(_norm_of_some, _of_norm_of_some), (_product_of_inverse, _of_product)],
)
def test_values_that_may_not_be_finite_keep_the_condition(function: Any, expected: Any) -> None:
    """An average of no elements is NaN, and so is its root; an inverse of 0 is infinite."""
    X = sl.placeholder(X0.shape, "float64", name="X")
    by = sl.gradient(total(sl.trace(function, X), "loss"), X)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(sl.reference(by)(X0), expected(X0), rtol=1e-9, atol=1e-12)
