"""Bools of Python, which count, and bools of NumPy, whose sums are logical, beside NumPy itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl


def of_functions(x, t, u):
    a, b, c = np.greater(t, u), np.less(t, u), np.isfinite(t)
    return a + b, c * 3, ~b, abs(b), a | b, b * u, a + True, np.logical_not(t) + c, b == (t < u)


def joined(x, t, u):
    a, b = np.logical_or(t, u), np.logical_and(t, u)
    return a + b, np.logical_xor(t, u) + a, max(a, b) + True, (b or a) + True, np.equal(t, u) + b


def of_operators(x, t, u):
    a, b = t > u, t < u
    return a + a, a * 2.5, ~a, -b, a | b, a & True, b & 3, a / 2, (a == b) + True, round(a)


def together(x, t, u):
    a, b, c = t < u, np.less(t, u), x[0] > 0
    return a + b, b * a, a + c, c + True, a | b, (a == b) + True, x * a, x + b, a * np.uint8(200)


def chosen(x, t, u):
    a = True if t < u else False  # noqa: SIM210
    b = (np.less(t, u) if t < u else np.less(u, t)) + True
    return a + a, b, (t < u and u < 9) + True, (t < u < 9) + True, (not x[0] > 0) + True, bool(t)


def identity(x, t, u):
    a, b = t < u, np.less(t, u)
    return a is True, a is False, a is not True, b is True, b is not True, a + (a is True)


def of_python(x, t, u):
    return any(x > 0) + all(x > -9), np.allclose(x, x) + np.array_equal(x, x), np.any(x > 0) + True


def in_loops(x, t, u):
    large, last, n, count = False, False, 0, 0
    for i in range(len(x)):
        if x[i] > 2:
            large = True
        last = x[i] > 2
        n += large + large + (t > i) + (x[i] > 0)
        count += not x[i] > 0
    while t < 4:
        ended = not x[0] > t
        t += 1
    k = 0
    while k < 1 or x[k] > 0:
        past = k > 0
        k += 1
    return large + large, last + last, n, count, ended + True, past + True


def kinds(x, t, u):
    a, b = t < u, np.less(t, u)
    return isinstance(a, bool), isinstance(b, bool), isinstance(b, np.bool_), isinstance(a, int), a


FUNCTIONS = [
    of_functions, joined, of_operators, together, chosen, identity, of_python, in_loops, kinds
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_bools_count_as_in_numpy(function: Any) -> None:
    traced = sl.jit(function, target="python")
    for t, u in ((0.5, 2.0), (2.0, 0.5), (0.0, 0.0), (3.0, 9.5)):
        for x in (np.array([1, -2, 3], "float32"), np.array([-1, 0, 2], "float32")):
            for ours, theirs in zip(traced(x, t, u), function(x, t, u)):
                np.testing.assert_array_equal(ours, theirs)
                assert isinstance(theirs, (int, float)) or ours.dtype == theirs.dtype
                assert isinstance(theirs, bool) == isinstance(ours, bool)
