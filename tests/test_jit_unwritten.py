"""Elements of ``np.empty`` that nothing was assigned to: refused, or extreme numbers in a check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from tests.test_jit_source import check


def filled_by_parts(x):
    y = np.empty(len(x) + 1, x.dtype)
    y[1:] = x
    y[0] = x[-1]
    return y


def filled_by_masks(x):
    y = np.empty_like(x)
    y[x > 3] = 1
    y[x <= 3] = x[x <= 3] * 2
    return y


def filled_in_a_loop(x):
    y = np.empty((len(x), 2), x.dtype)
    for i in range(len(x)):
        y[i, 0] = x[i]
        y[len(x) - 1 - i, 1] = x[i] * 2
    y += 1
    return y


def filled_on_one_side(x):
    y = np.empty(len(x), x.dtype)
    if x[0] > 1:
        y[:] = x
    else:
        y[:] = 7
    return y


def running(x):
    y = np.empty(len(x), x.dtype)
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = y[i - 1] + x[i]
    return y


def by_out(x):
    y = np.empty(len(x), x.dtype)
    np.multiply(x, 2, out=y)
    z = np.empty_like(y)
    np.copyto(z, y)
    return z[np.argsort(y)]


def of_no_elements(x):
    y = np.empty((0,), x.dtype)
    return np.concatenate([y + 1, x])


WRITTEN = [
    filled_by_parts, filled_by_masks, filled_in_a_loop, filled_on_one_side, running, by_out,
    of_no_elements,
]  # fmt: skip


@pytest.mark.parametrize("function", WRITTEN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_what_was_written_is_read(function: Callable[..., Any], dtype: str) -> None:
    check(function, np.array([5, 2, 7, 1, 4, 3, 3], dtype))


def half(x):
    y = np.empty((len(x), 2), x.dtype)
    y[:, 1] = x
    return y


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "complex64", "int8", "int64", "uint16", "bool"]
)
def test_a_check_shows_what_nothing_was_assigned_to(dtype: str) -> None:
    x = np.ones(5, dtype)
    found = sl.jit(half, target="python")(x)
    np.testing.assert_array_equal(found[:, 1], x)
    if dtype == "bool":
        return
    floats = np.issubdtype(dtype, np.inexact)
    wanted = np.nan if floats else np.iinfo(dtype).min if "u" not in dtype else 2**16 - 1
    np.testing.assert_array_equal(found[:, 0], np.full(5, wanted, dtype))
    if dtype in ("float32", "int64"):
        np.testing.assert_array_equal(sl.jit(half)(x)[:, 0], np.zeros(5, dtype))


def added_to(x):
    y = np.empty(len(x), x.dtype)
    y += x
    return y


def summed_into(x):
    y = np.empty(2, x.dtype)
    for i in range(len(x)):
        y[0] += x[i]
    return y


def part_used(x):
    y = np.empty((len(x), 3))
    z = y[1:, 0] * 2
    y[:] = 1
    return z


def summed(x):
    return np.empty_like(x).sum()


def sorted_too_early(x):
    y = np.empty(len(x))
    return np.sort(y)


def counted_into(x):
    y = np.empty(9, "int64")
    np.add.at(y, x, 1)
    return y


READ = [added_to, summed_into, part_used, summed, sorted_too_early, counted_into]


@pytest.mark.parametrize("function", READ, ids=lambda f: f.__name__)
@pytest.mark.parametrize("target", ["python", "cpu"])
def test_a_read_before_all_assignments_is_refused(
    function: Callable[..., Any], target: str
) -> None:
    made = function.__code__.co_firstlineno + 1
    with pytest.raises(sl.errors.ComputeError, match="begin with np.zeros") as caught:
        sl.jit(function, target=target)(np.arange(5))
    assert f"np.empty made at line {made} of {function.__name__}" in str(caught.value)
