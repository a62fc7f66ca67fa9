"""Tests of rules of the language: weak dtypes, truth values, positions, te's names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang import te, tir
from schedlang.errors import ComputeError, ComputeTypeError, ScheduleError
from schedlang.target import Target


def run(C: Any, *arrays: Any, target: Any = "python", s: Any = None) -> Any:
    return sl.build(s or sl.schedule(C), target=target)(*arrays)


@pytest.mark.parametrize(
    "body, dtype, value",
    [(lambda i: 0.0, "float32", 0), (lambda i: i * 0.5, "float32", [0, 0.5, 1, 1.5]),
     (lambda i: sl.select(i > 1, 1.0, 0.0), "float32", [0, 0, 1, 1]),
     (lambda i: sl.if_then_else(i > 1, sl.select(i > 2, 2, 1.5), 0), "float32", [0, 0, 1.5, 2]),
     (lambda i: np.exp(i * 0.0), "float32", 1), (lambda i: i / 2, "float32", [0, 0.5, 1, 1.5]),
     (lambda i: 3, "int64", 3), (lambda i: sl.select(i > 1, 1, 0), "int64", [0, 0, 1, 1]),
     (lambda i: np.float64(0.5), "float64", 0.5), (lambda i: sl.const(2, "int8"), "int8", 2)],
)  # fmt: skip
def test_python_floats_without_a_tensor_are_float32(body: Any, dtype: str, value: Any) -> None:
    C = sl.compute((4,), body, name="C")
    wanted = np.broadcast_to(np.array(value, dtype), 4)
    for got in (run(C), sl.reference(C)()):
        assert C.dtype == got.dtype == dtype
        np.testing.assert_array_equal(got, wanted)


def test_reductions_of_python_floats_are_float32() -> None:
    A, k = sl.placeholder((4,), name="A"), sl.reduce_axis(4, name="k")
    C = sl.compute((), lambda: sl.sum(sl.select(A[k] > 0, 1.0, 0.0), axis=k), name="C")
    assert C.dtype == "float32" and run(C, np.array([1, -1, 2, 0], "float32")) == 2
    s = sl.schedule(C)
    assert "float64" not in sl.build(s, target="python").source
    D = sl.compute((), lambda: sl.sum(1.0, axis=k, dtype="float64"), name="D")
    assert D.dtype == "float64"


@pytest.mark.parametrize("reduce, numpy", [(sl.sum, np.sum), (sl.prod, np.prod)])
def test_bools_count_in_int64(reduce: Any, numpy: Any) -> None:
    A, k = sl.placeholder((3, 5), "bool", name="A"), sl.reduce_axis(5, name="k")
    a = np.arange(15).reshape(3, 5) % 4 > 0
    C = sl.compute((3,), lambda i: reduce(A[i, k], axis=k), name="C")
    for got in (run(C, a), sl.reference(C)(a)):
        assert got.dtype == numpy(a, axis=1).dtype == "int64"
        np.testing.assert_array_equal(got, numpy(a, axis=1))
    old = sl.compute((3,), lambda i: reduce(A[i, k], axis=k, dtype="bool"), name="C")
    np.testing.assert_array_equal(run(old, a), numpy(a, axis=1) > 0)


def scheduled(C: Any, how: str) -> Any:
    s = sl.schedule(C)
    if how == "vectorize":
        s[C].vectorize(s[C].split(C.op.axis[0], factor=4)[1])
    if how == "rfactor":
        CF = s.rfactor(C, s[C].split(C.op.reduce_axis[0], factor=4)[1])
        s[CF].vectorize(CF.op.axis[0])
    if how == "threads":
        s[C].bind(C.op.axis[0], "blockIdx.x")
        s[C].bind(s[C].split(C.op.reduce_axis[0], factor=4)[1], "threadIdx.x")
    return s


@pytest.mark.parametrize("dtype", ["bool", "float32"])
@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("how", ["plain", "vectorize", "rfactor", "threads"])
def test_any_and_all_reduce(name: str, dtype: str, how: str) -> None:
    A, k = sl.placeholder((4, 10), dtype, name="A"), sl.reduce_axis(10, name="k")
    C = sl.compute((4,), lambda i: getattr(sl, name)(A[i, k], axis=k), name="C")
    W = sl.compute((4,), lambda i: getattr(sl, name)(A[i, k], k, where=k < 7), name="W")
    a = np.array([[0] * 10, [1] * 10, [0] * 9 + [1], [1] * 9 + [0]], dtype)
    target = Target("cuda", arch="sm_80") if how == "threads" else "python"
    for T, cut in ((C, a), (W, a[:, :7])):
        wanted = getattr(np, name)(cut, axis=1)
        s = scheduled(T, how)
        got = sl.build(s, target=target).simulate(a) if how == "threads" else run(T, a, s=s)
        assert got.dtype == "bool"
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(sl.reference(T)(a), wanted)


def test_any_and_all_of_empty_axes_and_of_conditions() -> None:
    k = sl.reduce_axis(0, name="k")
    A = sl.placeholder((0,), name="A")
    nothing = np.zeros(0, "float32")
    for name, wanted in (("any", False), ("all", True)):
        C = sl.compute((), lambda name=name: getattr(sl, name)(A[k], axis=k), name="C")
        assert run(C, nothing) == wanted == sl.reference(C)(nothing)
    C = sl.compute((8,), lambda i: sl.all(i > 2, i < 5), name="C")
    assert run(C).sum() == 2
    with pytest.raises(ComputeTypeError, match="takes one condition, got 2"):
        sl.all(A[k] > 0, A[k] < 1, axis=k)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_positions_where_a_condition_holds(name: str, dtype: str) -> None:
    A, M = sl.placeholder((5, 9), dtype, name="A"), sl.placeholder((5, 9), "bool", name="M")
    k = sl.reduce_axis(9, name="k")
    C = sl.compute((5,), lambda i: getattr(sl, name)(A[i, k], axis=k, where=M[i, k]), name="C")
    rng = np.random.default_rng(0)
    a, m = rng.integers(0, 4, (5, 9)).astype(dtype), rng.random((5, 9)) < 0.5
    m[3] = False
    a[0] = 0
    worst = -9 if name == "argmax" else 9
    wanted = getattr(np, name)(np.where(m, a, worst).astype(dtype), axis=1)
    wanted[3] = -1
    for how in ("plain", "vectorize", "rfactor"):
        np.testing.assert_array_equal(run(C, a, m, s=scheduled(C, how)), wanted)
    np.testing.assert_array_equal(sl.reference(C)(a, m), wanted)


def test_an_axis_that_is_listed_twice_is_named() -> None:
    A, k = sl.placeholder((4,), name="A"), sl.reduce_axis(4, name="k")
    with pytest.raises(ComputeError, match=r"sl\.sum\(\.\.\., axis=\[k, k\]\): k is given twice"):
        sl.sum(A[k], axis=[k, k])


def test_the_domain_of_an_axis() -> None:
    k = sl.reduce_axis((4, 16), name="k")
    assert k.dom == (4, 16) and k.dom.min == 4 and k.dom.extent == 12 == k.extent
    n = sl.var("n")
    A = sl.placeholder((n,), name="A")
    B = sl.compute((n,), lambda i: A[i], name="B")
    assert B.op.axis[0].dom.extent is not None and str(B.op.axis[0].dom.extent) == "n"


def test_a_list_of_tensors_is_their_stage() -> None:
    A, k = sl.placeholder((8,), name="A"), sl.reduce_axis(8, name="k")
    both = sl.comm_reducer(
        lambda x, y: (x[0] + y[0], sl.max(x[1], y[1])), lambda t, u: (0, -np.inf), "both"
    )
    C = sl.compute((), lambda: both((A[k], A[k]), axis=k), name="C")
    s = sl.schedule(list(C))
    made = s.rfactor(list(C), s[C[0]].split(k, factor=4)[1])
    assert isinstance(made, list) and s[made].name == s[made[0]].name
    s[made].vectorize(s[made].op.axis[0])
    assert s[list(C)].name == s[tuple(C)].name
    with pytest.raises(ScheduleError, match="not the outputs of one computation"):
        s[[C[0], made[0]]]


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, 1, 2, 3, 100, info.max, info.max // 2 + 1, info.min, -1 % (info.max + 1)],
                 dtype)  # fmt: skip
    A = te.placeholder(x.shape, dtype, "A")
    other = dtype[1:] if dtype[0] == "u" else f"u{dtype}"
    C = te.compute(
        x.shape,
        lambda i: (te.clz(A[i]), te.shift_left(A[i], 1), te.shift_right(A[i], 2),
                   te.reinterpret(other, A[i]), te.likely(A[i] > 1)),
        "C",
    )  # fmt: skip
    bits = info.bits
    ahead = [bits - (int(v) & (2**bits - 1)).bit_length() for v in x]
    wanted = (np.array(ahead, "int32"), x << 1, x >> 2, x.view(other), x > 1)
    for got in (run(list(C), x), sl.reference(list(C))(x)):
        for g, w in zip(got, wanted):
            assert g.dtype == w.dtype
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("unsigned", ["", "u"])
def test_bits_of_floats(bits: int, unsigned: str) -> None:
    """Bits of floats give the fast inverse square root, and round trip."""
    real, whole = f"float{bits}", f"{unsigned}int{bits}"
    x = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, 0.1, 3e-39], real)
    A = te.placeholder((8,), real, "A")
    magic = 0x5F3759DF if bits == 32 else 0x5FE6EB50C7B537A9
    C = te.compute(
        (8,),
        lambda i: (te.reinterpret(whole, A[i]), te.reinterpret(real, te.reinterpret(whole, A[i])),
                   te.reinterpret(real, te.const(magic, whole)
                                  - te.shift_right(te.reinterpret(whole, A[i]), 1))),
        "C",
    )  # fmt: skip
    with np.errstate(over="ignore"):
        guess = (np.array(magic, whole) - (x.view(whole) >> 1)).view(real)
    wanted = (x.view(whole), x, guess)
    assert rf"\operatorname{{bits\_int{bits}}}" in C[0].latex()
    s = sl.schedule(list(C))
    lanes = sl.schedule(list(C))
    lanes[C[0]].vectorize(C[0].op.axis[0])
    from schedlang.ir.interpret import interpret

    runs = [run(list(C), x), run(list(C), x, s=lanes), sl.reference(list(C))(x),
            interpret(sl.lower(s), [x]).outputs]  # fmt: skip
    if not unsigned:
        runs += [run(list(C), x, s=s, target="cpu"), run(list(C), x, s=lanes, target="cpu")]
        gpu = sl.schedule(list(C))
        gpu[C[0]].bind(C[0].op.axis[0], "threadIdx.x")
        runs += [sl.build(gpu, target=Target("cuda", arch="sm_80")).simulate(x)]
    for got in runs:
        for g, w in zip(got, wanted):
            assert g.dtype == w.dtype
            np.testing.assert_array_equal(g.view(whole), w.view(whole))


def test_bits_that_have_no_form_are_refused() -> None:
    A, B = te.placeholder((4,), "float16", "A"), te.placeholder((4,), "int8", "B")
    with pytest.raises(ComputeTypeError, match="the bits of a float16 is not supported in a "
                                               "kernel"):
        te.compute((4,), lambda i: tir.reinterpret("int16", A[i]))
    with pytest.raises(ComputeTypeError, match="the bits of a bool is not supported"):
        te.compute((4,), lambda i: tir.reinterpret("bool", B[i]))
    with pytest.raises(ComputeTypeError, match="of 8 bits; cast it first"):
        te.compute((4,), lambda i: te.reinterpret("int32", B[i]))
    with pytest.raises(ComputeTypeError, match="not an integer"):
        te.compute((4,), lambda i: te.clz(A[i]))
    for name in ("shift_left", "shift_right"):
        with pytest.raises(ComputeTypeError, match="bitwise operators take integers"):
            getattr(te, name)(A[0], 1)
