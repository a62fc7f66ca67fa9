"""``break``, ``continue``, ``return`` in loops and ``else`` of loops that elements decide about."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import schedlang as sl
from schedlang.errors import ComputeTypeError
from tests.test_jit_random_loops import RANGES, SETTINGS, compare, elements, statements
from tests.test_jit_source import check


def sum_until_small(x):
    s = x[0] * 0
    for i in range(len(x)):
        if x[i] < 2:
            break
        s += x[i]
    return s


def steps_and_skips(x):
    y, k = np.zeros(len(x)), 0
    for i in range(len(x)):
        if x[i] > 4:
            if x[i] > 7:
                break
            y[i] = 1
            if i % 3 == 0:
                continue
            y[i] += 2
        y[i] -= x[i]
        k += 1
    return y, k


def a_float_of_one_loop_in_another(x):
    y, t = x * 1.0, 0.25
    for i in range(2, len(x)):
        if x[i - 1] > 7:
            break
        t -= 0.5
    for i in range(len(x) - 1, 1, -1):
        if x[i - 1] > 8:
            break
        y[i] += t
    return y, t


def first_large(x):
    for i in range(len(x)):
        if x[i] > 7:
            return i
    return -1


def first_pair(x):
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j and x[i] == x[j]:
                return i, j, x[i]
    return -1, -1, x[0]


def halved(x):
    x, count = x * 1.0, 0
    while True:
        x = x * 0.5
        count += 1
        if x.sum() < 0.25:
            break
    return x, count


def place_or_end(x):
    for i in range(len(x)):
        if x[i] > 7:
            break
    else:
        i = 100
    return i


def short(x):
    for i in range(3):
        if x[i] < 3:
            break
        x[i] = 7
    return x


def of_rows(x):
    a = x[:6].reshape(3, 2).T
    for row in a:
        if row.sum() > 12:
            return row * 2
    return a[0]


def returned_from_while(x):
    x = x * 1.0
    while x.sum() > 1:
        x = x * 0.5
        if x[0] < 1:
            return x[1]
    return x[2]


def without_a_loop_that_breaks(x):
    t = 0.0
    for i in range(len(x)):
        for j in range(i):
            if x[j] > 6:
                break
            t += x[j]
        else:
            t += 100
        if t > 300:
            break
    return t


def while_else(x):
    k = 0
    while x[k] < 6 and k < len(x) - 1:
        if x[k] == 3:
            break
        k += 1
    else:
        k += 50
    return k


def rows_while(x):
    a, i, t = np.zeros((9, 9), x.dtype), 2, x[0]
    while i < 6 and t < 40:
        i += 1
        t += x[i]
        for j in range(6, 1, -1):
            a[i, j] = x[j]
        for j in range(9):
            a[0, i] += x[j]
    return a


def from_a_call(x):
    return place_or_end(x) + first_large(x[::-1])


FUNCTIONS = [
    sum_until_small, steps_and_skips, a_float_of_one_loop_in_another, first_large, first_pair,
    halved, place_or_end, short, of_rows, returned_from_while, without_a_loop_that_breaks,
    while_else, from_a_call, rows_while,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow),
              pytest.param("int32", marks=pytest.mark.slow)]
)  # fmt: skip
def test_elements_decide_when_a_loop_ends(function: Callable[..., Any], dtype: str) -> None:
    jitted = sl.jit(function, target="python")
    for seed, scale in enumerate((9, 9, 5, 1, 9, 9)):
        x = np.floor(np.random.default_rng(seed).random(9) * scale).astype(dtype)
        x = np.sort(x) if seed == 5 else x
        ours, theirs = x.copy(), x.copy()
        found, wanted = jitted(ours), function(theirs)
        found, wanted = (v if isinstance(v, tuple) else (v,) for v in (found, wanted))
        for a, b in zip(found, wanted):
            np.testing.assert_allclose(a, b, rtol=1e-6)
        np.testing.assert_array_equal(ours, theirs)


def converging(x):
    error, iteration = 1.0, -1
    for iteration in range(60):  # noqa: B007
        new = np.cos(x)
        error = np.abs(new - x).max()
        x = new
        if error < 1e-3:
            break
    return x, iteration, error


@pytest.mark.parametrize(
    ("size", "form"),
    [(9, "serial inside the kernel"), (100_000, "on the host, since each iteration computes")],
)
def test_a_loop_of_much_work_ends_early(size: int, form: str) -> None:
    jitted = check(converging, np.random.default_rng(1).random(size))
    assert jitted.loops.partition(": ")[2].startswith(form)


def test_iterations_after_the_last_one_do_not_run() -> None:
    def counted(x):
        for k in range(1, 10**9):
            x = x * 0.5
            if x[0] < 1:
                return x, k
        return x, 0

    jitted = check(counted, np.full(50, 100.0))
    assert "serial inside the kernel" in jitted.loops


def test_what_a_loop_returns_must_have_one_form() -> None:
    def nothing_else(x):
        for i in range(len(x)):
            if x[i] > 3:
                return x[i]

    with pytest.raises(sl.errors.ComputeTypeError, match="the value is .* nothing on the other"):
        sl.jit(nothing_else, target="python")(np.arange(9.0))


def test_a_trace_has_the_mask() -> None:
    x = np.array([3.0, 5.0, 1.0, 9.0])
    tensor = sl.trace(sum_until_small, sl.placeholder((4,), "float64", name="x"))
    assert sl.build(sl.schedule(tensor), target="python")(x) == sum_until_small(x)


@st.composite
def leaving(draw: st.DrawFn, indices: list[str], depth: int = 1) -> list[str]:
    """Return the lines of the body of a loop that elements may leave, at several places."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["plain", "leave", "leave", "nested", "loop"]))
        test = f"if {draw(elements(indices))} > {draw(elements(indices))}:"
        word = draw(st.sampled_from(["break", "continue", "return t + 1", "return x[0] * t"]))
        if kind == "plain" or (kind == "loop" and depth > 1):
            lines += draw(statements(indices, 3))
        elif kind == "leave":
            lines += [test, *(f"    {s}" for s in draw(statements(indices, 3))), f"    {word}"]
        elif kind == "nested":
            inner = f"    if {draw(elements(indices))} > {draw(elements(indices))}:"
            more = [f"    {s}" for s in draw(statements(indices, 3))]
            orelse = ["else:", *(f"    {s}" for s in draw(statements(indices, 3)))]
            lines += [test, inner, f"        {word}", *more, *(orelse * draw(st.integers(0, 1)))]
        else:
            more = draw(leaving([*indices, "j"], depth + 1))
            lines += [f"for j in {draw(st.sampled_from(RANGES))}:", *(f"    {s}" for s in more)]
    return lines


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Return the source of a function whose loops elements may leave."""
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        head = f"for i in {draw(st.sampled_from(RANGES))}:"
        if draw(st.integers(0, 4)) == 0:
            lines += ["i = 2", "while i < 6 and t < 40:"]
            lines += ["    i += 1", "    t += 1"]
        else:
            lines += [head]
        lines += [f"    {line}" for line in draw(leaving(["i"]))]
        if draw(st.integers(0, 2)) == 0:
            lines += ["else:", "    t -= 0.5"]
    body = "\n".join(f"    {line}" for line in lines)
    return f"def program(x, y, a, t):\n{body}\n    return t"


@settings(max_examples=2, derandomize=True, **SETTINGS)
@given(programs())
def test_random_programs(text: str) -> None:
    compare(text)


@pytest.mark.slow
@settings(max_examples=100, derandomize=True, **SETTINGS)
@given(programs())
def test_many_random_programs(text: str) -> None:
    compare(text)


def none_left(x):
    for k in range(5):
        if x[k] > 2:
            break
    else:
        raise ValueError("none is large")
    return x[k]


def missing_attribute(x):
    settings = SimpleNamespace(scale=None)
    if x[0] > 0:
        return x * 2
    return x * settings.bias


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (none_left, r"the else of the loop at line \d+ of none_left: one side raises ValueError"),
        (missing_attribute, r"the if at line \d+ of missing_attribute: one side raises Attribute"),
    ],
)
def test_a_side_that_raises_is_refused_by_name(function: Any, words: str) -> None:
    with pytest.raises(ComputeTypeError, match=words):
        sl.jit(function, target="python")(np.arange(5.0))


def counted_after_a_break(x):
    k = 0
    s = 0.0
    while k < len(x):
        if x[k] > 3:
            break
        s += x[k]
        k += 1
    return s, k


def counted_after_a_return(x):
    k = len(x) - 1
    while k >= 0:
        if x[k] > 3:
            return k
        k -= 1
    return -1


def counted_after_a_nested_break(x):
    k, s = 0, 0.0
    while k < len(x):
        if x[k] > 0:
            if x[k] > 3:
                break
            s += x[k]
        k += 1
    return s, k


def counted_on_both_sides(x):
    k, s = 0, 0.0
    while k < len(x):
        if x[k] < 0:
            k += 1
            continue
        if x[k] > 3:
            return s, k
        else:
            k += 1
        s += 1
    return s, k


def counted_under_two_tests(x):
    k, s = 0, 0.0
    while k < len(x) and x[k] < 3 and s < 4:
        s += x[k]
        k += 1
    return s, k


COUNTED = [
    counted_after_a_break, counted_after_a_return, counted_after_a_nested_break,
    counted_on_both_sides, counted_under_two_tests,
]  # fmt: skip


@pytest.mark.parametrize("function", COUNTED, ids=lambda f: f.__name__)
def test_a_counter_after_a_break_is_the_index_of_a_range(function: Any) -> None:
    """Only iterations that end the loop leave the counter as it is."""
    for x in (np.arange(6.0), -np.arange(6.0), np.arange(6.0)[::-1].copy()):
        assert "serial inside the kernel" in check(function, x).loops
