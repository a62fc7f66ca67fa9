"""Numbers of Python and of NumPy in a traced function: their dtypes, and choices among them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError
from schedlang.tracing import specialization

X = np.array([0.25, -1.5, 2.0], "float32")
U = np.array([1, 250, 7], "uint8")


def check(function: Callable[..., Any], *args: Any) -> None:
    """Compare the results with NumPy's, and their dtypes; a number may have any class."""
    traced = sl.jit(function, target="python")
    with mock.patch.object(specialization, "schedule_for", lambda out, *_: sl.schedule(out)):
        found = traced(*map(np.copy, args[:1]), *args[1:])
    for ours, theirs in zip(found, function(*args), strict=True):
        if isinstance(theirs, np.ndarray):
            assert ours.dtype == theirs.dtype, (ours.dtype, theirs.dtype)
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def functions_of_a_float(x, t):
    return (x + np.abs(t), x * np.sqrt(t), x + np.maximum(t, 1), np.add(t, 1) * x,
            x + np.clip(t, 0, 1), x + np.round(t), x + np.asarray(t), x + np.array(t),
            x * np.where(x[0] > 0, t, 0.5), x + np.float64(t), np.hypot(t, 2) - x)  # fmt: skip


def operators_of_a_float(x, t):
    q, r = divmod(t, 2)
    return (x * (t * 2 - 1), x + 2**t, x + q, x / (r + 1), x + -t, x * (1 / t), x + abs(t),
            x + (t + True), x + float(np.sqrt(t)), x + min(t, 2), x + np.real(t),
            x + round(t, 1), np.maximum(x, t), np.add(t, x), x + np.where(x > 0, t, 0),
            x * np.float32(t))  # fmt: skip


def functions_of_an_index(x, u):
    k = 0
    for i in range(1, 7):
        k += i
        x[np.abs(i - 5) // 3] += np.sqrt(i)
    return x, u + k, u + np.maximum(k, 1), u * np.add(k, 1), x + np.sqrt(k), (k << 1) // 8 + u


def carried_by_loops(x, u):
    """A number of Python stays one in a loop that elements end, and takes the dtype of an array."""
    k, t, s, r = 0, 0, 0, 0.5
    y = x * 1
    while k < len(x) - 1 and x[k] < 1:
        y = y * k + t
        v = u + k
        s = s * 1.5 + y[0]
        t = t * 0.5 + 0.25
        s += r
        r = k
        k += 1
    return y, v, x * t, x * k, u * k, s, y * s, r


def functions_of_a_complex_number(z, t):
    w = t + 2j
    assert type(w) is complex
    return z * w, z * np.exp(w), z + np.conj(w), z * w.real, z * abs(w), z * np.abs(w)


@pytest.mark.parametrize("function", [functions_of_a_float, operators_of_a_float])
def test_numbers_of_python(function: Callable[..., Any]) -> None:
    """An operator returns a number of Python, which takes the dtype of an array; a function of
    NumPy returns float64.
    """
    check(function, X, 0.3)


def test_an_index_and_a_complex_number() -> None:
    check(functions_of_an_index, X.copy(), U)
    check(carried_by_loops, X.copy(), U)
    check(functions_of_a_complex_number, X * np.complex64(1j), 0.25)


def test_a_choice_between_bool_and_a_float() -> None:
    """NumPy divides bool by bool as integers, and bool by a float as floats."""

    def divided(m: Any, x: Any) -> None:
        m[0] //= min(m[1], x[1])

    with pytest.raises(ComputeTypeError, match="a number of float64 or bool"):
        sl.jit(divided, target="python")(np.array([True, False]), np.array([0.5, 0.5]))


def counts(x, k):
    n = int(x[0])
    total = 0
    for i in range(8):
        t, u = i > 2, i > k
        total += t + u + ((t & u) + (t | u)) + ((t and u) + (t or u)) + ((t == u) + t)
    return (total, (n > 0) + (n > 1), -(n > 0), (n > 0) * 2.5, True + (n > 0), (n > 0) & (n > 1),
            (n > 0) * x)  # fmt: skip


@pytest.mark.parametrize("first", [0.0, 1.0, 2.0])
def test_comparisons_of_pythons_numbers_count(first: float) -> None:
    check(counts, np.array([first, 3.0], "float32"), 3)


def bools_of_both(x, k):
    total = 0
    for i in range(2):
        t = i < k
        total += ((x[i] > 0) + t) + (t + (x[i] > 0)) + (t + (x > 0)).sum() + (np.maximum(t, t) + t)
    return (total,)


def test_a_bool_of_python_is_logical_beside_numpys() -> None:
    check(bools_of_both, np.array([1.0, 3.0], "float32"), 3)
