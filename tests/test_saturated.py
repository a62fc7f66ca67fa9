"""Tests of saturating casts and of bit counts, of every dtype and on every target."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.data import from_data, to_data
from schedlang.compute.work import flops
from schedlang.errors import ComputeTypeError
from schedlang.expr import dtypes
from schedlang.ir.interpret import interpret
from tests.marks import slow_but

# tests/test_bfloat16.py and tests/test_complex.py test the others
DTYPES = tuple(d for d in dtypes.DTYPES if d != "bfloat16" and not dtypes.is_complex(d))

INTEGERS = tuple(d for d in DTYPES if "int" in d)


def values(dtype: str) -> np.ndarray:
    """Return values around the limits of all integers that ``dtype`` can hold, 32 or more."""
    limits = [x for d in INTEGERS for x in (np.iinfo(d).min, np.iinfo(d).max)]
    near = sorted({int(x) + step for x in limits for step in (-1, 0, 1)} | {2, 3, -2})
    if dtype.startswith("float"):
        near += [-(2**70), 2**70]
    if dtype == "bool":
        return np.arange(32) % 3 == 0
    if "int" in dtype:
        info = np.iinfo(dtype)
        found = np.array([x for x in near if info.min <= x <= info.max], dtype)
        return np.resize(found, 32)
    with np.errstate(over="ignore"):
        floats = np.array([float(x) for x in near]).astype(dtype)
    more = np.array([0.4, 0.6, -0.6, 2.5, 127.5, -128.6, 255.9, np.inf, -np.inf, np.nan], dtype)
    beside = [np.nextafter(floats, np.array(side, dtype)) for side in (np.inf, -np.inf)]
    every = np.concatenate([floats, *beside, more])
    return np.resize(every, -(-every.size // 8) * 8)


def nearest(x: Any, dtype: str) -> int:
    """Return the nearest integer of ``dtype`` by Python's arithmetic."""
    info = np.iinfo(dtype)
    if isinstance(x, float):
        if np.isnan(x):
            return 0
        if np.isinf(x):
            return int(info.max if x > 0 else info.min)
    return int(min(max(int(x), info.min), info.max))


def wanted(a: np.ndarray, dtype: str) -> np.ndarray:
    return np.array([nearest(x.item(), dtype) for x in a], dtype)


def run(target: str, outputs: Any, a: np.ndarray) -> tuple[np.ndarray, ...]:
    if target == "reference":
        return sl.reference(list(outputs))(a)
    s = sl.schedule(list(outputs))
    if target.startswith("lanes"):
        s[outputs[0]].vectorize(s[outputs[0]].split(s[outputs[0]].op.axis[0], factor=8)[1])
        target = target.removeprefix("lanes ")
    if target == "interpreter":
        return interpret(sl.lower(s), [a]).outputs
    if target == "cuda-emulator":
        block, thread = s[outputs[0]].split(s[outputs[0]].op.axis[0], factor=8)
        s[outputs[0]].bind(block, "blockIdx.x")
        s[outputs[0]].bind(thread, "threadIdx.x")
    return sl.build(s, target=target)(a)


QUICK = ("reference", "lanes python", "lanes c")
CASES = [
    f"{dtype} {target}"
    for dtype in ("bool", "int8", "int64", "uint64", "float16", "float32", "float64")
    for target in (*QUICK, "interpreter", "cpu", "lanes cpu", "cuda-emulator")
]  # fmt: skip


@pytest.mark.parametrize("case", slow_but(
    [*(c for c in CASES if c.partition(" ")[2] in QUICK), "float32 interpreter",
     "float32 lanes cpu", "int64 lanes cpu", "float16 lanes cpu"], CASES
))  # fmt: skip
def test_every_integer_dtype(case: str) -> None:
    dtype, _, target = case.partition(" ")
    a = values(dtype)
    A = sl.placeholder(a.shape, dtype, name="A")
    made = sl.compute(
        a.shape, lambda i: tuple(sl.saturating_cast(A[i], d) for d in INTEGERS), name="C"
    )
    for got, to in zip(run(target, made, a), INTEGERS, strict=True):
        np.testing.assert_array_equal(got, wanted(a, to), to, strict=True)


@pytest.mark.parametrize("target", ["reference", "lanes python", "lanes cpu", "lanes c", "cpu"])
def test_bit_counts(target: str) -> None:
    a = values("int64")
    A = sl.placeholder(a.shape, "int64", name="A")
    kinds = ("bool", *INTEGERS)
    made = sl.compute(
        a.shape, lambda i: tuple(sl.popcount(A[i].astype(d)) for d in kinds), name="C"
    )
    for got, kind in zip(run(target, made, a), kinds, strict=True):
        counts = np.array([bin(abs(x.item())).count("1") for x in a.astype(kind)], "uint8")
        np.testing.assert_array_equal(got, counts, kind, strict=True)


def test_rounded_to_the_nearest() -> None:
    A = sl.placeholder((6,), name="A")
    C = sl.compute((6,), lambda i: sl.saturating_cast(np.rint(A[i]), "int8"), name="C")
    a = np.array([0.5, 1.5, -2.5, 126.6, 127.5, -200], "float32")
    np.testing.assert_array_equal(sl.build(sl.schedule(C), target="python")(a),
                                  [0, 2, -2, 127, 127, -128])  # fmt: skip


def test_numpy_s_bit_count_and_weak_operands() -> None:
    A = sl.placeholder((4,), "uint8", name="A")
    C = sl.compute(
        (4,), lambda i: (np.bitwise_count(A[i]), sl.popcount(i), sl.saturating_cast(i - 2, "uint8"),
                         sl.saturating_cast(300, "uint8")), name="C"
    )  # fmt: skip
    found = sl.build(sl.schedule(list(C)), target="python")(np.array([0, 1, 255, 6], "uint8"))
    np.testing.assert_array_equal(found, [[0, 1, 8, 2], [0, 1, 1, 2], [0, 0, 0, 1], [255] * 4])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_a_float_holds_infinities(dtype: str) -> None:
    A = sl.placeholder((2,), "float64", name="A")
    match = rf"(?s)^sl\.saturating_cast\(A, '{dtype}'\).*infinities.*sl\.cast\(A, '{dtype}'\)"
    with pytest.raises(ComputeTypeError, match=match):
        sl.saturating_cast(A, dtype)


def test_lanes_are_vectors() -> None:
    A = sl.placeholder((64,), name="A")
    C = sl.compute((64,), lambda i: sl.saturating_cast(A[i], "uint8"), name="C")
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[0], factor=32)[1])
    assert str(s).endswith("C[i.outer*32 + i.inner] = saturated_uint8(A[i.outer*32 + i.inner])")
    source = sl.build(s, target="python").source
    assert "vstore(C, i_outer*32, saturated_uint8(vload(A, i_outer*32, 32)))" in source


def test_a_saved_file_has_the_intrinsics(tmp_path: Any) -> None:
    A = sl.placeholder((64,), name="A")
    C = sl.compute(
        (64,), lambda i: sl.popcount(sl.saturating_cast(A[i], "int32")).astype("int8"), name="C"
    )
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[0], factor=32)[1])
    path = tmp_path / "k.py"
    sl.build(s).save(path)
    space: dict[str, Any] = {"__name__": "k", "__file__": str(path)}
    text = path.read_text()
    assert "schedlang" not in text.split("import", 1)[1]
    exec(compile(text.replace("cache=True, ", ""), str(path), "exec"), space)
    a = np.linspace(-70, 70, 64, dtype="float32")
    np.testing.assert_array_equal(space["C"](a), np.bitwise_count(np.trunc(a).astype("int32")))


@pytest.mark.skipif(find_spec("numba_cuda") is None, reason="needs numba-cuda")
def test_compiled_for_a_gpu() -> None:
    A = sl.placeholder((64,), name="A")
    B = sl.placeholder((64,), "int64", name="B")
    C = sl.compute(
        (64,), lambda i: (sl.saturating_cast(A[i], "uint8"), sl.saturating_cast(A[i], "int64"),
                          sl.popcount(B[i]), sl.saturating_cast(B[i], "int16")), name="C"
    )  # fmt: skip
    s = sl.schedule(list(C))
    block, rest = s[C[0]].split(C[0].op.axis[0], factor=32)
    thread, lane = s[C[0]].split(rest, factor=4)
    s[C[0]].bind(block, "blockIdx.x")
    s[C[0]].bind(thread, "threadIdx.x")
    s[C[0]].vectorize(lane)
    ptx = sl.build(s, target="cuda").ptx
    assert "popc.b64" in ptx and "cvt.rzi.s32.f32" in ptx


def test_data_form_and_operations() -> None:
    A = sl.placeholder((4,), name="A")
    C = sl.compute((4,), lambda i: sl.popcount(sl.saturating_cast(A[i], "int8")), name="C")
    (again,) = from_data(to_data(C))
    a = np.array([3, 1000, -1000, np.nan], "float32")
    np.testing.assert_array_equal(sl.reference(again)(a), [2, 7, 1, 0])
    assert flops([C]) == 4  # a conversion is no operation


def test_refused() -> None:
    A = sl.placeholder((4,), name="A")
    with pytest.raises(ComputeTypeError, match="only integers and bools have bits to count"):
        sl.compute((4,), lambda i: sl.popcount(A[i]))
    with pytest.raises(ComputeTypeError, match=r"a bool has no range of numbers; compare .*!= 0"):
        sl.compute((4,), lambda i: sl.saturating_cast(A[i], bool))
