"""Names that functions, comprehensions and ``:=`` share with loops and tests, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, ComputeTypeError


def name_of_a_comprehension(x):
    v = [1.0, 2.0]
    for i in range(6):
        v = [v * 2 + x[i] for v in v]
        x[i] += v[0]
    return x, v


def name_of_a_default(x):
    v, w = 0.5, 0.25
    for i in range(6):

        def g(v=v, *, w=w):
            return v + w + x[i]  # noqa: B023

        v, w = g(), (lambda w=w: w * 2)()
    return v, w


def closure_around_a_loop(x):
    t = 0.0

    def g():
        return t * 2

    for i in range(6):
        x[i] += g()
        t = x[i] + 1
    return x


def closure_after_a_loop(x):
    t = 0.0
    g = lambda: t * 2  # noqa: E731
    for i in range(6):
        t = x[i]
    u = g()
    while x[0] > 0:
        t = x[0]
        x[0] -= 1
    return g(), u


def walrus_in_a_test(x):
    m = k = n = h = 0
    if len(x) > 2 and (m := len(x) - 1) > 1:
        x[m] += 1
    y = x[m] if (k := m) > 9 else (n := 2)
    z = x is None or (h := 3)
    return x[m], x[k], x[n], x[h], y, z, 1 < 2 < (h := 4), x[h]


def walruses_in_loops(x):
    k, s, w = 0, 0.0, x[0] * 0
    while k < 5 and 0 < (v := abs(x[k])) < 4:
        s += v
        k += 1
    while (t := w + 1) < x[2]:
        w += 0.75
    for i in range(6):
        if (a := x[i]) > 2:
            s += a
        elif (b := x[i] * 2) < 4:
            s -= b
        y = (z := s * 2) + 1
    return k, s, v, w, t, a, y, z


def classes(x):
    a, b, t = x[0] < 2.0, float(x[0]) < 2.0, float(x[0])
    return type(a) is np.bool_, type(b) is bool, type(t) is float, type(x[0]) is np.float64


def operands_run_once(x):
    rng = np.random.default_rng(3)
    items = [1, 2, 3]
    a, b = 0 < rng.random() * 2 < 1, -5 < x[items.pop()] < 3
    return a, b, rng.random(), len(items), 0 < np.sin(x[0]) * 2 < 1.5, 0 < abs(x[1]) < 3


FUNCTIONS = [
    name_of_a_comprehension, name_of_a_default, closure_around_a_loop, closure_after_a_loop,
    walrus_in_a_test, walruses_in_loops, operands_run_once, classes,
]  # fmt: skip
INPUTS = [np.array([1.0, 2, 3, 4, 5, 6]), np.array([-1.0, 2, 3, -4, 5, 6])]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_names_have_the_values_of_python(function: Callable[..., Any]) -> None:
    traced = sl.jit(function, target="python")
    for x in INPUTS:
        ours, theirs = x.copy(), x.copy()
        for one, other in zip(traced(ours), function(theirs)):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(ours, theirs)


def in_a_try(x):
    if x[0] > 0:
        t = x[1]
    try:
        y = t * 2
    except ZeroDivisionError:
        y = 0.0
    return y


def in_a_match(x):
    if x[0] > 0:
        t = x[1]
    match len(x):
        case 6:
            return t * 2
    return x[2]


def in_a_lambda(x):
    if x[0] > 0:
        t = x[1]
    return (lambda: t * 2)()


def in_defaults(x):
    if x[0] > 0:
        t = x[1]

    def g(t=t):
        return t * 2

    return g() + (lambda t=t: t)()


def in_a_comprehension(x):
    if x[0] > 0:
        t = [x[1], x[2]]
    return np.array([t + 1 for t in t])[0]


READS = [in_a_try, in_a_match, in_a_lambda, in_defaults, in_a_comprehension]


@pytest.mark.parametrize("function", READS, ids=lambda f: f.__name__)
def test_reads_of_a_name_without_a_value_raise(function: Callable[..., Any]) -> None:
    traced = sl.jit(function, target="python")
    assert traced(INPUTS[0]) == function(INPUTS[0])
    with pytest.raises(NameError):
        function(INPUTS[1])
    with pytest.raises(CallError, match=r"t of \w+: line \d+ reads it"):
        traced(INPUTS[1])


def changed_after_a_break(x):
    items = []
    for i in range(3):
        items.append(i)
        if x[i] > 0:
            break
    return x * len(items)


def changed_in_a_test(x):
    items = [1, 2, 3]
    if x[0] > 0 and items.pop() > 0:
        x[1] = 5
    return x * len(items)


@pytest.mark.parametrize("function", [changed_after_a_break, changed_in_a_test])
def test_changes_that_elements_decide_about_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ComputeTypeError, match="one side changes a list"):
        sl.jit(function, target="python")(INPUTS[0].copy())
