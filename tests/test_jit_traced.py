"""``sl.trace`` with symbolic sizes: loops become stages for any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import ComputeTypeError


def smoothed(x):
    y = np.zeros_like(x)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = y[i - 1] * 0.5 + x[i]
    return y


def total(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            s += x[i] * x[i]
    return s


def differences(x):
    y = np.zeros_like(x)
    for i in range(x.shape[0] - 1):
        y[i] = x[i + 1] - x[i]
    return y


def horner(x):
    s = 0.0
    for value in x:
        s = s * 0.5 + value
    return s


def products_of_rows(x):
    y = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        for j in range(len(x)):
            y[i, j] = x[i] * x[j]
    return y


def counted(x):
    k = 0
    s = 0.0
    while k < len(x) - 1:
        if x[k] > 9:
            break
        s = s * 0.5 + x[k]
        k += 1
    return s


@pytest.mark.parametrize(
    "function", [smoothed, total, differences, horner, products_of_rows, counted]
)
def test_loops_over_a_symbolic_length(function: Callable[..., Any]) -> None:
    X = sl.placeholder((sl.var("n"),), "float64", name="X")
    kernel = sl.build(sl.schedule(sl.trace(function, X)), target="python")
    for n in (7, 2, 1):
        x = np.random.default_rng(n).normal(size=n)
        np.testing.assert_allclose(kernel(x), function(x), rtol=1e-12)


def rows_of_two_lengths(a, b):
    total = np.zeros(a.shape[1])
    for i in range(a.shape[0]):
        for j in range(b.shape[0]):
            total += a[i] * b[j]
    return total


def test_loops_over_two_symbolic_lengths() -> None:
    n, m = sl.var("n"), sl.var("m")
    A, B = sl.placeholder((n, 3), name="A"), sl.placeholder((m, 3), name="B")
    kernel = sl.build(sl.schedule(sl.trace(rows_of_two_lengths, A, B)), target="python")
    a, b = np.arange(15.0, dtype="float32").reshape(5, 3), np.ones((2, 3), "float32")
    np.testing.assert_allclose(kernel(a, b), rows_of_two_lengths(a, b), rtol=1e-6)


def last_double(x):
    for value in x:
        y = 2 * value
    return y


def test_a_name_that_no_iteration_may_assign_is_refused() -> None:
    X = sl.placeholder((sl.var("n"),), name="X")
    with pytest.raises(ComputeTypeError, match=r"y after the loop at line \d+ of last_double: the "
                       r"loop has n iterations, which may be none"):  # fmt: skip
        sl.trace(last_double, X)
