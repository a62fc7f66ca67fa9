"""Serial loops of ``sl.jit`` inside one kernel, compared with NumPy."""

from __future__ import annotations

import importlib.util
import random
import runpy

import numpy as np
import pytest

import schedlang as sl
from tests.marks import slow_but

RANDOM = np.random.default_rng(58)


def triangles(a, b):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


def product(a, b):
    c = np.zeros_like(a)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(a.shape[1]):
                c[i, j] = c[i, j] + a[i, k] * b[k, j]
            c[i, j] += c[i, max(j - 1, 0)]
    return c


def swapped_rows(a, b):
    n = a.shape[0]
    for i in range(1, n):
        t = a[i].copy()
        a[i] = a[i - 1] + b[i]
        a[i - 1] = t
    return a


def swapped_elements(a, b):
    for i in range(a.shape[0]):
        for j in range(a.shape[0] - 1):
            if a[i, j] > a[i, j + 1]:
                t = a[i, j]
                a[i, j] = a[i, j + 1]
                a[i, j + 1] = t


def old_copy(a, b):
    kept = a.copy()
    for i in range(1, a.shape[0]):
        a[i] = a[i - 1] + kept[i] * 2
        b[:, i] = kept[:, i - 1] - b[:, i - 1]
    return kept


def copy_in_each(a, b):
    for i in range(1, a.shape[0]):
        kept = a.copy()
        a[i] += a[i - 1]
        b[i] = kept[i] + b[i - 1]
        a[0] = kept[i]


def two_from_one(a, b):
    c = a.copy()
    for i in range(a.shape[0] - 1, 0, -1):
        t = a[i].copy()
        a[i] = a[i - 1] / 2
        c[i - 1] = t
    return c


def shifted(a, b):
    for i in range(1, a.shape[0]):
        a[i, 1:] = a[i, :-1] + a[i - 1, 1:]
        a[i, :-1] += a[i, 1:]


def reversed_in_place(a, b):
    for i in range(1, a.shape[0]):
        a[::-1] = a
        for j in range(i):
            b[:, ::-1] = b
            a[j] += b[j]


def longest(a, b):
    n = a.shape[0]
    table = np.zeros((n + 1, n + 1), a.dtype)
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            if a[i - 1, 0] == b[0, j - 1]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    return table


def local_array(a, b):
    for i in range(1, a.shape[0]):
        t = np.zeros(a.shape[1], a.dtype)
        t[1:] = a[i - 1, 1:] * 2
        t[0] = b[i, i]
        for j in range(1, a.shape[1]):
            t[j] += t[j - 1]
        a[i] = t + a[i]
        b[:, i] = t


def names_change(a, b):
    for i in range(1, a.shape[0]):
        a[i] += b[i - 1]
        b[i] += a[i - 1]
        s = a[i].sum()
        for j in range(5):
            s = s / 2 + a[i, j]
        a[i, 0] = s


def whole_and_part(a, b):
    x = a * 1
    for i in range(1, a.shape[0]):
        x = x * 2 - b
        x[i] += x[i - 1]
        b[i, i] = x[i - 1, i]
    return x


def upwards(a, b):
    n = a.shape[0]
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            a[i, j] = a[i + 1, j] + a[i, j - 1]
            for k in range(i + 1, j):
                a[i, j] = max(a[i, j], a[i, k] + b[k, j])


def stepped(a, b):
    for i in range(2, a.shape[0]):
        a[i, ::2] = a[i - 2, ::2] + b[i, ::2]
        a[::3, i] = b[::3, i - 1] * a[::3, i - 2]


def sums(a, b):
    s, t = a[0, 0] * 0, a[0, 0] * 0
    for i in range(a.shape[0]):
        for j in range(i, a.shape[0]):
            s = s + a[i, j]
            if a[i, j] > b[i, j]:
                t = t + s
        b[i, 0] = s
    return s, t


def sorted_rows(a, b):
    for i in range(1, a.shape[0]):
        a[i] = np.cumsum(a[i] + a[i - 1])
        b[i] += a[i].max() - b[i - 1]


def one_row(a, b):
    for _ in range(3):
        for i in range(1, a.shape[0] - 1):
            a[i, 1:-1] += a[i - 1, :-2] + a[i + 1, 2:]
            for j in range(1, a.shape[1] - 1):
                a[i, j] += a[i, j - 1]
                a[i, j] -= b[i, j]


def neighbours_where_they_are(a, b):
    n = a.shape[0]
    for i in range(n - 1, -1, -1):
        for j in range(n):
            if i + 1 < n:
                x = a[i + 1, j] / 2 + b[i, j] * 3 - a[i, j] / 4 + np.sqrt(b[i + 1, j])
                b[i, j] = max(x, a[i, j])
            if j > 0 and i + 1 < n:
                a[i, j] += b[i + 1, j - 1]


def others_alone(a, b):
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            for k in range(j):
                a[i, j] = a[i, j] / 2 + a[i, k] * b[k, j] / 8
            for k in range(i):
                b[i, j] = max(b[i, j] / 2, b[k, j])


def itself_too(a, b):
    n = a.shape[0]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                a[i, j] = max(a[i, j] / 2, a[i, k] + b[k, j] / 4)
                b[k, i] = b[j, i] / 2 + a[i, j] / 4


PROGRAMS = {f.__name__: f for f in (
    triangles, product, swapped_rows, swapped_elements, old_copy, copy_in_each, shifted, longest,
    two_from_one, local_array, names_change, whole_and_part, upwards, stepped, sums, sorted_rows,
    reversed_in_place, one_row, neighbours_where_they_are, others_alone, itself_too,
)}  # fmt: skip
FRACTIONS = (
    "triangles", "names_change", "two_from_one", "neighbours_where_they_are", "others_alone",
    "itself_too",
)  # fmt: skip


def compare(name, n, dtype, target, expect="serial inside the kernel"):
    f = PROGRAMS[name]
    high = 4 if dtype == "int64" else 1
    given = [(RANDOM.random((n, n)) * high + np.eye(n) * 2).astype(dtype) for _ in range(2)]
    ours, theirs = [a.copy() for a in given], [a.copy() for a in given]
    traced = sl.jit(f, target=target)
    found, expected = traced(*ours), f(*theirs)
    assert expect in traced.loops
    assert "on the host" not in traced.loops and "unrolled" not in traced.loops
    tolerance = {"int64": 0, "float32": 2e-4, "float64": 1e-10}[dtype]
    pairs = [*zip(ours, theirs)]
    if expected is not None:
        several = isinstance(expected, tuple)
        pairs += zip(found, expected) if several else [(found, expected)]
    for one, other in pairs:
        assert np.asarray(one).dtype == np.asarray(other).dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    return traced


@pytest.mark.parametrize("name", slow_but(
    ["triangles", "swapped_rows", "copy_in_each", "two_from_one", "reversed_in_place", "upwards",
     "neighbours_where_they_are"],
    list(PROGRAMS),
))  # fmt: skip
def test_programs_in_python(name):
    traced = compare(name, 7, "float64", "python")
    assert any("for " in str(kernel.loop_nest) for kernel in traced.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("n", [7, 17, 40])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compiled(name, n, dtype, target):
    if dtype == "int64" and name in FRACTIONS:
        pytest.skip("its results are fractions")
    compare(name, n, dtype, target)


def covariances(x, n):
    c = np.zeros((n, n), x.dtype)
    for i in range(n):
        c[i:n, i] = c[i, i:n] = x[:, i] @ x[:, i:n] / 3
    return c


def off_diagonal(x, n):
    c = np.eye(n, dtype=x.dtype)
    for i in range(n - 1):
        c[i + 1 : n, i] = c[i, i + 1 : n] = x[:, i] @ x[:, i + 1 : n]
    return c


def lower_rows(x, n):
    c = np.ones((n, n), x.dtype)
    for i in range(1, n):
        c[i, :i] = x[i, :i] * 2 + x[:i, i] + i
    return c


def windows_that_meet(x, n):
    c = np.zeros((n, n), x.dtype)
    for i in range(n - 1):
        c[i : n - 1, i] = x[i, i : n - 1]
        c[i + 1, i:n] = x[i, i:n] * 2
    return c


@pytest.mark.parametrize("n", [2, 5, 9])
@pytest.mark.parametrize("f", [covariances, off_diagonal, lower_rows, windows_that_meet])
def test_slices_that_change_their_size(f, n):
    x = RANDOM.random((9, 9))
    traced = sl.jit(f, static_argnums=(1,), target="python")
    np.testing.assert_allclose(traced(x, n), f(x, n), rtol=1e-12)
    if f in (covariances, off_diagonal) and n > 5:
        assert "a triangular map" in traced.loops


@pytest.mark.parametrize("n", [0, 1, 2])
def test_empty_ranges(n):
    f = PROGRAMS["triangles"]
    ours, theirs = (np.ones((n, n)) for _ in range(2))
    sl.jit(f, target="python")(ours, ours.copy())
    f(theirs, theirs)
    np.testing.assert_allclose(ours, theirs)


def counts(places, n):
    found = np.zeros(n, "int64")
    last = np.zeros((n, 2))
    for i in range(places.shape[0]):
        found[places[i]] += i + 1
        last[places[i], :] = last[places[i - 1], :] + i
    return found, last


def test_places_that_elements_tell():
    places = RANDOM.integers(0, 5, 13)
    traced = sl.jit(counts, static_argnums=(1,), target="python")
    for one, other in zip(traced(places, 5), counts(places, 5)):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_a_kernel_of_a_loop_prints_is_saved_and_works_in_place(tmp_path):
    f = sl.jit(PROGRAMS["triangles"])
    a = RANDOM.random((9, 9)) + np.eye(9) * 9
    expected = a.copy()
    f.function(expected, None)
    found = a.copy()
    f(found, np.ones(1))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    (kernel,) = f.kernels
    assert "for j in 0..i:" in str(kernel.loop_nest)
    saved = runpy.run_path(str(kernel.save(tmp_path / "lu.py")))
    np.testing.assert_allclose(saved[kernel.name](a), expected, rtol=1e-12)
    same = a.copy()
    kernel(same, same)
    np.testing.assert_allclose(same, expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.compiled_by("numba")(a), expected, rtol=1e-12)
    with pytest.raises(sl.errors.MissingNameError, match="without a schedule"):
        _ = kernel.schedule.steps


@pytest.mark.parametrize("name, expected", [("others_alone", 2), ("itself_too", 0)])
def test_an_element_that_a_loop_updates_is_local(name, expected):
    """The element is local while its loop runs, if the loop reads others of its array alone."""
    traced = compare(name, 5, "float64", "python")
    (kernel,) = traced.kernels
    assert str(kernel.loop_nest).count(".element: float64[]") == expected


def test_a_loop_of_no_iteration_updates_no_element():
    """The element before a loop may be outside of the array where the loop has no iteration."""

    def program(a, b):
        for i in range(a.shape[0]):
            for k in range(i - 1):
                a[i - 2, 1] = a[i - 2, 1] + a[i, k] * b[k, 0]

    ours, theirs = np.arange(25.0).reshape(5, 5), np.arange(25.0).reshape(5, 5)
    b = np.ones((5, 5))
    sl.jit(program, target="python")(ours, b)
    program(theirs, b)
    np.testing.assert_array_equal(ours, theirs)


def reversed_sums(x):
    for i in range(x.shape[0]):
        for _ in range(5):
            x[i:] += np.sort(x[i:])
        x[i] += x[i - 1]


def test_a_loop_that_no_kernel_runs_says_so():
    f, x = sl.jit(reversed_sums, target="python"), np.arange(4.0)
    f(x)
    expected = np.arange(4.0)
    reversed_sums(expected)
    np.testing.assert_array_equal(x, expected)
    assert f.loops.count("on the host, since its body calls np.sort") == 2


def random_program(seed):
    """Return the source of a function of two square arrays: loops with assignments in them."""
    draw = random.Random(seed)
    lines = ["import numpy as np", "def program(a, b):", "    n, s = a.shape[0], a[0, 0]"]
    lines += draw.choice([[], ["    c = a.copy()"], ["    c = np.zeros_like(a)"]])
    arrays = ["a", "b"] + ["c"] * ("c = " in lines[-1])

    def place(index, least):
        return draw.choice([index, f"{index} - {least}", "0", f"n - 1 - {index}"])

    def scalar(rows, depth):
        x = draw.choice(arrays)
        column = rows[-1] if depth > 1 else "1"
        return draw.choice(
            [
                f"{x}[{place(rows[0], 1)}, {place(column, 1)}]",
                f"{x}[{rows[0]}, {column}]",
                "s",
                "0.5",
                f"{x}[{rows[0]}, :{column}].sum()",
                f"({x}[{rows[0]}, :{column}] @ {x}[:{column}, {column}])",
                f"max({x}[{rows[0]}, {column}], {draw.choice(arrays)}[{column}, {rows[0]}])",
            ]
        )

    def row(rows):
        x = draw.choice(arrays)
        return draw.choice(
            [
                f"{x}[{rows[0]} - 1]",
                f"{x}[:, {rows[0]}]",
                f"{x}[{rows[0]}, ::-1]",
                f"{x}[{rows[0]}] * 0.5",
                f"np.where({x}[{rows[0]}] > 0.3, {x}[0], 1.0)",
                f"{x}.sum(axis=0) / 9",
            ]
        )

    def statement(rows, depth, pad):
        x, y = draw.choice(arrays), draw.choice(arrays)
        column = rows[-1] if depth > 1 else "2"
        kind = draw.randrange(8)
        if kind == 0 and depth < 3:
            inner = "ijk"[depth]
            ends = draw.choice(["1, n", f"1, {rows[-1]}", f"{rows[-1]}, n", "n - 1, 0, -1"])
            return [f"{pad}for {inner} in range({ends}):", *block([*rows, inner], depth + 1, pad)]
        if kind == 1:
            return [f"{pad}{x}[{rows[0]}] = ({row(rows)} + {row(rows)}) / 2"]
        if kind == 2:
            return [f"{pad}{x}[{rows[0]}, 1:] = ({y}[{rows[0]}, :-1] + {x}[{rows[0]} - 1, 1:]) / 3"]
        if kind == 3:
            return [f"{pad}s = s * 0.5 + {scalar(rows, depth)} / 4"]
        if kind == 4:
            test = f"{scalar(rows, depth)} > {scalar(rows, depth)}"
            return [
                f"{pad}if {test}:",
                f"{pad}    {x}[{rows[0]}, {column}] = {scalar(rows, depth)} / 2",
            ]
        if kind == 5:
            return [f"{pad}t = {y}[{rows[0]}].copy()",
                    f"{pad}{y}[{rows[0]}] = {y}[{rows[0]} - 1] / 2",
                    f"{pad}{x}[{rows[0]} - 1] = t"]  # fmt: skip
        operator = draw.choice(["=", "+=", "-="])
        value = f"({scalar(rows, depth)} + {scalar(rows, depth)}) / 5"
        return [f"{pad}{x}[{rows[0]}, {column}] {operator} {value}"]

    def block(rows, depth, pad):
        return [
            line
            for _ in range(draw.randrange(1, 4))
            for line in statement(rows, depth, pad + "    ")
        ]

    for _ in range(draw.randrange(1, 3)):
        ends = draw.choice(["1, n", "2, n - 1", "n - 1, 0, -1"])
        lines += [f"    for i in range({ends}):", *block(["i"], 1, "    ")]
    return "\n".join([*lines, f"    return s, {arrays[-1]} * 1", ""])


def check_random_program(seed, folder, target):
    path = folder / f"program{seed}.py"
    path.write_text(random_program(seed))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    given = [np.random.default_rng(seed).random((7, 7)) for _ in range(2)]
    ours, theirs = [a.copy() for a in given], [a.copy() for a in given]
    expected = module.program(*theirs)
    traced = sl.jit(module.program, target=target)
    found = traced(*ours)
    for one, other in zip((*ours, *found), (*theirs, *expected)):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    return traced.loops

def number_from_before(y, b):
    last = y[4]
    for i in range(4, -1, -1):
        value = i * 0.5 + last
        y[i] = b[i, i + 1]
    return value


def test_a_number_from_before_a_loop_keeps_its_memory():
    """The result of a loop does not take the memory of a number that each iteration reads."""
    b = np.arange(30.0).reshape(5, 6)
    ours, theirs = np.arange(5.0), np.arange(5.0)
    traced = sl.jit(number_from_before, target="python")
    assert traced(ours, b) == number_from_before(theirs, b)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("seed", range(2))
def test_random_programs(seed, tmp_path):
    check_random_program(seed, tmp_path, "python")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 200))
def test_many_random_programs(seed, tmp_path):
    check_random_program(seed, tmp_path, "python")
