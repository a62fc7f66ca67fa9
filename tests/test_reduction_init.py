"""Tests of ``init=`` that reads tensors, which every schedule adds once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import from_data, to_data
from schedlang.errors import ComputeError, LoweringError
from schedlang.ir.interpret import interpret
from schedlang.ir.verify import verify
from schedlang.target import Target

GPU = Target("cuda", arch="sm_80")
M, N, K = 6, 20, 13


def dense(bias_stage: bool = False) -> Any:
    """Return a product that starts from a bias per column, an input or a computed stage."""
    A, B = sl.placeholder((M, K), name="A"), sl.placeholder((K, N), name="B")
    b, k = sl.placeholder((N,), name="b"), sl.reduce_axis(K, name="k")
    bias = sl.compute((N,), lambda j: b[j] * 2, name="bias") if bias_stage else b
    C = sl.compute((M, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k, init=bias[j]), name="C")
    return C, bias


def values() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-4, 5, shape).astype("float32") for shape in ((M, K), (K, N), (N,))]


def expected(bias_stage: bool = False) -> np.ndarray:
    a, b, bias = values()
    return a @ b + bias * (2 if bias_stage else 1)


def plain(s: Any, C: Any, bias: Any) -> None:
    pass


def tiles(s: Any, C: Any, bias: Any) -> None:
    i, j = C.op.axis
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
    jo, ji = s[C].split(j, factor=8)
    s[C].reorder(jo, ko, i, ki, ji)
    s[C].vectorize(ji)
    s[C].parallel(jo)


def rfactor(s: Any, C: Any, bias: Any) -> None:
    CF = s.rfactor(C, s[C].split(C.op.reduce_axis[0], factor=4)[1])
    s[CF].reorder(*CF.op.axis[1:], *s[CF].op.reduce_axis, CF.op.axis[0])
    s[CF].vectorize(CF.op.axis[0])
    s[CF].compute_at(s[C], C.op.axis[0])


def rfactor_all(s: Any, C: Any, bias: Any) -> None:
    s.rfactor(C, C.op.reduce_axis[0], 1)


def cache_write(s: Any, C: Any, bias: Any) -> None:
    CL = s.cache_write(C, "local")
    jo, ji = s[C].split(C.op.axis[1], factor=8)
    s[C].vectorize(ji)
    s[CL].compute_at(s[C], jo)
    k = s[CL].op.reduce_axis[0]
    s[CL].reorder(k, *s[CL].op.axis)
    s[CL].vectorize(s[CL].op.axis[1])


def cache_read(s: Any, C: Any, bias: Any) -> None:
    copied = s.cache_read(bias, "local", [C])
    jo, ji = s[C].split(C.op.axis[1], factor=8)
    s[C].reorder(jo, C.op.axis[0], C.op.reduce_axis[0], ji)
    s[copied].compute_at(s[C], C.op.axis[0])


def tail_cut(s: Any, C: Any, bias: Any) -> None:
    s[C].split(C.op.axis[1], factor=8, tail="cut")
    s[C].split(C.op.reduce_axis[0], factor=4, tail="cut")


STEPS = [plain, tiles, rfactor, rfactor_all, cache_write, cache_read, tail_cut]


@pytest.mark.parametrize("bias_stage", [False, True])
@pytest.mark.parametrize("steps", STEPS)
def test_the_init_is_added_once(steps: Any, bias_stage: bool) -> None:
    C, bias = dense(bias_stage)
    s = sl.schedule(C)
    steps(s, C, bias)
    nest = sl.lower(s)
    verify(nest)
    np.testing.assert_array_equal(sl.build(s, target="python")(*values()), expected(bias_stage))
    np.testing.assert_array_equal(interpret(nest, values()).outputs[0], expected(bias_stage))
    np.testing.assert_array_equal(sl.reference(C)(*values()), expected(bias_stage))


def threads(s: Any, C: Any, bias: Any) -> None:
    s[C].bind(C.op.axis[0], "blockIdx.x")
    s[C].bind(C.op.axis[1], "threadIdx.x")


def across(s: Any, C: Any, bias: Any) -> None:
    s[C].bind(s[C].fuse(*C.op.axis), "blockIdx.x")
    s[C].bind(s[C].split(C.op.reduce_axis[0], factor=4)[1], "threadIdx.x")


def across_many(s: Any, C: Any, bias: Any) -> None:
    s[C].bind(C.op.axis[0], "blockIdx.x")
    s[C].bind(C.op.axis[1], "threadIdx.y")
    s[C].bind(C.op.reduce_axis[0], "threadIdx.x")


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("steps", [threads, across, across_many])
def test_on_a_gpu(steps: Any, shared: bool) -> None:
    C, bias = dense()
    s = sl.schedule(C)
    copied = s.cache_read(bias, "shared", [C]) if shared else None
    steps(s, C, bias)
    if copied is not None:
        s[copied].compute_at(s[C], s[C].leaf_axes[0])
    f = sl.build(s, target=GPU)
    np.testing.assert_array_equal(f.simulate(*values()), expected())
    np.testing.assert_array_equal(f.check(*values()), expected())


def test_compiled() -> None:
    C, bias = dense()
    s = sl.schedule(C)
    tiles(s, C, bias)
    np.testing.assert_array_equal(sl.build(s)(*values()), expected())


def test_an_inlined_and_an_attached_init() -> None:
    C, bias = dense(bias_stage=True)
    s = sl.schedule(C)
    s[bias].compute_inline()
    np.testing.assert_array_equal(sl.build(s, target="python")(*values()), expected(True))
    s = sl.schedule(C)
    s[bias].compute_at(s[C], C.op.axis[1])
    assert "bias: float32[1]" in str(s) or "bias[0]" in str(s)
    np.testing.assert_array_equal(sl.build(s, target="python")(*values()), expected(True))


def test_an_init_inside_the_reduction_is_refused() -> None:
    """The init cannot be attached inside the reduction, which has already started there."""
    C, bias = dense(bias_stage=True)
    s = sl.schedule(C)
    s[C].reorder(C.op.reduce_axis[0], *C.op.axis)
    s[bias].compute_at(s[C], C.op.axis[1])
    with pytest.raises(LoweringError, match=r"initializes its reduction from bias \(init=\) "
                                            r"before"):
        sl.build(s, target="python")
    assert "initializes its reduction" in str(s)


def test_inits_of_pairs_by_gathers_and_conditions() -> None:
    X, where = sl.placeholder((4, 9), name="X"), sl.placeholder((4,), "int32", name="where")
    low, k = sl.placeholder((7,), name="low"), sl.reduce_axis(9, name="k")
    both = sl.comm_reducer(
        lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])), lambda t, u: (0, -np.inf), "both"
    )
    C = sl.compute(
        (4,), lambda i: both((X[i, k], X[i, k]), axis=k, init=(low[where[i]], low[i] + 1)), "C"
    )
    rng = np.random.default_rng(1)
    x, w = rng.integers(-9, 9, (4, 9)).astype("float32"), np.array([6, 0, 3, 3], "int32")
    lows = rng.integers(-9, 9, 7).astype("float32")
    wanted = (x.sum(1) + lows[w], np.maximum(x.max(1), lows[:4] + 1))
    for T in (list(C), list(from_data(to_data(list(C))))):
        s = sl.schedule(T)
        s.rfactor(T, s[T].split(T[0].op.reduce_axis[0], factor=2)[1])
        again = sl.Schedule.from_json(s.to_json(), T)
        for made in (sl.reference(T), sl.build(again, target="python")):
            for got, want in zip(made(X=x, where=w, low=lows), wanted):
                np.testing.assert_array_equal(got, want)


def test_a_scan_with_its_state_as_the_init() -> None:
    S, W = sl.placeholder((5, 3), name="S"), sl.placeholder((3, 3), name="W")
    X, k = sl.placeholder((5, 3), name="X"), sl.reduce_axis(3, name="k")
    first = sl.compute((1, 3), lambda _, i: X[0, i], name="first")
    step = sl.compute(
        (5, 3), lambda t, i: sl.sum(W[i, k] * X[t, k], axis=k, init=S[t - 1, i]), name="step"
    )
    R = sl.scan(first, step, S, inputs=[X, W], name="R")
    rng = np.random.default_rng(2)
    x, w = (rng.integers(-3, 4, n).astype("float32") for n in ((5, 3), (3, 3)))
    rows = [x[0]]
    for t in range(1, 5):
        rows.append(rows[-1] + w @ x[t])
    np.testing.assert_array_equal(sl.reference(R)(X=x, W=w), rows)
    np.testing.assert_array_equal(sl.build(sl.schedule(R), target="python")(X=x, W=w), rows)


def test_invalid_inits_are_refused() -> None:
    A, k = sl.placeholder((4, 4), name="A"), sl.reduce_axis(4, name="k")
    with pytest.raises(ComputeError, match="init= uses k, but may use only data axes"):
        sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k, init=A[i, k]), name="C")
    with pytest.raises(sl.errors.BoundsError, match="index 0 takes the values 1..4"):
        sl.compute((4,), lambda i: sl.sum(A[i, k], axis=k, init=A[i + 1, 0]), name="C")
