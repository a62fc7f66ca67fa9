"""Serial loops of ``sl.jit`` inside one kernel, compared with NumPy."""

from __future__ import annotations

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


def shifted(a, b):
    for i in range(1, a.shape[0]):
        a[i, 1:] = a[i, :-1] + a[i - 1, 1:]
        a[i, :-1] += a[i, 1:]


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


PROGRAMS = {f.__name__: f for f in (
    triangles, product, swapped_rows, swapped_elements, old_copy, copy_in_each, shifted, longest,
    local_array, names_change, whole_and_part, upwards, stepped, sums, sorted_rows, one_row,
)}  # fmt: skip
FRACTIONS = ("triangles", "names_change")


def compare(name, n, dtype, target, expect="serial inside the kernel"):
    f = PROGRAMS[name]
    high = 4 if dtype == "int64" else 1
    given = [(RANDOM.random((n, n)) * high + np.eye(n) * 2).astype(dtype) for _ in range(2)]
    ours, theirs = [a.copy() for a in given], [a.copy() for a in given]
    traced = sl.jit(f, target=target)
    found, expected = traced(*ours), f(*theirs)
    assert expect in traced.loops
    assert "on the host" not in traced.loops
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
    ["triangles", "swapped_rows", "copy_in_each", "local_array", "upwards"], list(PROGRAMS)
))  # fmt: skip
def test_programs_in_python(name):
    traced = compare(name, 7, "float64", "python")
    assert any("for " in str(kernel.loop_nest) for kernel in traced.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("n", [5, 17, 40])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compiled(name, n, dtype, target):
    if dtype == "int64" and name in FRACTIONS:
        pytest.skip("its results are fractions")
    compare(name, n, dtype, target)
