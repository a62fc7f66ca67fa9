"""Functions under ``sl.jit`` with loops and branches as Python has them, beside NumPy."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl

RANDOM = np.random.default_rng(58)


def check(function: Callable[..., Any], *args: Any) -> Any:
    """Compare what a function returns, and what it leaves in its arguments, with NumPy's."""
    theirs, ours = copy.deepcopy(args), copy.deepcopy(args)
    wanted = function(*theirs)
    jitted = sl.jit(function, target="python")
    result = jitted(*ours)
    pairs = [(result, wanted), *zip(ours, theirs)]
    for found, expected in pairs:
        for a, b in zip(_leaves(found), _leaves(expected)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
            assert np.asarray(a).dtype == np.asarray(b).dtype
    return jitted


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    return [] if value is None else [value]


def triangle(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


def lower_solve(a, x, b):
    for i in range(a.shape[0]):
        x[i] = (b[i] - a[i, :i] @ x[:i]) / a[i, i]


def neighbours(a):
    for _ in range(3):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5


def pairings(seq):
    n = seq.shape[0]
    table = np.zeros((n, n), np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < n:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < n:
                if i < j - 1:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + (seq[i] + seq[j] == 3))
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


def filtered(x, coefficient):
    y = np.empty_like(x)
    y[0] = x[0]
    for i in range(1, x.shape[0]):
        y[i] = coefficient * x[i] + (1 - coefficient) * y[i - 1]
    z = np.zeros_like(x)
    z[-1] = y[-1]
    for i in range(x.shape[0] - 2, -1, -1):
        z[i] = coefficient * y[i] + (1 - coefficient) * z[i + 1]
    return z


def counted(x):
    steps = 0
    change = 1.0
    while change > 1e-3:
        before = x.copy()
        x[1:-1] = (x[:-2] + x[2:]) / 2
        change = np.max(np.abs(x - before))
        steps += 1
    return steps


def clipped(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            total += x[i]
        elif x[i] > 0.25:
            total -= 1
    return total


def skipped(x):
    y = np.zeros(9)
    for i in range(9):
        if i % 3 == 0:
            continue
        y[i] = x[i] * i
    return y


def chosen(x, y):
    if x[0] > y[0]:
        return x * 2
    return y + 1


def table_of(x):
    weights = [0.25, 0.5, 0.25]
    grid = np.linspace(0, 1, 7)
    out = np.ones((7,))
    for k in range(3):
        out[1:-1] += weights[k] * x[k : k + 5]
    out[out > 2] = 2.0
    np.multiply(out, grid, out=out)
    return out


def matrix(n):
    return RANDOM.random((n, n)) + n * np.eye(n)


PROGRAMS = [
    (triangle, [matrix(7)]),
    (lower_solve, [matrix(6), np.zeros(6), RANDOM.random(6)]),
    (neighbours, [matrix(6)]),
    (pairings, [RANDOM.integers(0, 4, 8)]),
    (filtered, [RANDOM.random(11), 0.3]),
    (counted, [RANDOM.random(8)]),
    (clipped, [RANDOM.random(13)]),
    (skipped, [RANDOM.random(9)]),
    (chosen, [RANDOM.random(3), RANDOM.random(3)]),
    (chosen, [np.array([1.0, 2.0]), np.zeros(2)]),
    (table_of, [RANDOM.random(7)]),
]


@pytest.mark.parametrize(("function", "args"), PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_programs(function: Callable[..., Any], args: list[Any]) -> None:
    check(function, *args)
