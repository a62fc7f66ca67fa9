"""Intermediate tensors as arguments are computed whole and once, or refused with advice."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.errors import LoweringError


def doubled(size, wide):
    """Return ``C = B + 1`` over ``size`` of the ``wide`` elements ``B = A * 2``, attached in C."""
    A = sl.placeholder((wide,), name="A")
    B = sl.compute((wide,), lambda i: A[i] * 2, name="B")
    C = sl.compute((size,), lambda i: B[i] + 1, name="C")
    s = sl.schedule(C)
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[B].compute_at(s[C], outer)
    return s, [A, B, C], inner


@pytest.mark.parametrize("n", [20, 200_000, sl.var("n")])
def test_a_part_of_an_argument_is_refused(n):
    s, args, _ = doubled(n, n * 2)
    with pytest.raises(LoweringError, match=r"compute_at\(C, i.outer\) on stage B: B is an arg"):
        sl.build(s, args)
    assert "# compute_at(C, i.outer) on stage B: B is an argument" in str(s.nest(args))
    # if B is not an argument, a part of it is enough
    sl.lower(s, [args[0], args[2]])


def test_the_copy_that_the_refusal_advises():
    n = sl.var("n")
    s, (A, B, C), _ = doubled(n, n * 2)
    with pytest.raises(LoweringError, match=r"T = s.cache_read\(B, 'local'"):
        sl.lower(s, [A, B, C])
    outer = s[C].leaf_axes[0]
    T = s.cache_read(B, "local", [C])
    s[B].compute_root()
    s[T].compute_at(s[C], outer)
    f = sl.build(s, [A, B, C], target="python")
    for size in (0, 1, 8, 21):
        a = np.random.default_rng(0).standard_normal(size * 2, "float32")
        b, c = f(a, np.empty(size * 2, "float32"), np.empty(size, "float32"))
        np.testing.assert_array_equal(b, a * 2)
        np.testing.assert_array_equal(c, a[:size] * 2 + 1)


@pytest.mark.parametrize("n", [24, 20, 200_000, sl.var("n")])
@pytest.mark.parametrize("parallel", [False, True])
def test_boxes_that_partition_the_tensor_are_accepted(n, parallel):
    s, args, _ = doubled(n, n)
    if parallel:
        s[args[2]].parallel(s[args[2]].leaf_axes[0])
    f = sl.build(s, args, target="python")
    if not isinstance(n, int) or n < 100:
        a = np.arange(n if isinstance(n, int) else 20, dtype="float32")
        b, c = f(a)
        np.testing.assert_array_equal(b, a * 2)
        np.testing.assert_array_equal(c, a * 2 + 1)


@pytest.mark.parametrize("n", [64, sl.var("n")])
def test_overlapping_boxes_of_a_sum_would_race(n):
    A, k = sl.placeholder((n + 64, 16), name="A"), sl.reduce_axis(16, name="k")
    B = sl.compute((n + 64,), lambda i: sl.sum(A[i, k], axis=k), name="B")
    C = sl.compute((n,), lambda i: B[i] + B[i + 64], name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(C.op.axis[0], factor=8)
    s[C].parallel(outer)
    s[B].compute_at(s[C], outer)
    s[B].reorder(k, B.op.axis[0])
    with pytest.raises(LoweringError, match="elements must be computed exactly once"):
        sl.build(s, [A, B, C])


def test_one_element_computed_in_every_iteration_is_refused():
    A = sl.placeholder((), name="A")
    B = sl.compute((), lambda: A[()] * 2, name="B")
    C = sl.compute((2,), lambda i: B[()] + 1, name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(LoweringError, match=r"B\[\] is finalised 2 times"):
        sl.lower(s, [A, B, C])


def test_a_store_predicate_does_not_prevent_the_refusal():
    A = sl.placeholder((6,), name="A")
    B = sl.compute((6,), lambda i: A[i] * 2, name="B")
    C = sl.compute((4,), lambda i: B[i] + B[i + 2], name="C")
    s = sl.schedule(C)
    s[B].set_store_predicate(B.op.axis[0] >= 0)
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(LoweringError, match="B is an argument"):
        sl.lower(s, [A, B, C])


def test_a_sliding_window_writes_each_element_once():
    A = sl.placeholder((12,), name="A")
    B = sl.compute((12,), lambda i: A[i] * 2, name="B")
    C = sl.compute((10,), lambda i: B[i] + B[i + 2], name="C")
    s = sl.schedule(C)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].store_root()
    a = np.arange(12, dtype="float32")
    b, c = sl.build(s, [A, B, C], target="python")(a)
    np.testing.assert_array_equal(b, a * 2)
    np.testing.assert_array_equal(c, a[:10] * 2 + a[2:] * 2)


def test_one_of_two_outputs():
    A = sl.placeholder((20,), name="A")
    P, Q = sl.compute((20,), lambda i: (A[i] * 2, A[i] + 1), name="P")
    C = sl.compute((10,), lambda i: Q[i], name="C")
    s = sl.schedule(C)
    s[P].compute_at(s[C], C.op.axis[0])
    with pytest.raises(LoweringError, match="the argument P.v0 must be computed whole, but P.v1"):
        sl.lower(s, [A, P, C])
    s[P].compute_root()
    a = np.arange(20, dtype="float32")
    p, c = sl.build(s, [A, P, C], target="python")(a)
    np.testing.assert_array_equal(p, a * 2)
    np.testing.assert_array_equal(c, a[:10] + 1)


def test_stages_of_rfactor_and_cache_write():
    A, k = sl.placeholder((8, 16), name="A"), sl.reduce_axis(16, name="k")
    C = sl.compute((8,), lambda i: sl.sum(A[i, k], axis=k), name="C")
    s = sl.schedule(C)
    _, ki = s[C].split(k, factor=4)
    R = s.rfactor(C, ki)
    W = s.cache_write(R, "local")
    s[W].compute_at(s[R], R.op.axis[0])
    s[R].compute_at(s[C], C.op.axis[0])
    a = np.arange(128, dtype="float32").reshape(8, 16)
    w, r, c = sl.build(s, [A, W, R, C], target="python")(a)
    np.testing.assert_array_equal(r, a.reshape(8, 4, 4).sum(1).T)
    np.testing.assert_array_equal(w, r)
    np.testing.assert_array_equal(c, a.sum(1))


def test_an_inlined_argument_reads_what_is_attached():
    A = sl.placeholder((20,), name="A")
    B = sl.compute((20,), lambda i: A[i] * 2, name="B")
    D = sl.compute((20,), lambda i: B[i] + 1, name="D")
    C = sl.compute((20,), lambda i: D[i] + 1, name="C")
    s = sl.schedule(C)
    s[D].compute_inline()
    outer, _ = s[C].split(C.op.axis[0], factor=8)
    s[B].compute_at(s[C], outer)
    with pytest.raises(LoweringError, match="D is inlined, but as an argument it is stored"):
        sl.lower(s, [A, D, C])
    s[B].compute_root()
    a = np.arange(20, dtype="float32")
    d, c = sl.build(s, [A, D, C], target="python")(a)
    np.testing.assert_array_equal(d, a * 2 + 1)
    np.testing.assert_array_equal(c, a * 2 + 2)


@pytest.mark.parametrize(("name", "inline", "match"), [
    ("init", False, "init among the arguments: init is part of scan R"),
    ("update", False, "update among the arguments: update is part of scan R"),
    ("step", False, "step among the arguments, computed in the loop of scan R"),
    ("step", True, "step among the arguments: step is inlined into a scan"),
])  # fmt: skip
def test_rows_of_a_scan(name, inline, match):
    X = sl.placeholder((6, 4), name="X")
    state = sl.placeholder((6, 4), name="state")
    init = sl.compute((1, 4), lambda t, j: X[0, j], name="init")
    step = sl.compute((6, 4), lambda t, j: state[t - 1, j] * 2, name="step")
    update = sl.compute((6, 4), lambda t, j: step[t, j] + X[t, j], name="update")
    R = sl.scan(init, update, state, inputs=[X], name="R")
    s = sl.schedule(R)
    if inline:
        s[step].compute_inline()
    with pytest.raises(LoweringError, match=match):
        sl.lower(s, [X, {"init": init, "update": update, "step": step}[name], R])


def test_threads_that_each_compute_a_part():
    n = 64
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i] * 2, name="B")
    C = sl.compute((n,), lambda i: B[i] + 1, name="C")
    s = sl.schedule(C)
    block, thread = s[C].split(C.op.axis[0], factor=16)
    s[C].bind(block, "blockIdx.x")
    s[C].bind(thread, "threadIdx.x")
    s[B].compute_at(s[C], thread)
    a = np.arange(n, dtype="float32")
    b, c = sl.build(s, [A, B, C], target="cuda-emulator")(a)
    np.testing.assert_array_equal(b, a * 2)
    np.testing.assert_array_equal(c, a * 2 + 1)


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_an_argument_is_not_rounded_up(scope):
    A = sl.placeholder((3, 16), name="A")
    B = sl.compute((3, 6), lambda i, j: A[i, j] * 2, name="B")
    k = sl.reduce_axis(6, name="k")
    C = sl.compute((3,), lambda i: sl.sum(B[2 - i, k] * B[i, i + 1], axis=k), name="C")
    s = sl.schedule(C)
    outer, _ = s[C].split(k, factor=5, tail="cut")
    s[B].compute_at(s[C], outer)
    s[B].set_scope(scope)
    # the second box of B begins at i + 1 and ends past the last column; a private tile may
    assert "if " not in str(s)
    with pytest.raises(LoweringError, match=r"B is an argument.*finalised \d times"):
        sl.lower(s, [A, B, C])


def test_a_store_predicate_that_leaves_elements_out_is_refused():
    A = sl.placeholder((8,), name="A")
    B = sl.compute((8,), lambda i: A[i] * 2, name="B")
    C = sl.compute((8,), lambda i: sl.if_then_else(i < 5, B[i], 0.0), name="C")
    s = sl.schedule(C)
    s[B].set_store_predicate(B.op.axis[0] < 5)
    f = sl.build(s, [A, C], target="python")
    np.testing.assert_array_equal(f(np.ones(8, "float32")), [2] * 5 + [0] * 3)
    told = "B among the arguments: its store predicate i < 5 leaves out elements"
    with pytest.raises(LoweringError, match=told):
        sl.build(s, [A, B, C])
