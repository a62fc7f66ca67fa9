"""Tests of calls of ``reference``: arguments, refusals, scans."""

from __future__ import annotations

import numpy as np
import pytest

from schedlang.compute import compute, placeholder, var
from schedlang.compute import math as m
from schedlang.compute import reduce as r
from schedlang.compute.reference import reference
from schedlang.compute.scan import scan
from schedlang.errors import (
    BoundsError,
    CallError,
    CallTypeError,
    ComputeError,
    ComputeTypeError,
    UnprovenWarning,
)

RNG = np.random.default_rng(11)


def random(shape: tuple[int, ...]) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


# sizes and scalars


def test_symbolic_sizes_are_found_from_shapes():
    n, k_ = var("n"), var("k")
    A, B = placeholder((n, 2 * k_ + 1), name="A"), placeholder((n + k_,), name="B")
    C = compute((n,), lambda i: A[i, 2 * k_] * B[i + k_], name="C")
    a, b = random((4, 7)), random((7,))
    np.testing.assert_array_equal(reference(C)(a, b), a[:, 6] * b[3:])


def test_scalars_by_position_and_name():
    n, alpha, shift = var("n"), var("alpha", "float32"), var("shift", "int8")
    A = placeholder((n,), name="A")
    C = compute((n,), lambda i: A[i] * alpha + shift, name="C")
    a = random((5,))
    expected = a * np.float32(0.1) + np.float32(-3)
    oracle = reference(C)
    np.testing.assert_array_equal(oracle(a, 0.1, -3), expected)
    np.testing.assert_array_equal(oracle(A=a, alpha=0.1, shift=np.int64(-3)), expected)
    assert repr(oracle) == "reference(C)(A, n, alpha, shift)"


def test_size_that_no_shape_determines():
    n, h = var("n"), var("h")
    A = placeholder((n + h,), name="A")
    C = compute((n,), lambda i: A[i] + A[i + h], name="C")
    a = random((6,))
    np.testing.assert_array_equal(reference(C)(a, h=2), a[:4] + a[2:])
    np.testing.assert_array_equal(reference(C)(a, 4), a[:4] + a[2:])
    with pytest.raises(CallTypeError, match=r"size n is not given, and the shape of no argument"):
        reference(C)(a)


def call_failures():
    n = var("n")
    A, B = placeholder((n, 3), name="A"), placeholder((n,), "int32", name="B")
    C = compute((n,), lambda i: A[i, 0] * B[i], name="C")
    S = compute((3,), lambda i: A[0, i] * var("alpha", "int8"), name="S")
    a, b = np.ones((4, 3), "float32"), np.ones(4, "int32")
    return [
        (
            C,
            (a,),
            {},
            CallTypeError,
            r"B is not given: pass 2 arrays, A: float32\[n, 3\]",
        ),
        (C, (a, b, a), {}, CallTypeError, "3 arguments were given, but at most 2 are taken"),
        (C, (a.astype("float64"), b), {}, CallTypeError, "A is float32, got float64: convert it"),
        (C, (a, b[None]), {}, CallError, r"B has shape \(n,\), of 1 dimension, got .* shape \(1, "
                                         r"4\)"),
        (C, (a[:, :2], b), {}, CallError, r"A has shape \(n, 3\) = \(4, 3\), got .*\(4, 2\)"),
        (C, (a, b[:2]), {}, CallError, r"B has shape \(n,\) = \(4,\), got .*\(2,\)"),
        (C, (a, b), {"B": b}, CallTypeError, "B is given twice"),
        (C, (a, b), {"D": b}, CallTypeError, "D= names no argument"),
        (C, (a, b), {"n": 5}, CallError, r"A has shape \(n, 3\) = \(5, 3\)"),
        (S, (a, 200), {}, CallError, "alpha is 200, but int8 holds -128..127"),
        (S, (a, 1.5), {}, CallTypeError, "alpha is a scalar of int8, got 1.5"),
        (S, (a, "x"), {}, CallTypeError, "alpha is a scalar of int8, got 'x'"),
        (S, (a, [1, [2]]), {}, CallTypeError, "alpha is a scalar"),
        (S, (a,), {}, CallTypeError, "scalar alpha is not given"),
    ]


@pytest.mark.parametrize("case", range(14))
def test_wrong_calls(case):
    tensor, args, named, error, message = call_failures()[case]
    with pytest.raises(error, match=message):
        reference(tensor)(*args, **named)


def test_equal_names_are_given_by_position():
    A, B = placeholder((2,), name="A"), placeholder((2,), name="A")
    C = compute((2,), lambda i: A[i] - B[i], name="C")
    one, two = np.ones(2, "float32"), np.full(2, 2, "float32")
    np.testing.assert_array_equal(reference(C)(one, two), one - two)
    with pytest.raises(CallTypeError, match="several placeholders are named A"):
        reference(C)(A=one)


def test_reference_needs_tensors():
    with pytest.raises(ComputeTypeError, match="it takes tensors made by sl.compute or sl.scan"):
        reference([])
    with pytest.raises(ComputeTypeError, match=r"sl\.reference\(int\): it takes tensors"):
        reference([3])
    with pytest.raises(ComputeTypeError, match=r"reference\(ndarray\): it takes tensors made"):
        reference(np.ones((2, 3)))


def test_arrays_beside_the_tensor_go_to_the_function():
    A = placeholder((2,), name="A")
    B = compute((2,), lambda i: A[i] * 2, name="B")
    for args in ((np.ones(2), B), (B, np.ones(2))):
        with pytest.raises(
            ComputeTypeError, match=r"returns a function of arrays\n  Write sl\.reference\(B\)\("
        ):
            reference(*args)
    with pytest.raises(ComputeTypeError, match=r"Write sl\.reference\(\[A, B\]\)\(\*arrays\)"):
        reference(A, B)


def test_arrays_in_another_order_are_told_the_order():
    A, B = placeholder((4, 3), name="A"), placeholder((3,), name="B")
    C = compute((4, 3), lambda i, j: A[i, j] + B[j], name="C")
    a, b = np.ones((4, 3), "float32"), np.ones(3, "float32")
    with pytest.raises(CallError, match=r"fit in another order: it takes A, B, in that order"):
        reference(C)(b, a)
    with pytest.raises(CallError) as caught:
        reference(C)(a, b[:2])
    assert "another order" not in str(caught.value)


def test_extents_that_become_negative():
    n = var("n")
    A = placeholder((n,), name="A")
    C = compute((n - 3,), lambda i: A[i] + A[i + 3], name="C")
    with pytest.raises(CallError, match=r"C of shape .* would have the extents \[-1\]"):
        reference(C)(random((2,)))


# scans


def test_scan_of_one_state():
    n = var("n")
    X, S = placeholder((n, 4), name="X"), placeholder((n, 4), name="S")
    first = compute((1, 4), lambda _, i: X[0, i], name="first")
    step = compute((n, 4), lambda t, i: S[t - 1, i] + X[t, i], name="step")
    x = random((6, 4))
    expected = x.copy()
    for t in range(1, 6):
        expected[t] = expected[t - 1] + x[t]
    np.testing.assert_array_equal(reference(scan(first, step, S))(x), expected)
    np.testing.assert_array_equal(reference(scan(first, step, S))(x[:1]), x[:1])


def test_scan_of_two_states_with_a_stage_between():
    T, H = 7, 3
    U, W = placeholder((H, H), name="U"), placeholder((H, H), name="W")
    X = placeholder((T, H), name="X")
    h, c = placeholder((T, H), name="h"), placeholder((T, H), name="c")
    k, q = r.reduce_axis(H, name="k"), r.reduce_axis(H, name="q")
    h0 = compute((2, H), lambda t, i: 0.0 * X[t, i], name="h0")
    c0 = compute((2, H), lambda t, i: X[t, i], name="c0")
    mixed = compute((T, H), lambda t, i: r.sum(U[i, k] * h[t - 1, k], axis=k), name="mixed")
    gate = compute((T, H), lambda t, i: r.sum(W[i, q] * c[t - 2, q], axis=q), name="gate")
    h1 = compute((T, H), lambda t, i: m.tanh(mixed[t, i] + gate[t, i] + X[t, i]), name="h1")
    c1 = compute((T, H), lambda t, i: c[t - 1, i] * 0.5 + mixed[t, i], name="c1")
    hs, cs = scan([h0, c0], [h1, c1], [h, c], name="cell")
    after = compute((H,), lambda i: hs[T - 1, i] - cs[T - 1, i], name="after")
    oracle = reference([hs, cs, after])
    assert {t.name for t in oracle.inputs} == {"U", "W", "X"}
    x, u, w = random((T, H)), random((H, H)), random((H, H))
    eh, ec = np.zeros((T, H)), np.zeros((T, H))
    ec[:2] = x[:2]
    for t in range(2, T):
        eh[t] = np.tanh(u @ eh[t - 1] + w @ ec[t - 2] + x[t])
        ec[t] = ec[t - 1] * 0.5 + u @ eh[t - 1]
    got_h, got_c, got_after = oracle(X=x, U=u, W=w)
    np.testing.assert_allclose(got_h, eh, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got_c, ec, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got_after, eh[-1] - ec[-1], rtol=1e-4, atol=1e-5)


def test_scan_that_reads_later_rows_is_refused():
    S, X = placeholder((5,), name="S"), placeholder((5,), "int64", name="X")
    first = compute((1,), lambda t: 1.0 * X[t].astype("float32"), name="first")
    step = compute((5,), lambda t: S[X[t]] + 1, name="step")
    with pytest.warns(UnprovenWarning, match="step reads only rows before row t"):
        out = scan(first, step, S, name="chase")
    x = np.array([0, 0, 1, 0, 3])
    np.testing.assert_array_equal(reference(out)(x), [0, 1, 2, 1, 2])
    with pytest.raises(BoundsError, match="step reads S.*index 0 is 2, but S of shape"):
        reference(out)(np.array([0, 0, 2, 0, 3]))


def test_scan_parts_do_not_leave_it():
    S, X = placeholder((5,), name="S"), placeholder((5,), name="X")
    first = compute((1,), lambda t: X[t], name="first")
    step = compute((5,), lambda t: S[t - 1] + X[t], name="step")
    out = scan(first, step, S, name="total")
    leak = compute((5,), lambda t: step[t] + out[t], name="leak")
    state = compute((5,), lambda t: S[t] + out[t], name="state")
    for tensor in (leak, state):
        with pytest.raises(ComputeError, match="exist only inside scan total"):
            reference(tensor)
    other = compute((5,), lambda t: m.if_then_else(t > 1, S[t - 1], 0), name="other")
    late = compute((5,), lambda t: m.if_then_else(t > 1, other[t - 1], X[t]), name="late")
    with pytest.raises(ComputeError, match="exists only for the row that is being computed"):
        reference(scan(first, late, S, name="skewed"))
