"""Tests of bfloat16: rounding, every operation on every target, arrays and tensors of the host."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import from_data, to_data
from schedlang.errors import CallTypeError, ComputeTypeError, MissingExtraError
from schedlang.expr import bfloat, dtypes
from schedlang.ir.interpret import interpret
from tests.marks import slow_but

ml_dtypes = pytest.importorskip("ml_dtypes")
bf16 = ml_dtypes.bfloat16
rng = np.random.default_rng(0)


def exactly(x: Any) -> float:
    """Return a finite number rounded to 8 significant bits, ties to even, by exact arithmetic."""
    value = Fraction(x)
    if value == 0:
        return 0.0
    exponent = 0
    while abs(value) >= 256:
        value, exponent = value / 2, exponent + 1
    while abs(value) < 128:
        value, exponent = value * 2, exponent - 1
    # Fraction rounds ties to even
    return float(Fraction(round(value)) * Fraction(2) ** exponent)


def bits(x: Any) -> Any:
    return np.asarray(x).astype(bf16).view("uint16")


NUMBERS = {
    "float32": np.concatenate([
        rng.normal(size=200).astype("float32"), np.float32(2) ** np.arange(-100, 100, 7),
        (1 + np.arange(32) / 2048).astype("float32"), -(1 + np.arange(64) / 4096).astype("float32"),
    ]),
    "float64": np.concatenate([
        rng.normal(size=100), 1 + 2.0**-8 + 2.0 ** -np.arange(9.0, 52), 1 + 2.0**-8 + np.zeros(1),
        -(1 + 3 * 2.0**-8) * (1 + 2.0 ** -np.arange(30.0, 52)),
    ]),
    "int64": np.array(
        [0, 1, -1, 257, 258, 259, -259, 2**62 + 2**54, 2**62 + 2**54 + 1, -(2**62) - 2**54 - 1,
         2**40 + 2**32, 2**40 + 2**32 + 1, 2**40 - 1, -(2**40) - 2**32 - 1, 2**63 - 1, -(2**63),
         2**53 + 1, 2**60 + 2**52 + 1], "int64"),
    "uint64": np.array([0, 2**64 - 1, 2**63 + 2**55, 2**63 + 2**55 + 1, 259, 2**40 + 2**32 + 1],
                       "uint64"),
    "int32": rng.integers(-(2**31), 2**31, 100).astype("int32"),
    "uint8": np.arange(256).astype("uint8"),
    "bool": np.array([True, False]),
    "float16": np.arange(0x7C00).astype("uint16").view("float16")[::37],
}  # fmt: skip


@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_number_is_rounded_once(dtype: str) -> None:
    x = NUMBERS[dtype]
    np.testing.assert_array_equal(bfloat.round_to_bfloat16(x), [exactly(v.item()) for v in x])


def test_rounding_keeps_nan_and_overflows_to_infinity() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3.3961775e38, 3.3e38, -0.0], "float32")
    x = np.append(x, np.array([0x7F800001, 0xFFC00001], "uint32").view("float32"))
    with np.errstate(all="ignore"):
        wanted = x.astype(bf16)
    np.testing.assert_array_equal(bfloat.round_to_bfloat16(x), wanted.astype("float32"))
    assert np.signbit(bfloat.round_to_bfloat16(x)[5])


def special() -> np.ndarray:
    pattern = np.array([0, 0x8000, 0x3F80, 0xBF80, 0x7F7F, 0xFF7F, 1, 0x80, 0x7F80, 0xFF80, 0x7FC0,
                        0x4049, 0x3DCD, 0xC2F7, 0x4B7F, 0x3F00], "uint16")  # fmt: skip
    return pattern.view(bf16)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "truediv", "mod", "lt",
                                                  "eq", "ge", "floordiv")},
    "max": lambda a, b: np.maximum(a, b), "min": lambda a, b: np.minimum(a, b),
    "sqrt": lambda a, b: np.sqrt(a), "floor": lambda a, b: np.floor(a), "neg": lambda a, b: -a,
    "isnan": lambda a, b: np.isnan(a), "round": lambda a, b: np.rint(a),
    "abs": lambda a, b: abs(a), "float32": lambda a, b: a.astype("float32") * 3,
    "float64": lambda a, b: a.astype("float64") / 3, "where": lambda a, b: np.where(a < b, a, b),
}  # fmt: skip


def run(target: str, outputs: Any, given: list[np.ndarray]) -> tuple[Any, ...]:
    if target == "reference":
        return sl.reference(list(outputs))(*given)
    s = sl.schedule(list(outputs))
    if target.startswith("lanes"):
        s[outputs[0]].vectorize(s[outputs[0]].split(s[outputs[0]].op.axis[0], factor=16)[1])
    if target == "interpreter":
        return interpret(sl.lower(s), given).outputs
    if target == "cuda-emulator":
        _, thread = s[outputs[0]].split(s[outputs[0]].op.axis[0], factor=32)
        s[outputs[0]].bind(thread, "threadIdx.x")
    found: tuple[Any, ...] = sl.build(s, target=target.removeprefix("lanes "))(*given)
    return found


@pytest.mark.parametrize("target", slow_but(
    ["reference", "lanes python"],
    ["reference", "interpreter", "python", "lanes python", "lanes cpu", "lanes c", "cuda-emulator"],
))  # fmt: skip
def test_operations_agree_with_ml_dtypes(target: str) -> None:
    a, b = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(special(), special()))
    A, B = (sl.placeholder(a.shape, "bfloat16", name=n) for n in "AB")
    made = sl.compute(
        a.shape, lambda i: tuple(f(A[i], B[i]) for f in OPERATIONS.values()), name="C"
    )
    with np.errstate(all="ignore"):
        wanted = [np.asarray(f(a, b)) for f in OPERATIONS.values()]
    for name, got, want in zip(OPERATIONS, run(target, made, [a, b]), wanted, strict=True):
        assert got.dtype == want.dtype, name
        if name in ("floordiv", "mod"):
            # ml_dtypes differs for infinite and for large quotients
            plain = np.isfinite(a.astype(float)) & np.isfinite(b.astype(float))
            plain &= (np.abs(a.astype(float)) < 100) & (np.abs(b.astype(float)) > 0.01)
            got, want = got[plain], want[plain]
        np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"), name)


@pytest.mark.parametrize("target", ["reference", "lanes python", "lanes cpu", "lanes c"])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64", "int32", "float16", "bool"])
def test_conversions_from_other_dtypes(dtype: str, target: str) -> None:
    x = np.resize(NUMBERS[dtype], 128)
    A = sl.placeholder(x.shape, dtype, name="A")
    C = sl.compute(x.shape, lambda i: (A[i].astype("bfloat16"), A[i]), name="C")
    got = run(target, C, [x])[0].astype("float64")
    np.testing.assert_array_equal(got, [exactly(v.item()) for v in x])


def test_conversions_to_other_dtypes() -> None:
    a = np.array([-3.5, 0, 100, 0.3], bf16)
    A = sl.placeholder((4,), "bfloat16", name="A")
    kinds = ("int8", "uint16", "int64", "float16", "float64", "bool")
    C = sl.compute((4,), lambda i: tuple(A[i].astype(k) for k in kinds), name="C")
    for target in ("reference", "python", "cpu"):
        for got, kind in zip(run(target, C, [a]), kinds):
            with np.errstate(all="ignore"):
                want = a.astype("float32").astype("int32" if kind == "uint16" else kind)
            np.testing.assert_array_equal(got, want.astype(kind), strict=True)


def test_products_and_sums_in_registers_round_at_each_step() -> None:
    A, B = (sl.placeholder((4, 6), "bfloat16", name=n) for n in "AB")
    k = sl.reduce_axis(6, name="k")
    C = sl.compute((4,), lambda i: sl.sum(A[i, k] * B[i, k], axis=k), name="C")
    a, b = rng.normal(size=(2, 4, 6)).astype(bf16)
    total = np.zeros(4, bf16)
    for step in range(6):
        total = total + a[:, step] * b[:, step]
    s = sl.schedule(C)
    s[C].reorder(k, C.op.axis[0])
    s[C].vectorize(C.op.axis[0])
    for target in ("python", "cpu", "c"):
        np.testing.assert_array_equal(sl.build(s, target=target)(a, b), total)
    # the reference sums in float64 and rounds once
    wide = (a * b).astype("float64").sum(1)
    np.testing.assert_array_equal(sl.reference(C)(a, b), wide.astype("float32").astype(bf16))


def test_every_access_of_a_vector() -> None:
    """Strided, gathered, masked and padded accesses, and one under a test."""
    A = sl.placeholder((70,), "bfloat16", name="A")
    J = sl.placeholder((19,), "int32", name="J")
    P = sl.pad(A, 1, name="P")
    C = sl.compute(
        (19,),
        lambda i: (A[i * 3] + A[69 - i], A[J[i]], P[i] + P[i + 2],
                   sl.if_then_else(J[i] > 4, A[J[i] - 1], 0.5)), name="C"
    )  # fmt: skip
    a, j = rng.normal(size=70).astype(bf16), rng.integers(0, 70, 19).astype("int32")
    padded = np.pad(a, 1)
    i = np.arange(19)
    wanted = [a[i * 3] + a[69 - i], a[j], padded[i] + padded[i + 2],
              np.where(j > 4, a[j - 1], np.array(0.5, bf16))]  # fmt: skip
    s = sl.schedule(list(C))
    s[P].compute_inline()
    s[C[0]].vectorize(s[C[0]].split(C[0].op.axis[0], factor=8)[1])
    for target in ("python", "cpu", "c"):
        for got, want in zip(sl.build(s, target=target)(a, j), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_the_source_converts_vectors_by_shifts() -> None:
    A = sl.placeholder((64,), "bfloat16", name="A")
    C = sl.compute((64,), lambda i: A[i] * 3, name="C")
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[0], factor=32)[1])
    source = sl.build(s, target="python").source
    assert "t = bfloat(bfloat_value(vload(A, i_outer*32, 32)) * float32(3))" in source
    assert "vstore(C, i_outer*32, bfloat_bits(t))" in source


def test_dtypes_promote_to_the_smallest_float_that_holds_both() -> None:
    A = sl.placeholder((4,), "bfloat16", name="A")
    found = {}
    for other in dtypes.DTYPES:
        B = sl.placeholder((4,), other, name="B")
        found[other] = sl.compute((4,), lambda i, B=B: A[i] / B[i]).dtype
    assert found == {
        **dict.fromkeys(("bool", "int8", "uint8", "bfloat16"), "bfloat16"),
        **dict.fromkeys(("int16", "uint16", "float16", "float32"), "float32"),
        **dict.fromkeys(("int32", "uint32", "int64", "uint64", "float64"), "float64"),
        "complex64": "complex64", "complex128": "complex128",
    }
    assert sl.compute((4,), lambda i: A[i] * 2.5 + i).dtype == "bfloat16"
    assert sl.compute((4,), lambda i: np.exp(A[i])).dtype == "bfloat16"


def test_scalars() -> None:
    alpha = sl.var("alpha", dtype="bfloat16")
    A = sl.placeholder((4,), "bfloat16", name="A")
    C = sl.compute((4,), lambda i: A[i] * alpha, name="C")
    a = np.array([1, 2, 3, 4.5], bf16)
    for target in ("python", "cpu", "c"):
        f = sl.build(sl.schedule(C), target=target)
        np.testing.assert_array_equal(f(a, 0.1), a * bf16(0.1))
        np.testing.assert_array_equal(f(a, bf16(2)), a * bf16(2))
    np.testing.assert_array_equal(sl.reference(C)(a, 0.1), a * bf16(0.1))
    with pytest.raises(CallTypeError, match=r"a bfloat16.*at most 3.38953e\+38"):
        f(a, 1e39)


def test_a_saved_file_needs_ml_dtypes_only_for_its_arguments(tmp_path: Any) -> None:
    A = sl.placeholder((8,), "bfloat16", name="A")
    C = sl.compute((8,), lambda i: A[i] + 1, name="C")
    path = tmp_path / "k.py"
    f = sl.build(sl.schedule(C))
    f.save(path)
    text = path.read_text().replace("cache=True, ", "")
    space: dict[str, Any] = {"__name__": "k", "__file__": str(path)}
    exec(compile(text, str(path), "exec"), space)
    a = np.arange(8).astype(bf16)
    np.testing.assert_array_equal(space["C"](a), a + bf16(1))
    assert "import ml_dtypes" in text
    X = sl.placeholder((8,), name="X")
    H = sl.compute((8,), lambda i: X[i].astype("bfloat16"), name="H")
    D = sl.compute((8,), lambda i: H[i].astype("float32"), name="D")
    g = sl.build(sl.schedule(D), target="python")
    assert "ml_dtypes" not in g.source
    x = rng.normal(size=8).astype("float32")
    np.testing.assert_array_equal(g(x), x.astype(bf16).astype("float32"))


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    A = sl.placeholder((2, 8), "bfloat16", name="A")
    C = sl.compute((2, 8), lambda i, j: A[i, j] * A[i, j], name="C")
    t = torch.randn(2, 8).to(torch.bfloat16)
    f = sl.build(sl.schedule(C), target="python")
    found = f(t)
    assert found.dtype == torch.bfloat16 and torch.equal(found, t * t)
    out = torch.empty_like(t)
    assert f(t, out) is out and torch.equal(out, t * t)
    with pytest.raises(CallTypeError, match="dtype float32: convert it"):
        f(t.float())


def test_without_ml_dtypes(monkeypatch: Any) -> None:
    """Everything but arrays works; those are refused in one sentence that names the extra."""
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    A = sl.placeholder((4,), "bfloat16", name="A")
    C = sl.compute((4,), lambda i: A[i] + 1, name="C")
    assert "A: bfloat16[4]" in str(sl.schedule(C))
    f = sl.build(sl.schedule(C), target="python")
    wanted = r'an array of bfloat16 needs ml_dtypes: pip install "schedlang\[bfloat16\]" installs'
    with pytest.raises(MissingExtraError, match=wanted):
        f(np.zeros(4, "uint16"))
    if find_spec("torch"):
        import torch

        with pytest.raises(CallTypeError, match=rf"argument 0.*{wanted} it.*\.float\(\)"):
            f(torch.zeros(4, dtype=torch.bfloat16))


def test_wrong_arrays() -> None:
    A = sl.placeholder((4,), "bfloat16", name="A")
    C = sl.compute((4,), lambda i: A[i] + 1, name="C")
    f = sl.build(sl.schedule(C), target="python")
    for wrong in ("float32", "uint16", "float16"):
        with pytest.raises(CallTypeError, match=rf"got dtype {wrong}: convert it with A.astype"):
            f(np.zeros(4, wrong))
        with pytest.raises(CallTypeError, match=f"A is bfloat16, got {wrong}"):
            sl.reference(C)(np.zeros(4, wrong))
    with pytest.raises(ComputeTypeError, match="choose one of .* bfloat16"):
        sl.placeholder((4,), "float8")


def test_numpy_s_name_and_the_data_form() -> None:
    A = sl.placeholder((4,), bf16, name="A")
    assert A.dtype == sl.placeholder((4,), np.dtype(bf16)).dtype == "bfloat16"
    C = sl.compute((4,), lambda i: A[i] * 0.1, name="C")
    (again,) = from_data(to_data(C))
    a = np.array([1, 2, 3, 4], bf16)
    np.testing.assert_array_equal(sl.reference(again)(a), a * bf16(0.1))


def test_custom_reducers_are_tested_without_rounding() -> None:
    product = sl.comm_reducer(lambda x, y: x * y, lambda t: sl.const(1, t), name="product")
    A, k = sl.placeholder((4, 5), "bfloat16", name="A"), sl.reduce_axis(5, name="k")
    C = sl.compute((4,), lambda i: product(A[i, k], axis=k), name="C")
    a = rng.choice([0.5, 1, 2, -1], (4, 5)).astype(bf16)
    np.testing.assert_array_equal(sl.build(sl.schedule(C), target="python")(a),
                                  a.astype("float32").prod(1).astype(bf16))  # fmt: skip


@pytest.mark.slow
@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="needs numba-cuda")
def test_compiled_for_a_gpu() -> None:
    A = sl.placeholder((64,), "bfloat16", name="A")
    C = sl.compute((64,), lambda i: A[i] * 3, name="C")
    s = sl.schedule(C)
    block, rest = s[C].split(C.op.axis[0], factor=32)
    thread, lane = s[C].split(rest, factor=8)
    s[C].bind(block, "blockIdx.x")
    s[C].bind(thread, "threadIdx.x")
    s[C].vectorize(lane)
    f = sl.build(s, target=sl.Target("cuda", arch="sm_90"))
    assert "ld.global.v4" in f.ptx and "mul.f32" in f.ptx
    a = rng.normal(size=64).astype(bf16)
    np.testing.assert_array_equal(f.simulate(a), a * bf16(3))
