"""Tests of masks that hold, or do not, in a whole half of a vector that is longer than a register.

LLVM halves such vectors, and once ended the process or loaded from another array.
"""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from tests.marks import slow_but

# vectors of 64 to 128 bytes
LANES = {"float64": 8, "float32": 16, "int64": 16, "int32": 24, "int8": 64}
slow_but_floats = pytest.mark.parametrize("dtype", slow_but(["float64", "float32"], LANES))


@slow_but_floats
def test_all_lanes_but_one_are_loaded(dtype: str) -> None:
    """A half whose mask is true is a load of the whole half, which is stored next."""
    lanes, n = LANES[dtype], sl.var("n", dtype="int64")
    A = sl.placeholder((lanes,), dtype, name="A")
    B = sl.compute((lanes,), lambda j: sl.if_then_else((n == 5) & (j == 0), 0, A[j]), name="B")
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[0])
    f = sl.build(s, [n, A, B])
    a = np.arange(1, lanes + 1).astype(dtype)
    np.testing.assert_array_equal(f(4, a), a)
    np.testing.assert_array_equal(f(5, a), [0, *a[1:]])


@slow_but_floats
def test_all_lanes_but_one_are_stored(dtype: str) -> None:
    lanes, rows, row = LANES[dtype], 7, 5
    A = sl.placeholder((rows, lanes), dtype, name="A")
    B = sl.compute((rows, lanes), lambda i, j: A[i, j], name="B")
    s = sl.schedule(B)
    i, j = B.op.axis
    s[B].vectorize(j)
    s[B].set_store_predicate((i != row) | (j != 0))
    f = sl.build(s)
    assert "vstore_masked(" in f.source
    a = np.arange(1, rows * lanes + 1).reshape(rows, lanes).astype(dtype)
    b, expected = np.zeros_like(a), a.copy()
    expected[row, 0] = 0
    f(a, b)
    np.testing.assert_array_equal(b, expected)


@pytest.mark.parametrize("compiler", ["llvm", pytest.param("numba", marks=pytest.mark.slow)])
@slow_but_floats
def test_one_lane_is_of_another_array(dtype: str, compiler: str) -> None:
    """A half whose mask is false has the lanes of the first array."""
    lanes, rows, row, column = LANES[dtype], 20, 7, 5
    A = sl.placeholder((rows, lanes), dtype, name="A")
    R = sl.placeholder((lanes,), dtype, name="R")
    B = sl.compute(
        (rows, lanes),
        lambda i, j: sl.if_then_else((i == row) & (j == column), R[j], A[i, j]), name="B",
    )  # fmt: skip
    s = sl.schedule(B)
    s[B].vectorize(B.op.axis[1])
    f = sl.build(s, [A, R, B], compiler=compiler)
    a = np.arange(rows * lanes).reshape(rows, lanes).astype(dtype)
    r = (100 + np.arange(lanes)).astype(dtype)
    expected = a.copy()
    expected[row, column] = r[column]
    np.testing.assert_array_equal(f(a, r), expected)
