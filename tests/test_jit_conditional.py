"""Stores in the sides of an ``if`` in loops under ``sl.jit``, beside the loops in Python."""

import copy

import numpy as np
import pytest

import schedlang as sl


def window(x, w):
    out = np.zeros(len(x) - w + 1)
    total = 0.0
    for i in range(len(x)):
        total += x[i]
        if i >= w:
            total -= x[i - w]
        if i >= w - 1:
            out[i - w + 1] = total
    return out


def shifted(x, keep):
    # x[i + 7] is outside of x where keep does not hold
    for i in range(len(x)):
        if keep[i]:
            x[i + 7] = x[i + 7] + x[i]
        else:
            x[i] -= 1


def gathered(x, at):
    for i in range(len(at)):
        if at[i] < len(x):
            x[at[i]] = x[at[i]] * 2 + i


def both_sides(x, y):
    for i in range(1, len(x)):
        if x[i] > y[i]:
            y[i] = x[i] - y[i - 1]
        else:
            y[i] = y[i - 1] + y[i]


def four_sides(x, y):
    for i in range(1, len(x)):
        if x[i] > 2:
            if x[i - 1] > 2:
                y[i] = y[i - 1]
            else:
                y[i] = 1
        elif x[i] > 0:
            y[i] = y[i] + y[i - 1]
        else:
            y[i] = -1


def one_place_again(x, y):
    # the second side reads what the first one may have stored
    for i in range(1, len(x)):
        if x[i] > 1:
            y[i] = y[i - 1] + 1
        if y[i] > 2:
            y[i] = 0
        elif not x[i] > 1:
            y[i] = y[i] + y[i - 1]


def swapped(x, y):
    for i in range(len(x) - 1):
        for j in range(len(x) - 1 - i):
            if x[j] > x[j + 1]:
                t = x[j]
                x[j] = x[j + 1]
                x[j + 1] = t
                y[j] += 1


def read_by_the_next_line(x, y):
    # the value that one side stores is read by the line after it
    t = np.int64(0)
    for i in range(1, len(x)):
        if i > 2:
            if y[i - 1] > 0:
                y[i] += i
            y[i] = -y[i]
        else:
            if x[i] > y[i - 1]:
                y[i - 1] = 3
                y[i] += y[i - 1]
                x[i] = x[i - 1] * 2
            elif x[i] < 1 or y[i] > 1:
                if x[i] < 3:
                    y[0] += i
                    t = t + x[i]
                    y[0] += -y[i]
                elif x[i] > y[i - 1]:
                    y[0] = min(x[i], y[i])
                    y[i - 1] = x[i] + 1
            y[i + 2] += x[i] // 2
    return t


def rows(x, y):
    a, b = x.reshape(-1, 3), y.reshape(-1, 3)
    for i in range(1, len(a)):
        if i % 2:
            b[i] = a[i - 1] + b[i - 1]
        elif i > 2:
            b[i, 1:] = a[i, :2]


def ints(seed, least=-3, most=6):
    return np.random.default_rng(seed).integers(least, most, 12)


CASES = {
    "window": (window, lambda: (np.arange(60.0), 50)),
    "window of all": (window, lambda: (np.arange(9.0), 9)),
    "shifted": (shifted, lambda: (ints(0).astype("float32"), np.arange(12) < 5)),
    "gathered": (gathered, lambda: (ints(1).astype("float64"), ints(2, 0, 30))),
    "both sides": (both_sides, lambda: (ints(3), ints(4))),
    "both sides of float32": (both_sides, lambda: (ints(3).astype("f4"), ints(4).astype("f4"))),
    "four sides": (four_sides, lambda: (ints(5), ints(6))),
    "one place again": (one_place_again, lambda: (ints(7), ints(8))),
    "swapped": (swapped, lambda: (ints(9), ints(10))),
    "read by the next line": (
        read_by_the_next_line,
        lambda: (np.array([1, -1, 4, -1, -1, 0]), np.array([0, 0, 0, -1, 3, 2])),
    ),
    "rows": (rows, lambda: (ints(11), ints(12))),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["python", pytest.param("cpu", marks=pytest.mark.slow)])
def test_stores_of_sides(name, target):
    function, arguments = CASES[name]
    wanted, ours = arguments(), copy.deepcopy(arguments())
    expected = function(*wanted)
    jitted = sl.jit(function, target=target)
    result = jitted(*ours)
    np.testing.assert_equal(result, expected)
    for own, want in zip(ours, wanted):
        np.testing.assert_array_equal(own, want)
    assert "on the host" not in str(jitted.loops)


def test_sides_that_store_one_element_store_once():
    jitted = sl.jit(both_sides)
    jitted(ints(3), ints(4))
    stores = [line for line in str(jitted.kernels[-1].loop_nest).splitlines() if "] = " in line]
    assert sum("select(" in line for line in stores) == 1


def test_a_side_that_may_leave_the_array_is_a_branch():
    jitted = sl.jit(window, target="python")
    jitted(np.arange(60.0), 50)
    nests = "\n".join(str(kernel.loop_nest) for kernel in jitted.kernels)
    assert "# the side of an if" in nests


def test_one_trace_runs_a_window_at_any_length():
    jitted = sl.jit(window, dynamic=True, target="python")
    for n in (300, 90, 60, 55):
        x = np.random.default_rng(n).integers(0, 9, n).astype(float)
        np.testing.assert_array_equal(jitted(x, 50), window(x, 50))
    assert "1 specialization" in repr(jitted)
