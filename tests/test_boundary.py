"""Tests of ``sl.pad`` against ``numpy.pad``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedlang.compute import compute, placeholder, var
from schedlang.compute import reduce as r
from schedlang.compute.boundary import MODES, pad
from schedlang.compute.bounds import check_reads
from schedlang.compute.read import reads
from schedlang.compute.reference import reference
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin


def grid(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape)), dtype="int32").reshape(shape)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("before", [(0, 0), (1, 0), (4, 3)])
@pytest.mark.parametrize("after", [(0, 0), (0, 2), (4, 3)])
def test_modes_are_numpys(mode, before, after):
    a = grid(5, 4)
    P = pad(placeholder((5, 4), "int32", name="A"), before, after, mode)
    check_reads(P.op, late=True)
    assert P.dtype == "int32" and P.name == f"A.{mode}"
    np.testing.assert_array_equal(reference(P)(a), np.pad(a, tuple(zip(before, after)), mode))


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_reads_are_provably_inside(mode):
    A = placeholder((5, 4), name="A")
    ranges = Ranges()
    for before, after in (((2, 0), (1, 3)), ((0, 3), (4, 0)), ((4, 3), (4, 3))):
        for read in reads(pad(A, before, after, mode).op.roots):
            for index, extent in zip(read.indices, A.shape):
                lin = to_lin(index, ranges=ranges)
                assert ranges.nonneg(lin) and ranges.nonneg(to_lin(extent) - 1 - lin)


def test_pads_larger_than_the_extent():
    a = grid(3)
    A = placeholder((3,), "int32", name="A")
    for mode in ("constant", "edge", "wrap"):
        np.testing.assert_array_equal(reference(pad(A, 8, 10, mode))(a), np.pad(a, (8, 10), mode))


@pytest.mark.parametrize("mode", MODES)
def test_symbolic_extent(mode):
    n = var("n")
    A = placeholder((n, 4), "int32", name="A")
    P = pad(A, (2, 1), (3, 0), mode)
    check_reads(P.op, late=True)
    for rows in (4, 9):
        a = grid(rows, 4)
        np.testing.assert_array_equal(reference(P)(a), np.pad(a, ((2, 3), (1, 0)), mode))


@pytest.mark.parametrize("mode", MODES)
def test_symbolic_widths(mode):
    p, q = var("p"), var("q")
    A = placeholder((6,), "int32", name="A")
    P = pad(A, p, q, mode)
    check_reads(P.op, late=True)
    for before, after in ((0, 0), (2, 5), (5, 1)):
        expected = np.pad(grid(6), (before, after), mode)
        np.testing.assert_array_equal(reference(P)(grid(6), before, after), expected)


def test_constant_values():
    A, alpha = placeholder((2,), name="A"), var("alpha", "float32")
    a = np.ones(2, "float32")
    for value in (-1.5, np.inf, np.float64(0.25), 3):
        expected = np.pad(a, 1, constant_values=value)
        np.testing.assert_array_equal(reference(pad(A, 1, value=value))(a), expected)
    np.testing.assert_array_equal(reference(pad(A, 1, value=alpha))(a, 7), [7, 1, 1, 7])
    B = placeholder((2,), "bool", name="B")
    found = reference(pad(B, 1, value=True))(np.zeros(2, bool))
    np.testing.assert_array_equal(found, [True, False, False, True])


def test_one_width_for_all_and_after_like_before():
    A = placeholder((3, 3, 3), "int32", name="A")
    np.testing.assert_array_equal(reference(pad(A, 2, mode="edge"))(grid(3, 3, 3)),
                                  np.pad(grid(3, 3, 3), 2, "edge"))  # fmt: skip
    assert pad(A, (0, 1, 2)).shape == (3, 5, 7)
    assert pad(A, 0, mode="wrap", name="copy").name == "copy"


def test_empty_and_zero_dimensional():
    A, Z = placeholder((0, 2), name="A"), placeholder((), name="Z")
    a = np.empty((0, 2), "float32")
    found = reference(pad(A, (2, 1)))(a)
    np.testing.assert_array_equal(found, np.pad(a, ((2, 2), (1, 1))))
    np.testing.assert_array_equal(reference(pad(A, (0, 1), mode="edge"))(a), np.empty((0, 4)))
    assert reference(pad(Z, ()))(np.float32(3)) == 3


def test_padding_of_a_stage_that_is_read_by_another():
    A = placeholder((6,), name="A")
    D = compute((6,), lambda i: A[i] * 2, name="D")
    P = pad(D, 1, mode="reflect")
    k = r.reduce_axis(3, name="k")
    C = compute((6,), lambda i: r.sum(P[i + k], axis=k), name="C")
    a = np.arange(6, dtype="float32")
    expected = np.convolve(np.pad(a * 2, 1, "reflect"), np.ones(3), "valid")
    np.testing.assert_array_equal(reference(C)(a), expected.astype("float32"))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(MODES), st.data())
def test_random_pads(mode, data):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    widest = [n - 1 if mode == "reflect" else 7 for n in shape]
    before, after = ([data.draw(st.integers(0, w)) for w in widest] for _ in range(2))
    P = pad(placeholder(tuple(shape), "int32", name="A"), before, after, mode)
    check_reads(P.op, late=True)
    expected = np.pad(grid(*shape), tuple(zip(before, after)), mode)
    np.testing.assert_array_equal(reference(P)(grid(*shape)), expected)


n = var("n")
A = placeholder((4, 3), name="A")
E = placeholder((0,), name="E")
REFUSALS = {
    "no tensor": (lambda: pad(3, 1), ComputeTypeError, "is not a tensor; give one made by"),
    "mode": (
        lambda: pad(A, 1, mode="mirror"), ComputeError, "is not a mode; choose one of constant, "
                                                        "edge, reflect"),
    "count": (lambda: pad(A, (1, 2, 3)), ComputeError, r"before has 3 widths, but A has 2 "
                                                       r"dimensions"),
    "after count": (lambda: pad(A, 1, (1,)), ComputeError, "after has 1"),
    "NumPy's pairs": (
        lambda: pad(A, ((1, 2), (3, 4))), ComputeTypeError,
        r"not as pairs; write pad\(A, before=\(1, 3\), after=\(2, 4\)\)"),
    "negative": (
        lambda: pad(A, (1, -1)), ComputeError, r"before\[1\] is -1, but an extent must be 0 or "
                                               r"more"),
    "float width": (lambda: pad(A, 1.5), ComputeTypeError, "an extent must be an integer"),
    "reflect too far": (lambda: pad(A, 3, mode="reflect"), ComputeError,
                        "a width of 3 needs 4 elements to reflect, but dimension 1 .* has 3"),
    "reflect too far after": (
        lambda: pad(A, 0, (4, 0), "reflect"), ComputeError, "dimension 0 .* has 4"),
    "edge of nothing": (lambda: pad(E, 1, mode="edge"), ComputeError, "dimension 0 is empty"),
    "wrap of nothing": (lambda: pad(E, n, mode="wrap"), ComputeError, "no element to pad with"),
    "value": (
        lambda: pad(placeholder((2,), "int8"), 1, value=300), ComputeTypeError, "300 does not fit"),
    "fraction": (
        lambda: pad(placeholder((2,), "int8"), 1, value=0.5), ComputeTypeError, "0.5 is not a "
                                                                                "value of int8"),
    "value of a mode that has its own": (
        lambda: pad(A, 1, mode="edge", value=3), ComputeError,
        "mode='edge', value=3.: this mode pads with elements of A; leave out value=, or use mode="),
    "value text": (
        lambda: pad(A, 1, value="a"), ComputeTypeError,
        r"pad\(A, value=...\): str 'a' is not a number of"),
    "value list": (
        lambda: pad(A, 1, value=[1]), ComputeTypeError, r"list \[1\] is not a number of"),
    "value too large": (
        lambda: pad(placeholder((2,)), 1, value=10**400), ComputeTypeError,
        "an integer of 1329 bits does not fit float32"),
    "value dtype": (lambda: pad(A, 1, value=var("x", "float64")), ComputeTypeError,
                    "the value is float64, but A is float32; cast it with"),
    "value tensor": (lambda: pad(A, 1, value=A), ComputeTypeError, "is used where an element"),
    "name": (lambda: pad(A, 1, name="a b"), ComputeError, "cannot name a tensor"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_refusal(case):
    build, error, message = REFUSALS[case]
    with pytest.raises(error, match=message):
        build()


def test_an_empty_symbolic_extent_is_refused_at_the_call():
    P = pad(placeholder((n,), "int32", name="N"), 1, mode="edge")
    with pytest.raises(BoundsError, match="N of shape .* has extent 0 there"):
        reference(P)(np.empty(0, "int32"))
