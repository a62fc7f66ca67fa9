"""Names that may be one of several arrays, their reshapes, and names that no iteration assigned."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import CallError, ComputeError, ComputeTypeError
from schedlang.tracing import specialization


@pytest.fixture(autouse=True)
def _without_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    # the meaning of names does not depend on schedules, which take most of the time
    monkeypatch.setattr(specialization, "schedule_for", lambda out, *_: sl.schedule(out))


def compare(function: Callable[..., Any], *given: Any) -> None:
    """Compare results and arguments with NumPy's, for both sides of a test of ``x[0]``."""
    traced = sl.jit(function, target="python")
    for sign in (1.0, -1.0):
        ours, theirs = ((*deepcopy(given), sign * np.array([1.0, -2, 3, -1])) for _ in range(2))
        results, wanted = traced(*ours), function(*theirs)
        for one, other in zip((*results, *ours), (*wanted, *theirs)):
            np.testing.assert_array_equal(one, other)


def matrices() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(6.0).reshape(2, 3), 10 * np.arange(6.0).reshape(2, 3)


def read_of_the_second(a, b, x):
    y = a.T if x[0] > 0 else b.T
    r = y.reshape(-1)
    b[0, 1] = 50.0
    return (r + 1,)


def written_in_a_loop(a, b, x):
    y = a.T if x[0] > 0 else b.T
    r = y.reshape(-1)
    for i in range(5):
        b[0, 1] += r[i]
    return (b + 1,)


def written_through(a, b, x):
    y = a if x[0] > 0 else b
    r = y.reshape(-1)
    r[1] = 50.0
    return (y + 1,)


def written_in_a_copy(a, b, x):
    y = a.T if x[0] > 0 else b.T
    r = y.reshape(-1)
    r[1] = 50.0
    return r + 1, y + 1


@pytest.mark.parametrize(
    "function", [read_of_the_second, written_in_a_loop, written_through, written_in_a_copy]
)
def test_reshapes_of_one_of_two_arrays(function: Callable[..., Any]) -> None:
    compare(function, *matrices())


def slices_of_other_strides(a, b, x):
    y = a[:, ::2] if x[0] > 0 else b[:, 1:]
    r = y.reshape(4)
    b[0, 1] = 50.0
    return r + 1


def new_or_transposed(a, b, x):
    y = a.T
    if x[0] > 0:
        y = a.T + 1
    r = y.reshape(-1)
    a[0, 1] = 50.0
    return r + 1


def replaced_in_a_loop(a, b, x):
    y = a.T
    while x[0] > 0:
        y = np.zeros((3, 2))
        x[0] -= 1
    r = y.reshape(-1)
    a[0, 1] = 50.0
    return r + 1


@pytest.mark.parametrize(
    "function", [slices_of_other_strides, new_or_transposed, replaced_in_a_loop]
)
def test_reshapes_where_strides_differ_are_refused(function: Callable[..., Any]) -> None:
    with pytest.raises(ComputeError, match="copies there depends on the strides"):
        sl.jit(function, target="python")(*matrices(), np.ones(2))


def result_of_either_order(a, x):
    table = np.arange(6.0).reshape(2, 3)
    y = table.T if x[0] > 0 else a
    z = y * 2
    z.reshape(-1)[0] = 5.0
    return z


def test_a_result_of_arrays_of_either_order_is_refused() -> None:
    with pytest.raises(ComputeError, match="copies there depends on the strides"):
        sl.jit(result_of_either_order, target="python")(np.ones((3, 2)), np.ones(2))


def known_and_then_written(x):
    k, other = np.arange(4.0), np.ones(4)
    y = k if x[0] > 0 else other
    total = y.sum()
    k[1] = 7.0
    return y + x[0], total + x[0]


def rows_of_a_known_array(x):
    k = np.arange(8.0).reshape(2, 4)
    y = k[0] if x[0] > 0 else k[1]
    k[0, 1] = 3.0
    total = y.sum()
    k[1, 1] = 9.0
    return y + x[0], total + x[0], k + x[0]


def part_of_a_known_array(x):
    k = np.array([1.0, 2, 3, 4])
    y = k[1:] if x[0] > 0 else k[:-1]
    k[1] = 3.0
    return (y + x[0],)


@pytest.mark.parametrize(
    "function", [known_and_then_written, rows_of_a_known_array, part_of_a_known_array]
)
def test_one_of_two_known_arrays(function: Callable[..., Any]) -> None:
    """A read sees what was written to the known array, also after a first read."""
    compare(function)


def last_double(x):
    k = 0
    while x[k] > 0:
        y = 2 * x[k]
        k += 1
    return y


def under_a_test(x):
    z = 0.0
    if x[1] > 0:
        while x[0] > 0:
            y = x[0]
            x[0] -= 1
        z = y + 1
    return z


def found_first(x):
    found = False
    while x[0] > 0:
        y, found = x[0], True
        x[0] -= 1
    if found:
        return y
    return -1.0


@pytest.mark.parametrize("function", [last_double, under_a_test, found_first])
def test_names_that_a_while_may_not_assign(function: Callable[..., Any]) -> None:
    """Python raises UnboundLocalError, and the call raises an error that names the loop."""
    traced = sl.jit(function, target="python")
    for x in np.array([[2.0, 1, -1], [2, -1, -1], [-1, 1, -1], [-1, -1, -1]]):
        try:
            wanted = function(x.copy())
        except UnboundLocalError:
            with pytest.raises(CallError, match=r"y of \w+: line \d+ reads it"):
                traced(x.copy())
        else:
            assert traced(x.copy()) == wanted


def last_item(x):
    for i in range(2, len(x)):
        y = 2 * x[i]
    return y


def last_index(x):
    for i in range(2, len(x)):
        x[i] += 1
    return i + x[0]


@pytest.mark.parametrize("function", [last_item, last_index])
def test_a_symbolic_range_without_items_has_a_trace_of_its_own(
    function: Callable[..., Any],
) -> None:
    traced = sl.jit(function, target="python", dynamic=True)
    for n in (7, 5, 3):
        assert traced(np.arange(float(n))) == function(np.arange(float(n)))
    assert "1 specialization" in str(traced)
    assert "n - 2 is 1 or more" in traced.lengths
    with pytest.raises(ComputeTypeError, match="it does not run before this line"):
        traced(np.arange(2.0))
    assert traced(np.arange(4.0)) == function(np.arange(4.0))
