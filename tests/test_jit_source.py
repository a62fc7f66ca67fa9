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


def product(c, a, b):
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


def windows(x, w):
    y = np.empty((x.shape[0] - 2, x.shape[1] - 2))
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = np.sum(x[i : i + 3, j : j + 3] * w)
    return y


def reversed_differences(x, y):
    for i in range(x.shape[0] - 2, 0, -1):
        y[i] = x[i + 1] - x[i - 1]
        y[i] = y[i] * 2


def sum_of_large(x):
    total = 0.0
    for i in range(x.shape[0]):
        if x[i] > 0.5:
            total += x[i]
    return total


def sum_of_rows(a):
    total = np.zeros(a.shape[1])
    for row in a:
        total += row
    return total


def fifths(x):
    for i in range(5, x.shape[0]):
        x[i] = x[i - 5] + 1


def running_sum(x):
    y = np.zeros(len(x))
    s = 0.0
    for i in range(len(x)):
        s += x[i]
        y[i] = s
    return y


def sum_without_small(x):
    y, s = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        if x[i] < 0.3:
            continue
        s += x[i]
        y[i] = s
    return y, s


def sum_until_small(x):
    s, on = 0.0, True
    for i in range(len(x)):
        on = on & ~(x[i] < 0.3)
        s = np.where(on, s + x[i], s)
    return s


def triangular_sum(a):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(i + 1):
            s += a[i, j]
    return s


def triangular_sums(a):
    y, s = np.zeros(a.shape[0]), 0.0
    for i in range(a.shape[0]):
        for j in range(i + 1):
            s += a[i, j]
        y[i] = s
    return y


def line_of(function: Callable[..., Any], more: int) -> int:
    return function.__code__.co_firstlineno + more


RANDOM_MATRICES = [RANDOM.random((5, 6)), RANDOM.random((5, 7)), RANDOM.random((7, 6))]
FORMS = [
    (product, RANDOM_MATRICES, ["{1}: a map", "  {2}: a map", "    {3}: a reduction"]),
    (windows, [RANDOM.random((8, 9)), RANDOM.random((3, 3))], ["{2}: a map", "  {3}: a map"]),
    (reversed_differences, [RANDOM.random(9), RANDOM.random(9)], ["{1}: a map"]),
    (sum_of_large, [RANDOM.random(9)], ["{2}: a reduction"]),
    (sum_of_rows, [RANDOM.random((6, 5))], ["{2}: a reduction"]),
    (fifths, [RANDOM.random(12)], ["{1}: serial inside the kernel, since x[i - 5] is read"]),
    (running_sum, [RANDOM.random(9)],
     ["{3}: serial inside the kernel, since an iteration reads what the ones before it wrote"]),
    (sum_without_small, [RANDOM.random(9)],
     ["{2}: serial inside the kernel, since an iteration reads what the ones before it wrote"]),
    (sum_until_small, [np.array([0.5, 0.9, 0.4, 0.1, 0.7, 0.8])],
     ["{2}: a scan of 6 rows, since each iteration computes a number from the one before"]),
    (triangular_sum, [RANDOM.random((7, 7))],
     ["{2}: serial inside the kernel, since each iteration computes a number from the one before",
      "  {3}: a reduction"]),
    (triangular_sums, [RANDOM.random((7, 7))],
     ["{2}: serial inside the kernel, since each iteration computes a number from the one before",
      "  {3}: a reduction"]),
    (neighbours, [RANDOM.random((8, 8))],
     ["{1}: serial inside the kernel, since its body has a serial loop",
      "  {2}: serial inside the kernel, since its body has a serial loop",
      "    {3}: serial inside the kernel, since a[i + 1, j - 1] is read"]),
    (counted, [RANDOM.random(8)],
     ["{3}: serial inside the kernel, since the number of its iterations depends on elements"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("function", "args", "lines"), FORMS, ids=lambda v: getattr(v, "__name__", "")
)
def test_what_loops_become(
    function: Callable[..., Any], args: list[Any], lines: list[str]
) -> None:
    jitted = check(function, *args)
    places = [f"line {line_of(function, k)}" for k in range(8)]
    assert jitted.loops == "\n".join(line.format(*places) for line in lines)


def halved_sums(x):
    t, s = 0.0, 0.0
    for i in range(9):
        s = -s
        for j in range(i + 1):
            s += x[j]
        t = t * 0.5 + s
    return t


def sum_from_an_integer(x):
    s = 0
    for i in range(9):
        for j in range(9):
            s += x[j] * i
    return s


def scaled_by_a_float(x):
    s = 0.0
    for _ in range(9):
        s = s * 0.5 + 1
    return s * x


@pytest.mark.parametrize("function", [halved_sums, sum_from_an_integer, scaled_by_a_float])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_python_numbers_take_the_dtype_that_follows(
    function: Callable[..., Any], dtype: str
) -> None:
    # sums of few halves are exact in each dtype
    jitted = check(function, np.arange(9).astype(dtype))
    assert "unrolled" not in jitted.loops


def test_a_map_is_a_tensor() -> None:
    args = [sl.placeholder(a.shape, str(a.dtype), name=n) for a, n in zip(RANDOM_MATRICES, "cab")]
    tensor = sl.trace(product, *args)
    c, a, b = RANDOM_MATRICES
    found = sl.build(sl.schedule(tensor), target="python")(a=a, b=b, c=c)
    np.testing.assert_allclose(found, c + a @ b)


def test_a_name_that_is_one_of_two_arrays() -> None:
    def followed(x, y):
        larger = x if x[0] > y[0] else y
        x[1] = 7
        y[1] = 8
        return larger + 0

    check(followed, np.array([1.0, 2.0]), np.array([0.0, 3.0]))
    check(followed, np.array([0.0, 2.0]), np.array([1.0, 3.0]))

    def written(x, y):
        larger = x if x[0] > y[0] else y
        larger[1] = 7

    check(written, np.array([1.0, 2.0]), np.array([0.0, 3.0]))
    check(written, np.array([0.0, 2.0]), np.array([1.0, 3.0]))


def test_parts_of_and_and_or_are_values() -> None:
    def joined(x):
        first = x[0] or x[1]
        return (x[0] and x[1]), first, x[0] > 0 and not x[1] > 0

    for x in ([0.0, 2.0], [3.0, 2.0], [3.0, 0.0]):
        check(joined, np.array(x))


def test_a_branch_guards_what_it_reads() -> None:
    def shifted(x):
        y = np.zeros(x.shape)
        for i in range(x.shape[0]):
            if i + 2 < x.shape[0]:
                y[i] = x[i + 2]
            if i > 0 and x[i - 1] > 0.5:
                y[i] += 1
        return y

    check(shifted, RANDOM.random(9))


def test_why_a_loop_is_unrolled_is_said() -> None:
    def grown(x):
        for _ in range(6):
            x = np.concatenate([x, x[:1]])
        return x

    start = f"line {line_of(grown, 1)}: unrolled, since x is float64 of shape "
    assert check(grown, np.arange(3.0)).loops.startswith(start)


def test_an_empty_range_leaves_what_was_there() -> None:
    def latest(x):
        y = np.zeros(x.shape)
        for i in range(x.shape[0]):
            t = x[i] * 10
            mark = 2.0
            for j in range(i - 2):
                t = x[j]
                mark = 5.0
            y[i] = t * mark
        return y

    check(latest, RANDOM.random(7))


def stored(x: Any, rows: list[Any], total: dict[str, Any]) -> Any:
    for i in range(9):
        rows.append(x + i)
        total["sum"] = x.sum() * i
    return x


def drawn(x: Any, rng: Any) -> Any:
    for i in range(9):
        x = x + i * rng.normal(size=x.shape)
    return x


def reshaped_in_a_loop(x: Any) -> Any:
    y, z = x + 1, x
    for i in range(9):
        z = y * i
        y.shape = (-1,)
    return z


def copy_written_on_a_side(x: Any) -> Any:
    columns = x.T.reshape(-1)
    if x[0, 0] > 0:
        columns[0] = 7
    else:
        columns[1] = 8
    return columns, x


def test_containers_and_generators_in_loops() -> None:
    x, changed = np.arange(6.0), []
    for run in (stored, sl.jit(stored, target="python")):
        rows, total = ["first"], {"count": 1}
        run(x, rows, total)
        changed.append((rows, total))
    (rows, total), (own_rows, own_total) = changed
    assert own_total == total and own_rows[0] == "first"
    np.testing.assert_array_equal(own_rows[1:], rows[1:])
    draw = sl.jit(drawn, target="python")
    theirs, ours = (np.random.default_rng(5) for _ in range(2))
    for _ in range(2):
        np.testing.assert_allclose(draw(x, ours), drawn(x, theirs))


@pytest.mark.parametrize("function", [reshaped_in_a_loop, copy_written_on_a_side])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_views_in_loops_and_sides(function: Callable[..., Any], sign: float) -> None:
    x = np.arange(1.0, 13.0).reshape(3, 4) * sign
    ours, theirs = sl.jit(function, target="python")(x.copy()), function(x.copy())
    for a, b in zip(ours, theirs):
        np.testing.assert_array_equal(a, b)


def appended(x: Any, rows: list[Any]) -> Any:
    if x.sum() > 0:
        rows.append(x + 1)
    return x


def with_own_dict(x: Any, rows: list[Any]) -> Any:
    parts = {}
    if x.sum() > 0:
        parts["x"] = x + 1
    return parts.get("x", x)


def labelled(x: Any) -> Any:
    if x[0] > 0.5:
        pair = ("scaled", x * 2)
    else:
        pair = ("scaled", x * 3)
    return pair[1]


@pytest.mark.parametrize("first", [0.0, 1.0])
def test_sides_leave_equal_words_beside_arrays(first: float) -> None:
    check(labelled, np.array([first, 0.5, 2.0]))


def noisy_if_positive(x: Any, rng: Any) -> Any:
    if x.sum() > 0:
        x = x + rng.normal(size=x.shape)
    return x




def reshaped_on_a_side(x: Any, rows: list[Any]) -> Any:
    y = x + 1
    if x.sum() > 0:
        y.shape = (3, 2)
    return y


def appended_while(x: Any, rows: list[Any]) -> Any:
    sums = []
    while x.sum() > 1:
        x = x / 2
        sums.append(x.sum())
    return x, sums[0]


@pytest.mark.parametrize(
    "function, words",
    [
        (appended_while, "while at line .* of appended_while: its body changes a list"),
        (appended, "if at line .* of appended: one side changes a list"),
        (with_own_dict, "of with_own_dict: one side changes a list, a dict or a set"),
        (noisy_if_positive, r"rng.normal\(...\).*Draw before the if"),
        (reshaped_on_a_side, r"y = x.reshape\(\(3, 2\)\)"),
    ],
)
def test_what_one_side_cannot_do(function: Callable[..., Any], words: str) -> None:
    given = np.random.default_rng(0) if function is noisy_if_positive else []
    with pytest.raises(sl.errors.SchedlangError, match=f"(?s){words}"):
        sl.jit(function, target="python")(np.arange(6.0), given)
    assert given == [] or function is noisy_if_positive
