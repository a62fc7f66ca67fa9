"""Slices whose ends are elements, as rows of a sparse matrix have them, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.autotune.at_once.scheduler import choose
from tests.test_jit_source import check


def product(start, columns, values, x):
    y = np.empty(start.size - 1, values.dtype)
    for i in range(start.size - 1):
        cols = columns[start[i] : start[i + 1]]
        y[i] = values[start[i] : start[i + 1]] @ x[cols]
    return y


def sums(start, columns, values, x):
    n = len(start) - 1
    y = np.zeros((n, 7))
    for i in range(n):
        part = values[start[i] : start[i + 1]]
        y[i, 0] = part.sum()
        y[i, 1] = np.prod(part + 1)
        y[i, 2] = (part > 0.5).any()
        y[i, 3] = np.all(part > 0.5)
        y[i, 4] = part.size
        y[i, 5] = np.max(part * 2, initial=-1)
        y[i, 6] = np.abs(part - x[i]).min(initial=9)
    return y


def total_of_products(start, columns, values, x):
    t = 0.0
    for i in range(len(start) - 1):
        a, b = start[i], start[i + 1]
        t += np.sum(np.sqrt(values[a:b]) * x[columns[a:b]]) * x[i]
    return t


def open_ends(start, columns, values, x):
    first, last = values[: start[2]], values[-start[2] :]
    return values[start[1] :].sum(), first.sum(dtype="float64"), last.sum()


def of_a_matrix(start, columns, values, x):
    m, y = values.reshape(-1, 1) * x, np.zeros(len(start) - 1)
    for i in range(len(start) - 1):
        y[i] = m[start[i] : start[i + 1], 2].sum() + m[1, start[i] : start[i + 1]].sum()
    return y


def gauss_seidel(start, columns, values, x):
    for i in range(len(start) - 1):
        a, b = start[i], start[i + 1]
        x[i] = (1 - values[a:b] @ x[columns[a:b]]) * 0.25
    return x


def arguments(dtype: str, index: str = "int64", rows: int = 9) -> list[Any]:
    random = np.random.default_rng(7)
    lengths = random.integers(0, 5, rows)
    start = np.r_[0, np.cumsum(lengths)].astype(index)
    columns = random.integers(0, rows, start[-1]).astype(index)
    values = (random.random(start[-1]) * 10).astype(dtype)
    return [start, columns, values, (random.random(rows) * 10).astype(dtype)]


FUNCTIONS = [product, sums, total_of_products, open_ends, of_a_matrix, gauss_seidel]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    ("dtype", "index"),
    [("float64", "int64"),
     pytest.param("float32", "int32", marks=pytest.mark.slow),
     pytest.param("float64", "uint32", marks=pytest.mark.slow)],
)  # fmt: skip
def test_rows_of_a_sparse_matrix(function: Callable[..., Any], dtype: str, index: str) -> None:
    if function is open_ends and index == "uint32":
        pytest.skip("an unsigned number has no opposite")
    given = arguments(dtype, index)
    ours, theirs = [a.copy() for a in given], [a.copy() for a in given]
    found, wanted = sl.jit(function, target="python")(*ours), function(*theirs)
    for a, b in zip(np.atleast_1d(found), np.atleast_1d(wanted)):
        np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "float32" else 1e-9)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_integers() -> None:
    check(product, *arguments("int64"))


@pytest.mark.parametrize("ends", [(-3, 20), (-20, 4), (2, 100), (5, 5), (7, 3), (-1, -4), (90, 99)])
def test_ends_are_where_numpy_has_them(ends: tuple[int, int]) -> None:
    def part(x, ends):
        y = x[ends[0] : ends[1]]
        return y.sum(), y.size

    check(part, np.arange(1.0, 12.0), np.array(ends))


def test_the_loop_runs_over_each_range() -> None:
    n, count = 2000, 20_000
    shapes = {"start": (n + 1,), "columns": (count,), "values": (count,), "x": (n,)}
    dtypes = dict.fromkeys(("start", "columns"), "int64")
    given = [sl.placeholder(s, dtypes.get(k, "float64"), name=k) for k, s in shapes.items()]

    def rows(start, columns, values, x):
        y = np.zeros(n)
        for i in range(n):
            y[i] = values[start[i] : start[i + 1]] @ x[columns[start[i] : start[i + 1]]]
        return y

    nest = str(choose([sl.trace(rows, *given)], sl.Target("cpu", vector_bytes=32)).schedule)
    assert "start[i]" in next(line for line in nest.splitlines() if "for k" in line)


def of_two_ranges(start, x):
    return (x[start[0] : start[1]] * x[start[1] : start[2]]).sum()


def with_an_array(start, x):
    return (x[start[0] : start[1]] + x).sum()


def sorted_part(start, x):
    return np.sort(x[start[0] : start[1]])


def returned(start, x):
    return x[start[0] : start[1]]


def empty_maximum(start, x):
    return x[start[0] : start[1]].max()


def stepped(start, x):
    return x[start[0] : start[1] : 2].sum()


def counted(start, x):
    return len(x[start[0] : start[1]])


def stale(start, x):
    y = x[start[0] : start[1]]
    x[0] = 5
    return y.sum()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (of_two_ranges, "nothing says that they have one length.*by the same ends"),
        (with_an_array, "np.add with an array of a slice whose ends are elements"),
        (sorted_part, "np.sort of a slice whose ends are elements.*np.sum, np.prod"),
        (returned, "its length is unknown"),
        (empty_maximum, r"np.max\(x\[a:b\], initial=...\)"),
        (stepped, "its step must be 1"),
        (counted, r"len\(\) of a slice"),
        (stale, "take the slice after the assignment"),
    ],
)
def test_refusals(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(sl.errors.SchedlangError, match=f"(?s){words}"):
        sl.jit(function, target="python")(np.array([1, 3, 5]), np.arange(8.0))
