"""Tests of edge cases of arithmetic in proofs, dtypes and the oracle."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import BoundsError, ScheduleError
from schedlang.index.ranges import weak_range


@pytest.mark.parametrize("divisor", [-1, -2, -3, -8, 3])
def test_division_by_a_negative_number_rounds_down(divisor: int) -> None:
    """Kernels, bounds and proofs follow Python and NumPy."""
    i = np.arange(8)
    for body, wanted in (
        (lambda i: i // divisor, i // divisor),
        (lambda i: i % divisor, i % divisor),
        (lambda i: sl.select(i % divisor < 0, 1, 0), np.where(i % divisor < 0, 1, 0)),
        (lambda i: sl.min(-(i // divisor), 1), np.minimum(-(i // divisor), 1)),
        (lambda i: (i - 4) // divisor * divisor + (i - 4) % divisor, i - 4),
    ):
        C = sl.compute((8,), body, name="C")
        np.testing.assert_array_equal(sl.build(sl.schedule(C), target="python")(), wanted)
        np.testing.assert_array_equal(sl.reference(C)(), wanted)


def test_a_divisor_that_may_be_negative_proves_nothing() -> None:
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    with pytest.raises(BoundsError, match=r"index 0 takes the values -2\.\.0"):
        sl.compute((n,), lambda i: A[i % -3], name="E")
    i, j = (sl.reduce_axis(5, name=name) for name in "ij")
    assert weak_range(i // (j - 4)) == weak_range(i % (j - 4)) == (None, None)
    assert weak_range(i // n) == (0, None)


@pytest.mark.parametrize("op", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_unsigned_and_signed_integers_compare_by_their_values(op: str) -> None:
    """The common dtype, float64, cannot represent all of them."""
    compare = getattr(operator, op)
    A, B = sl.placeholder((4,), "uint64", name="A"), sl.placeholder((4,), "int64", name="B")
    a = np.array([2**53 + 1, 0, 5, 2**63], "uint64")
    b = np.array([2**53, -1, 5, -(2**63)], "int64")
    C = sl.compute((4,), lambda i: compare(A[i], B[i]), name="C")
    D = sl.compute((4,), lambda i: compare(B[i], A[i]), name="D")
    for target in ("python", "cpu"):
        np.testing.assert_array_equal(sl.build(sl.schedule(C), target=target)(a, b), compare(a, b))
        np.testing.assert_array_equal(sl.build(sl.schedule(D), target=target)(b, a), compare(b, a))


def test_an_index_beyond_a_dtype_is_compared_by_its_value() -> None:
    """A histogram of bytes counts nothing in bins beyond the range of a byte."""
    n, m = sl.var("n"), sl.var("m")
    X, k = sl.placeholder((m,), "uint8", name="X"), sl.reduce_axis(m, name="k")
    H = sl.compute((n,), lambda i: sl.sum(sl.cast(X[k] == i, "int32"), axis=k), name="H")
    x = np.random.default_rng(0).integers(0, 256, 99).astype("uint8")
    wanted = np.bincount(x, minlength=300)
    np.testing.assert_array_equal(sl.build(sl.schedule(H), target="python")(x, 300), wanted)
    M = sl.compute((m,), lambda j: X[j] < n, name="M")
    assert sl.build(sl.schedule(M), target="python")(x, 256).all()


def test_a_stage_that_a_scan_and_a_later_stage_read() -> None:
    X, S = sl.placeholder((5, 4), name="X"), sl.placeholder((5, 4), name="S")
    P = sl.compute((5, 4), lambda t, i: X[t, i] * 2, name="P")
    Q = sl.compute((5, 4), lambda t, i: P[t, i] + 1, name="Q")
    first = sl.compute((1, 4), lambda t, i: X[0, i], name="first")
    D = sl.compute((5, 4), lambda t, i: S[t - 1, i] + P[t, i], name="D")
    U = sl.compute((5, 4), lambda t, i: D[t, i] + Q[t, i], name="U")
    N = sl.scan(first, U, S, inputs=[X], name="N")
    x = np.arange(20, dtype="float32").reshape(5, 4)
    wanted = [x[0]]
    for moment in x[1:]:
        wanted.append(wanted[-1] + 4 * moment + 1)
    np.testing.assert_array_equal(sl.reference(N)(x), wanted)
    np.testing.assert_array_equal(sl.build(sl.schedule(N), target="python")(x), wanted)


def test_a_range_that_may_lie_below_its_start_is_not_cut() -> None:
    n = sl.var("n")
    A, k = sl.placeholder((n, 4), name="A"), sl.reduce_axis((1, n), name="k")
    B = sl.compute((4,), lambda i: sl.sum(A[0, i] * 0 + 1, axis=k), name="B")
    s = sl.schedule(B)
    s[B].split(B.op.reduce_axis[0], factor=4, tail="guard")
    np.testing.assert_array_equal(sl.build(s, target="python")(np.ones((6, 4), "float32")), [5] * 4)
    s = sl.schedule(B)
    with pytest.raises(ScheduleError, match="n - 1, may be negative"):
        s[B].split(B.op.reduce_axis[0], factor=4, tail="cut")
