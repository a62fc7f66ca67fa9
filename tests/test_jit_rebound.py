"""Names that loops and branches on elements assign anew, and the counters of ``while``."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.tracing import specialization
from tests.test_jit_random_loops import function_of
from tests.test_jit_source import check


@pytest.fixture(autouse=True)
def _without_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    # the meaning of loops does not depend on schedules, which take most of the time
    monkeypatch.setattr(specialization, "schedule_for", lambda out, *_: sl.schedule(out))


def halved_until_small(x, least):
    while True:
        x = x * 0.5
        if np.abs(x).sum() < least:
            break
    return x


def root(x, least):
    guess = x
    while True:
        better = 0.5 * (guess + x / guess)
        if np.abs(better - guess).max() < least:
            break
        guess = better
    return guess


def root_in_ten(x, least):
    guess = x
    for k in range(10):  # noqa: B007
        better = 0.5 * (guess + x / guess)
        if np.abs(better - guess).max() < least:
            break
        guess = better
    return guess, k


def largest_eigenvalue(x, least):
    a, v, old = np.outer(x, x) + np.diag(x), np.ones(len(x)), 0.0
    while True:
        w = a @ v
        new = np.sqrt(w @ w)
        v = w / new
        if abs(new - old) < least:
            return new, v
        old = new


def written_after(x, least):
    while x.sum() > least:
        x = x * 0.5
    x[0] = 100
    return x.sum()


def swapped(x, least):
    p, q = x, x * 2
    while p.sum() > least:
        p, q = q * 0.25, p
    return p - q


def views_of_another(x, least):
    y = x[:3]
    for i in range(6):
        z = x * i
        y = z[1:4]
    return y, z


def doubled_if_large(x, least):
    y = x
    if x[0] > least:
        y = x * 2
    y[1] = 7
    return y


def one_of_two_that_a_loop_writes(x, least):
    y, z = x + least, x * 2
    p = y if x[0] > 1 else z
    total = 0.0
    for _ in range(9):
        y[0] += 1
        z[0] += 2
        total += p[0]
        p = p * 0.5
    return total, p, y, z


def read_and_written_in_a_later_loop(x, least):
    y = x
    while y[0] < least:
        y = y * 2
    for k in range(len(x)):
        y[k] += k
        x[k] += y[k]
    return x, y


CASES = [
    read_and_written_in_a_later_loop,
    one_of_two_that_a_loop_writes,
    halved_until_small, root, root_in_ten, largest_eigenvalue, written_after, swapped,
    views_of_another, doubled_if_large,
]  # fmt: skip


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_names_that_are_assigned_anew(function: Callable[..., Any]) -> None:
    x = np.array([2.0, 3.0, 5.0, 7.5])
    for scale, least in ((1, 1e-2), (1e-4, 1)):
        check(function, x * scale, least)


@pytest.mark.parametrize("after", ["y[0] = 1", "x[0] = 1"])
def test_arrays_that_may_be_one_after_a_loop(after: str) -> None:
    text = f"""
        def program(x):
            y = x * 2
            while y.sum() > 1:
                x = y * 0.5
                y = x
            {after}
            return x + y"""
    function = function_of(dedent(text))
    with pytest.raises(sl.errors.ComputeError, match="may be the array of another name"):
        sl.jit(function, target="python")(np.ones(3))


def test_an_array_that_a_later_line_may_change() -> None:
    def stale(x, z):
        y = x
        while y.sum() > 9:
            y = z
        z[0] = 5
        return y + 1

    with pytest.raises(sl.errors.ComputeError, match="may be the array of another name"):
        sl.jit(stale, target="python")(np.ones(3), np.ones(3))


def test_an_array_that_a_later_iteration_may_change() -> None:
    def stale(x, least):
        y, z, total = x, x * 2, 0.0
        while z.sum() > least:
            y, z = z, z * 0.5
        while total < 100:
            total += y[0]
            x[0] += 10
        return total

    with pytest.raises(sl.errors.ComputeError, match="may be the array of another name"):
        sl.jit(stale, target="python")(np.ones(3), 1.0)


def test_a_write_that_a_later_iteration_would_see() -> None:
    def seen(x):
        y = x
        while y.sum() > 1:
            x[0] = 0
            y = x
        return y

    with pytest.raises(sl.errors.SchedlangError, match="while at line .* of seen"):
        sl.jit(seen, target="python")(np.ones(3))


def counted(x):
    y, i = np.zeros(len(x)), 0
    while i < len(x):
        y[i] = x[i] * i
        i += 1
    return y, i


def counted_down(x):
    total, i = 0.0, len(x) - 1
    while i >= 0:
        total += x[i]
        i -= 2
    return total, i


def insertion(x):
    i = 1
    while len(x) > i:
        j = i
        while j > 0:
            x[j], x[j - 1] = max(x[j], x[j - 1]), min(x[j], x[j - 1])
            j = j - 1
        i += 1
    return x


def not_once(x):
    k = 2
    while k > 5:
        k -= 1
    return x + k


def left_early(x):
    k = 0
    while k < 50:
        k += 1
        if x[k % 4] > 100:
            break
        x = x * 1.5
    return x, k


def skips(x):
    k = 0
    while k < 6:
        if k % 2:
            k += 1
            continue
        x = x + k
        k += 1
    return x, k


def to_a_length_that_grows(x):
    queue, k, total = [0, 1], 0, 0.0
    while k < len(queue):
        if len(queue) < 7:
            queue.append(queue[k] + 1)
        total += x[queue[k]]
        k += 1
    return total, k


def to_an_element_that_shrinks(x):
    end, k, total = [10], 0, 0.0
    while k < end[0]:
        end[0] -= 1
        total += x[k]
        k += 1
    return total, k


def to_an_attribute_that_shrinks(x):
    ends, k, total = SimpleNamespace(last=9), 0, 0.0
    while k < ends.last:
        ends.last -= 1
        total += x[k]
        k += 1
    return total, k


def to_a_shape(x):
    k, total = 0, 0.0
    while k < x.T.shape[0] - 1:
        total += x[k]
        k += 1
    return total, k


COUNTERS: dict[Callable[..., Any], str] = {
    to_a_length_that_grows: "",
    to_an_element_that_shrinks: "",
    to_an_attribute_that_shrinks: "",
    to_a_shape: "a reduction",
    counted: "a map",
    counted_down: "a reduction",
    insertion: "serial inside the kernel",
    not_once: "",
    left_early: "serial inside the kernel",
    skips: "",
}


@pytest.mark.parametrize("function", COUNTERS, ids=lambda f: f.__name__)
def test_counters_of_while(function: Callable[..., Any]) -> None:
    jitted = check(function, np.random.default_rng(1).random(13) * 9)
    assert jitted.loops.partition(": ")[2].startswith(COUNTERS[function])


REFUSED = {
    "shape": ("x = np.concatenate([x, x])", r"x is float64 of shape \(3,\) before"),
    "number": ("x = x * 2; t = x", "t is a number of"),
    "dtype": ("x = x.astype('float32')", "float32 of shape"),
    "mask": ("x = x * 2; t = x[x > 1]", "elements decide how many elements t has"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_iteration_leaves_in_words_of_the_function(case: str) -> None:
    body, words = REFUSED[case]
    text = f"def program(x):\n t = 0\n while x.sum() < 9:\n  {body}\n return x, t"
    with pytest.raises(sl.errors.ComputeError, match=words) as error:
        sl.jit(function_of(text), target="python")(np.ones(3))
    assert "loop at line 3 of program" in str(error.value) and "fori_loop" not in str(error.value)


def test_a_while_that_is_unrolled_says_how_to_count() -> None:
    def endless(x):
        n = 0
        while True:
            x = x / 2
            n += 1
            if n > 300:
                break
        return x

    with pytest.raises(sl.errors.ComputeError, match="for k in range"):
        sl.jit(endless, target="python")(np.ones(3))


def roots(a):
    out = np.empty_like(a)
    for i in range(len(a)):
        x = a[i]
        while True:
            new = 0.5 * (x + a[i] / x)
            if abs(new - x) < 1e-12:
                break
            x = new
        out[i] = x
    return out


@pytest.mark.filterwarnings("error::schedlang.errors.LoopWarning")
def test_a_while_of_little_work_is_in_the_kernel() -> None:
    a, f = np.random.default_rng(0).random(3) + 0.5, sl.jit(roots, target="python")
    np.testing.assert_allclose(f(a), np.sqrt(a), rtol=1e-6)
    assert "on the host" not in f.loops


@pytest.mark.filterwarnings("error::schedlang.errors.LoopWarning")
def test_a_while_of_much_work_does_not_warn() -> None:
    x = np.full(5000, 8.0)
    y = sl.jit(halved_until_small, target="python")(x, 5000.0)
    np.testing.assert_array_equal(y, halved_until_small(x, 5000.0))


class Counter:
    def __init__(self):
        self.n = 0
        self.parts = [1.0]


def counted_by_attributes(x):
    counter, total = Counter(), 0.0
    for k in range(6):
        counter.n += 1
        counter.parts.append(counter.parts[-1] * 2)
        total += counter.n * counter.parts[-1] * x[k]
    return total


def test_attributes_that_a_loop_changes() -> None:
    """Attributes are Python's: each iteration changes them."""
    x = np.arange(1.0, 9.0)
    assert sl.jit(counted_by_attributes, target="python")(x) == counted_by_attributes(x)
