"""Loops that elements end, serial inside the kernel: ``while``, and ``for`` with ``break``."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import LoopWarning

RANDOM = np.random.default_rng(7)


def check(function: Callable[..., Any], *args: Any, target: str = "python") -> Any:
    """Return the traced function, after a call that gave what Python gives, in the kernel."""
    jitted = sl.jit(function, target=target)
    ours, theirs = ([np.copy(a) if isinstance(a, np.ndarray) else a for a in args] for _ in "ab")
    with warnings.catch_warnings():
        warnings.simplefilter("error", LoopWarning)
        result = jitted(*ours)
    expected = function(*theirs)
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    for a, b in zip(ours, theirs):
        np.testing.assert_array_equal(a, b)
    assert "on the host" not in jitted.loops
    return jitted


def collatz(x):
    steps = np.zeros(len(x), dtype=np.int64)
    for i in range(len(x)):
        n, count = x[i], 0
        while n != 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            count += 1
        steps[i] = count
    return steps


def newton(x):
    root = 1.0
    while abs(root * root - x[0]) > 1e-9:
        root = 0.5 * (root + x[0] / root)
    return root


def bisection(sorted_, wanted):
    places = np.zeros(len(wanted), dtype=np.int64)
    for i in range(len(wanted)):
        low, high = 0, len(sorted_)
        while low < high:
            middle = (low + high) // 2
            if sorted_[middle] < wanted[i]:
                low = middle + 1
            else:
                high = middle
        places[i] = low
    return places


def roots_of_trees(parent, nodes):
    roots = np.zeros(len(nodes), dtype=np.int64)
    for i in range(len(nodes)):
        node = nodes[i]
        while parent[node] != node:
            node = parent[node]
        roots[i] = node
    return roots


def insertion(x):
    for i in range(1, len(x)):
        value, j = x[i], i - 1
        while j >= 0 and x[j] > value:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = value


def divisors(a, b):
    for i in range(len(a)):
        x, y = a[i], b[i]
        while y != 0:
            x, y = y, x % y
        a[i] = x


def escapes(real, imaginary, most):
    counts = np.zeros((len(imaginary), len(real)), dtype=np.int64)
    for i in range(len(imaginary)):
        for j in range(len(real)):
            x, y = 0.0, 0.0
            for n in range(most):
                x, y = x * x - y * y + real[j], 2 * x * y + imaginary[i]
                if x * x + y * y > 4.0:
                    counts[i, j] = n
                    break
    return counts


def shrunk(x):
    """A stage of whole arrays in a loop that elements end."""
    count = 0
    while x.sum() > 1 and count < 40:
        x *= 0.5
        for k in range(len(x)):
            if x[k] < 0.01:
                break
            x[k] -= 0.01
        count += 1
    return count


def labels(image):
    """Guarded neighbours, in loops in a loop that ends where nothing changes."""
    height, width = image.shape
    marks = np.zeros((height, width), dtype=np.int64)
    for y in range(height):
        for x in range(width):
            if image[y, x]:
                marks[y, x] = y * width + x + 1
    changed = True
    while changed:
        changed = False
        for y in range(height):
            for x in range(width):
                if marks[y, x] > 0:
                    best = marks[y, x]
                    if y > 0 and marks[y - 1, x] > best:
                        best = marks[y - 1, x]
                    if x > 0 and marks[y, x - 1] > best:
                        best = marks[y, x - 1]
                    if y < height - 1 and marks[y + 1, x] > best:
                        best = marks[y + 1, x]
                    if x == width - 1 or marks[y, x + 1] <= best:
                        pass
                    else:
                        best = marks[y, x + 1]
                    if best != marks[y, x]:
                        marks[y, x] = best
                        changed = True
    return marks


def sparse_product(starts, columns, values, x):
    y = np.zeros(len(starts) - 1)
    for i in range(len(starts) - 1):
        for p in range(starts[i], starts[i + 1]):
            y[i] += values[p] * x[columns[p]]
    return y


def primes(flags):
    for i in range(2, len(flags)):
        if flags[i]:
            for j in range(i * i, len(flags), i):
                flags[j] = False
    return flags


def steps_down(x):
    n, k = len(x), len(x) - 1
    for i in range(1, n):
        for j in range(n - 1, -1, -i):
            x[j] += i
    t = 0.0
    while k >= 0:
        t = t * 0.5 + x[k]
        k += -1
    return t


def last_of_a_range(k):
    j = -1
    for j in range(k[0], k[1]):  # noqa: B007
        pass
    return j


def down_from_an_element(x, k):
    for j in range(k[0], -1, -1):
        if x[j] < 0.2:
            break
        x[j] *= 2
    else:
        x[0] = 7
    return j


PARENTS = np.array([0, 0, 1, 2, 4, 4, 5, 0, 7])
PROGRAMS: dict[Callable[..., Any], list[Any]] = {
    collatz: [RANDOM.integers(1, 40, 7)],
    newton: [np.array([1.7])],
    bisection: [np.sort(RANDOM.random(11)), RANDOM.random(7)],
    roots_of_trees: [PARENTS, RANDOM.integers(0, 9, 6)],
    insertion: [RANDOM.random(9)],
    divisors: [RANDOM.integers(1, 50, 9), RANDOM.integers(0, 50, 9)],
    escapes: [np.linspace(-2, 1, 7), np.linspace(-1, 1, 6), 20],
    shrunk: [RANDOM.random(7)],
    labels: [RANDOM.random((5, 6)) < 0.6],
    sparse_product: [
        np.array([0, 2, 2, 5, 6]), np.array([0, 3, 1, 2, 4, 5]), RANDOM.random(6), RANDOM.random(6)
    ],
    primes: [np.ones(40, bool)],
    steps_down: [RANDOM.random(6)],
    down_from_an_element: [RANDOM.random(6) + 0.2, np.array([4])],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_a_loop_that_elements_end_is_in_the_kernel(function: Callable[..., Any]) -> None:
    check(function, *PROGRAMS[function])


@pytest.mark.slow
@pytest.mark.parametrize("function", [bisection, insertion, shrunk], ids=lambda f: f.__name__)
@pytest.mark.parametrize("options", [{}, {"target": "c"}, {"compiler": "numba"}], ids=str)
def test_compiled_loops_that_elements_end(
    function: Callable[..., Any], options: dict[str, str]
) -> None:
    args = PROGRAMS[function]
    jitted = sl.jit(function, **options)
    ours, theirs = ([np.copy(a) for a in args] for _ in "ab")
    result, expected = jitted(*ours), function(*theirs)
    if expected is not None:
        np.testing.assert_allclose(result, expected, rtol=1e-12)
    np.testing.assert_array_equal(ours[0], theirs[0])


@pytest.mark.slow
@pytest.mark.parametrize("ends", [[2, 6], [6, 2]])
def test_the_last_number_of_a_range_of_elements(ends: list[int]) -> None:
    result = sl.jit(last_of_a_range, target="python")(np.array(ends))
    assert type(result) is int and result == last_of_a_range(np.array(ends))


def numbers_of_a_while(x):
    count = 0
    while True:
        at = count * 2
        count += 1
        if x[count] > 3:
            return count, at
        if x[count] < 0:
            return -1, at


def test_names_that_only_a_while_assigns_are_numbers_of_python() -> None:
    x = np.array([1, 2, 3, 1, 4])
    result = sl.jit(numbers_of_a_while, target="python")(x)
    assert result == numbers_of_a_while(x) and [*map(type, result)] == [int, int]


def either_part(x):
    return (x[:1] > 0) or (x[1:2] > 0)


def test_arrays_of_one_element_around_or() -> None:
    x = np.array([-1.0, 2.0])
    result = sl.jit(either_part, target="python")(x)
    np.testing.assert_array_equal(result, either_part(x), strict=True)


def to_a_float(x):
    for i in range(x[0]):
        x[i] = 0


def without_a_step(k):
    for i in range(0, k[0], 0):
        k[i] = 0


def test_ranges_that_python_refuses() -> None:
    with pytest.raises(sl.errors.ComputeTypeError, match="an end is a number of float64"):
        sl.jit(to_a_float, target="python")(np.ones(3))
    with pytest.raises(ValueError, match="must not be zero"):
        sl.jit(without_a_step, target="python")(np.array([2, 3]))


def test_a_while_is_a_line_of_each_text() -> None:
    kernel = check(newton, np.array([2.5])).kernels[1]
    for text in (str(kernel.loop_nest), str(kernel.machine_nest), kernel.source):
        assert any(line.strip().startswith("while ") for line in text.splitlines()), text


def halves_until(x, least):
    for k in range(len(x)):
        if x[k] < least:
            break
        x[k] /= 2
    return k


def test_a_break_ends_the_loop_of_the_nest() -> None:
    x = np.arange(9.0)[::-1].copy()
    jitted = check(halves_until, x, 3.5)
    (kernel,) = (k for k in jitted.kernels if "for k in 0..9 while " in str(k.loop_nest))
    assert "if not " in kernel.source


def running_largest(x):
    largest, results = x[0], np.zeros(len(x))
    for i in range(len(x)):
        if x[i] > largest:
            largest = x[i]
        results[i] = largest
    return results


def test_results_are_freed_with_their_last_name() -> None:
    f, x = sl.jit(running_largest, target="python"), RANDOM.random(5)
    gc.disable()
    try:
        result = f(x)
        reference = weakref.ref(result)
        del result
        assert reference() is None
    finally:
        gc.enable()


def test_the_kernel_of_a_loop_makes_arrays_that_begin_with_a_formula() -> None:
    f, x = sl.jit(running_largest, target="python"), RANDOM.random(7)
    np.testing.assert_array_equal(f(x), running_largest(x))
    (kernel,) = f.kernels
    assert [p.name for p in kernel.signature.inputs] == ["x"]


def differences_in_place(x):
    before, last = x[0], x[-1]
    for i in range(len(x)):
        x[i], before = x[i] - before, x[i]
        last = last + x[i] * 0.5
    return before, last


def test_a_loop_that_begins_with_elements_is_one_kernel() -> None:
    jitted = check(differences_in_place, RANDOM.random(9))
    assert len(jitted.kernels) == 1


def smallest_of_sorted(x, y):
    for i in range(5):
        x[i] = np.sort(y)[i]


@pytest.mark.slow
def test_a_copy_in_each_iteration_on_the_host_warns() -> None:
    x, y = np.zeros(20_000), RANDOM.random(6)
    with pytest.warns(LoopWarning, match="calls np.sort; each iteration copies x to assign to a "):
        sl.jit(smallest_of_sorted)(x, y)
    np.testing.assert_array_equal(x[:5], np.sort(y)[:5])
