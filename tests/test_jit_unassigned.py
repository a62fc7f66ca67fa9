"""Names that a loop or a side of an ``if`` may not assign: calls raise where Python does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, ComputeTypeError


def one_side(x):
    if x[0] > 0:
        t = x * 2
    return t


def other_names(x):
    if x[0] > 0:
        t = x[1]
    else:
        u = x[2]
    y = t if x[0] > 0 else u
    return y + (u if x[1] > 1 else 0)


def last_large(x):
    for i in range(6):
        if x[i] > 3:
            t = x[i]
    x[0] = 9
    return t


def of_an_inner_loop(x):
    for i in range(6):
        for j in range(3, i):
            t = x[j]
        if x[i] > 4:
            x[i] += t
    return x


def index_of_an_inner_loop(x):
    for i in range(6):
        for j in range(i - 2):  # noqa: B007
            pass
        if x[i] > 2:
            x[i] += j
    return x


def before_a_break(x):
    for k in range(6):
        if x[k] > 3:
            break
        t = x[k]
    return t, k


def place(x):
    for i in range(6):
        if x[i] > 4:
            k = i
            break
    return x[k]


def in_a_while(x):
    for i in range(6):
        while x[i] > 4:
            t = x[i]
            x[i] -= 1
    return t


def of_the_iteration_before(x):
    for i in range(6):
        if x[i] > 1:
            w = x[i]
        if x[i] > 0:
            x[i] += w
    return x


def returned_early(x):
    if x[0] > 2:
        return x[0]
    for i in range(1, 6):
        if x[i] > 3:
            t = x[i]
    if x[1] > -1:
        return t
    return x[1]


FUNCTIONS = [
    one_side, other_names, last_large, of_an_inner_loop, index_of_an_inner_loop, before_a_break,
    place, in_a_while, of_the_iteration_before, returned_early,
]  # fmt: skip
INPUTS = [
    np.array([1.0, 2, 3, 4, 5, 6]), np.array([6.0, 5, 4, 3, 2, 1]), np.array([-1.0, 0, 1, 0, 1, 0]),
    np.array([0.5, 0.5, 4, 4, 9, 0]), np.full(6, -9.0), np.array([1.0, -2, 5, 0, 0, 0]),
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_read_of_a_name_without_a_value_raises(function: Callable[..., Any]) -> None:
    traced = sl.jit(function, target="python")
    raised = 0
    for x in INPUTS:
        ours, theirs = x.copy(), x.copy()
        try:
            wanted = function(theirs)
        except UnboundLocalError as error:
            name = str(error).split("'")[1]
            with pytest.raises(CallError, match=rf"{name} of \w+: line \d+ reads it, and nothing"):
                traced(ours)
            raised += 1
        else:
            np.testing.assert_array_equal(traced(ours), wanted)
            np.testing.assert_array_equal(ours, theirs)
    assert 0 < raised < len(INPUTS)


def test_names_that_each_call_assigns_are_not_checked() -> None:
    def assigned(x):
        for i in range(1, 6):
            for j in range(i):
                w = x[j] + 1
            if i > 0:
                x[i] += w + j
        while True:
            y = x * 0.5
            x = y
            if y[0] < 9:
                break
        return [t for t in x], y, i

    traced = sl.jit(assigned, target="python")
    x = np.arange(6.0)
    wanted = assigned(x.copy())
    np.testing.assert_array_equal(traced(x.copy())[0], wanted[0])


def test_names_that_the_else_of_a_loop_reads() -> None:
    def read_at_the_end(x):
        for i in range(len(x)):
            t = x[i]
            if t > 5:
                break
        else:
            x[0] = t + i
        return x

    traced = sl.jit(read_at_the_end, target="python")
    for x in (np.arange(6.0), np.arange(7.0)):
        np.testing.assert_array_equal(traced(x.copy()), read_at_the_end(x.copy()))


def test_a_tensor_cannot_raise() -> None:
    with pytest.raises(ComputeTypeError, match="t of one_side .* no tensor can raise"):
        sl.trace(one_side, sl.placeholder((6,), "float64", name="x"))


def helper(x, k):
    if x[k] > 0:
        t = x[k]
    return t


def test_a_function_that_a_loop_calls() -> None:
    def calls(x):
        s = 0.0
        for i in range(6):
            s += helper(x, i)
        return s

    traced = sl.jit(calls, target="python")
    assert traced(np.arange(1.0, 7.0)) == 21
    with pytest.raises(CallError, match="t of calls: line"):
        traced(np.arange(6.0))
