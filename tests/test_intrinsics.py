"""Every compiled intrinsic agrees with its NumPy twin on the same kernel text."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from schedlang.intrinsics import cpu as intrinsics
from schedlang.intrinsics import twins
from schedlang.intrinsics.cpu import *  # noqa: F403
from schedlang.intrinsics.dialect import NAMES
from tests.intrinsic_names import intrinsics_in, values_of
from tests.marks import slow_but

# each side executes the kernels as text and binds the names itself
# ruff: noqa: F405

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]
DTYPES = [*INTEGERS, *FLOATS]
# the others take as long again
QUICK = ["int8", "uint32", "float32"]


def compiled(kernel: Callable[..., Any], **names: Any) -> Any:
    """Return the kernel compiled by numba."""
    scope = {**values_of(intrinsics), **names, "__name__": __name__}
    return numba.njit(**OPTIONS)(FunctionType(kernel.__code__, scope))


def plain(kernel: Callable[..., Any], **names: Any) -> Any:
    """Return the kernel as plain Python with the NumPy twins."""
    function = FunctionType(kernel.__code__, {**vars(twins), **names})
    return np.errstate(all="ignore")(function)


def agree(kernel: Callable[..., Any], *arrays: Any, **names: Any) -> list[np.ndarray]:
    """Run both, compare all arrays bit by bit, where NaNs are equal, and return the arrays."""
    sides = []
    for make in (compiled, plain):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
        make(kernel, **names)(*given)
        sides.append([a for a in given if isinstance(a, np.ndarray)])
    for ours, theirs in zip(*sides, strict=True):
        same = ours.view(f"V{ours.itemsize}") == theirs.view(f"V{ours.itemsize}")
        if ours.dtype.kind == "f":
            same |= np.isnan(ours) & np.isnan(theirs)
        assert same.all(), (ours[~same][:5], theirs[~same][:5], np.flatnonzero(~same)[:5])
    return sides[0]


def samples(dtype: str, n: int, seed: int = 0) -> np.ndarray:
    """Return ``n`` values that include the special ones."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 2.5, -2.5, 7.0, -3.0]
        values = np.r_[special, np.array(rng.normal(0, 9, n))].astype(dtype)
    else:
        info = np.iinfo(kind)
        special = [0, 1, info.min, info.max, 2, 3, 7, max(info.min, -1), max(info.min, -2)]
        low, high = max(info.min, -40), min(info.max, 40)
        whole = rng.integers(info.min, info.max, n, kind, endpoint=True)
        small = rng.integers(low, high, n, np.int64).astype(dtype)
        values = np.r_[np.array(special, dtype), np.where(rng.random(n) < 0.5, whole, small)]
    return rng.permutation(values[:n])


def test_the_two_sides_have_the_same_names() -> None:
    # the table of names that code generation reads, and what numba has under each
    assert intrinsics_in(intrinsics) == {name: name for name in NAMES}
    for name in NAMES:
        assert callable(getattr(twins, name))
        assert getattr(intrinsics, name).__doc__


# ---- values ----


@pytest.mark.parametrize("dtype", slow_but(QUICK, DTYPES))
def test_vector_arithmetic(dtype: str) -> None:
    def kernel(A, B, C, M):
        for i in range(0, 210, 7):
            a, b = vload(A, i, 7), vload(B, i, 7)
            vstore(C, i, a + b)
            vstore(C, i + 210, a - b)
            vstore(C, i + 420, a * b)
            vstore(C, i + 630, a // b)
            vstore(C, i + 840, a % b)
            vstore(C, i + 1050, -a)
            vstore(C, i + 1260, minimum(a, b))
            vstore(C, i + 1470, maximum(a, b))
            vstore(C, i + 1680, select(a < b, a, b))
            vstore(C, i + 1890, absolute(a))
            vstore(C, i + 2100, floor(a))
            vstore(C, i + 2310, ceil(a))
            vstore(C, i + 2520, trunc(a))
            vstore(C, i + 2730, round_even(a))
            vstore(M, i, a < b)
            vstore(M, i + 210, a <= b)
            vstore(M, i + 420, a > b)
            vstore(M, i + 630, a >= b)
            vstore(M, i + 840, a == b)
            vstore(M, i + 1050, a != b)
            vstore(M, i + 1260, ~(a < b) & (a != b) | (a == b) ^ isfinite(a))
            vstore(M, i + 1470, isnan(a) | isinf(b))

    a, b = samples(dtype, 210), samples(dtype, 210, 1)
    agree(kernel, a, b, np.zeros(2940, dtype), np.zeros(1680, bool))


@pytest.mark.parametrize("dtype", slow_but(QUICK, DTYPES))
def test_scalar_arithmetic(dtype: str) -> None:
    def kernel(A, B, C, M):
        for i in range(210):
            a, b = load(A, i), load(B, i)
            store(C, i, cast(a + b))
            store(C, i + 210, cast(a - b))
            store(C, i + 420, cast(a * b))
            store(C, i + 630, floordiv(a, b))
            store(C, i + 840, mod(a, b))
            store(C, i + 1050, cast(-a))
            store(C, i + 1260, minimum(a, b))
            store(C, i + 1470, maximum(a, b))
            store(C, i + 1680, select(a < b, a, b))
            store(C, i + 1890, absolute(a))
            store(C, i + 2100, floor(a))
            store(C, i + 2310, ceil(a))
            store(C, i + 2520, trunc(a))
            store(C, i + 2730, round_even(a))
            store(C, i + 2940, add(a, b))
            store(C, i + 3150, subtract(a, b))
            store(C, i + 3360, multiply(a, b))
            store(M, i, a < b)
            store(M, i + 210, isnan(a))
            store(M, i + 420, isinf(a))
            store(M, i + 630, isfinite(a))
            store(M, i + 840, (a == b) | (a != b) & (a <= b))

    a, b = samples(dtype, 210), samples(dtype, 210, 1)
    arrays = a, b, np.zeros(3570, dtype), np.zeros(1050, bool)
    run = [agree_side(kernel, side, dtype, arrays) for side in (intrinsics, twins)]
    for ours, theirs in zip(*run, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def agree_side(kernel: Any, side: Any, dtype: str, arrays: Any) -> list[np.ndarray]:
    """Return one side's arrays after a kernel in which ``cast`` is its dtype."""
    given = [a.copy() for a in arrays]
    make = compiled if side is intrinsics else plain
    make(kernel, cast=getattr(side, dtype))(*given)
    return given


@pytest.mark.parametrize("dtype", FLOATS)
def test_division_and_roots(dtype: str) -> None:
    def kernel(A, B, C):
        for i in range(208):
            a, b = load(A, i), load(B, i)
            store(C, i, a / b)
            store(C, i + 208, sqrt(a))
            store(C, i + 416, copysign(rsqrt(a), b))
        for i in range(0, 208, 16):
            a, b = vload(A, i, 16), vload(B, i, 16)
            vstore(C, i + 624, a / b)
            vstore(C, i + 832, sqrt(a))
            vstore(C, i + 1040, copysign(rsqrt(a), b))

    agree(kernel, samples(dtype, 208), samples(dtype, 208, 1), np.zeros(1248, dtype))


@pytest.mark.parametrize("dtype", slow_but(QUICK[:2], INTEGERS))
def test_bits_and_shifts(dtype: str) -> None:
    def kernel(A, B, C):
        for i in range(0, 96, 8):
            a, b = vload(A, i, 8), vload(B, i, 8)
            vstore(C, i, a & b)
            vstore(C, i + 96, a | b)
            vstore(C, i + 192, a ^ b)
            vstore(C, i + 288, ~a)
            vstore(C, i + 384, a << b)
            vstore(C, i + 480, a >> b)
        for i in range(96):
            store(C, i + 576, left_shift(load(A, i), load(B, i)))
            store(C, i + 672, right_shift(load(A, i), load(B, i)))
            store(C, i + 768, power(load(A, i), load(B, i)))
        for i in range(0, 96, 8):
            vstore(C, i + 864, power(vload(A, i, 8), vload(B, i, 8)))

    counts = np.random.default_rng(2).integers(0, 70, 96).astype(dtype)
    agree(kernel, samples(dtype, 96), counts, np.zeros(960, dtype))


@pytest.mark.parametrize("source", slow_but(["bool", *QUICK], ["bool", *DTYPES]))
def test_casts(source: str) -> None:
    def kernel(A, I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, B):
        for i in range(20):
            x = load(A, i)
            store(I8, i, int8(x))
            store(I16, i, int16(x))
            store(I32, i, int32(x))
            store(I64, i, int64(x))
            store(U8, i, uint8(x))
            store(U16, i, uint16(x))
            store(U32, i, uint32(x))
            store(U64, i, uint64(x))
            store(F32, i, float32(x))
            store(F64, i, float64(x))
            store(B, i, boolean(x))
        for i in range(20, 60, 5):
            v = vload(A, i, 5)
            vstore(I8, i, int8(v))
            vstore(I16, i, int16(v))
            vstore(I32, i, int32(v))
            vstore(I64, i, int64(v))
            vstore(U8, i, uint8(v))
            vstore(U16, i, uint16(v))
            vstore(U32, i, uint32(v))
            vstore(U64, i, uint64(v))
            vstore(F32, i, float32(v))
            vstore(F64, i, float64(v))
            vstore(B, i, boolean(v))

    values = samples(source, 60)
    if source in FLOATS:
        # NumPy leaves the cast of values that do not fit undefined
        values = np.where(np.abs(values) < 100, np.abs(values), values.dtype.type(3.99))
        values[:7] = [0.0, 0.5, 0.999, 1.0, 126.9, 127.0, -0.0]
    agree(kernel, values, *[np.zeros(60, d) for d in [*DTYPES, "bool"]])


def test_negative_floats_truncate_and_wrap() -> None:
    def kernel(A, I8, I64, U8, U64):
        for i in range(4):
            x = load(A, i)
            store(I8, i, int8(x))
            store(I64, i, int64(x))
            store(U8, i, uint8(x))
            store(U64, i, uint64(x))

    values = np.array([-1.9, -128.0, 300.7, -3.0])
    _, i8, i64, u8, u64 = agree(kernel, values, *[np.zeros(4, d) for d in ("i1", "i8", "u1", "u8")])
    assert i8.tolist() == [-1, -128, 44, -3]
    assert i64.tolist() == [-1, -128, 300, -3]
    assert u8.tolist() == [255, 128, 44, 253]
    assert u64.tolist() == [2**64 - 1, 2**64 - 128, 300, 2**64 - 3]


def test_casts_of_literals_fold() -> None:
    def kernel():
        return int8(300), float32(0.1), uint64(18446744073709551615), boolean(2), int16(-3.7)

    function = compiled(kernel)
    got, twin = function(), plain(kernel)()
    assert got == twin == (44, float(np.float32(0.1)), 2**64 - 1, True, -3)
    assert [x.dtype for x in twin] == ["int8", "float32", "uint64", "bool", "int16"]
    assert [str(t) for t in function.nopython_signatures[0].return_type] == [
        "int8",
        "float32",
        "uint64",
        "bool",
        "int16",
    ]


def test_fma_rounds_once() -> None:
    def kernel(A, B, C, D):
        for i in range(64):
            store(D, i, fma(load(A, i), load(B, i), load(C, i)))
        for i in range(0, 64, 4):
            vstore(D, i + 64, fma(vload(A, i, 4), vload(B, i, 4), vload(C, i, 4)))

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 64)).astype(np.float32)
    c = -(a * b)
    *_, d = agree(kernel, a, b, c, np.zeros(128, np.float32))
    assert d[:64].any()


def test_index_vectors_take_python_numbers() -> None:
    def kernel(C, n, k):
        o = iota(6) * 3 + n
        vstore(C, 0, o // 4)
        vstore(C, 6, o % k)
        vstore(C, 12, 100 - o)
        vstore(C, 18, select(o < 10, o, o * o))
        vstore(C, 24, minimum(o, 12) + int32(1))
        store(C, 30, minimum(n + 1, 5))

    out = agree(kernel, np.zeros(31, np.int64), 2, np.int32(5))[0]
    assert out[:6].tolist() == [0, 1, 2, 2, 3, 4]


@pytest.mark.parametrize("lanes", slow_but(["1", "3", "8", "33"], [1, 2, 3, 5, 7, 8, 16, 33, 64]))
def test_any_number_of_lanes(lanes: int) -> None:
    def kernel(A, B, C, S):
        v = vload(A, 3, LANES) - vload(A, 5, LANES) + broadcast(float32(0.5), LANES)
        vstore(B, 1, v)
        m = vload(C, 0, LANES)
        vstore(C, 64, ~m)
        store(S, 0, reduce_add(v))
        store(S, 1, reduce_min(v))
        store(S, 2, reduce_max(v))
        store(S, 3, reduce_mul(v))
        store(S, 4, lane(v, LANES - 1))
        store(S, 5, lane(with_lane(v, 0, float32(9)), 0))
        store(C, 128, reduce_or(m))
        store(C, 129, reduce_and(m))
        vstore_masked(B, 1, v + v, m)

    a = samples("float32", 80, 4)
    a[~np.isfinite(a)] = 3
    mask = samples("bool", 130, lanes)
    agree(kernel, a, np.zeros(80, np.float32), mask, np.zeros(6, np.float32), LANES=lanes)


# ---- memory ----


@pytest.mark.parametrize(
    "dtype",
    slow_but(
        ["bool", "int32", "float64"], ["bool", "uint8", "int32", "int64", "float32", "float64"]
    ),
)
def test_vector_memory(dtype: str) -> None:
    def kernel(A, B, M, D):
        offs, mask = vload(D, 0, 9), vload(M, 0, 9)
        vstore(B, 0, vload_masked(A, 2, mask))
        vstore(B, 10, vgather(A, offs))
        vstore(B, 20, vgather_masked(A, offs, mask))
        vstore(B, 30, vload_strided(A, 1, 1, 9))
        vstore(B, 40, vload_strided(A, 1, 2, 9))
        vstore(B, 50, vload_strided(A, 1, 5, 9))
        vstore(B, 60, vload_strided(A, 30, -3, 9))
        vstore(B, 70, vload_strided(A, 4, 0, 9))
        v = vload(A, 11, 9)
        vstore_masked(B, 80, v, mask)
        vstore_strided(B, 90, 2, v)
        vstore_strided(B, 140, -2, v)
        vscatter(B, offs + 150, v)
        vscatter_masked(B, offs + 200, v, mask)
        vstore_stream(B, 251, v)
        prefetch(A, 1 << 40)
        stream_fence()
        vstore(B, 261, vload_strided_masked(A, 2, 3, mask))
        vstore(B, 271, vload_strided_masked(A, 40, -4, mask))
        vstore(B, 280, vload_shuffled(A, 5, (0, 0, 1, 3, 2, 8, 7, 7, 4)))
        vstore(B, 289, vload_shuffled(A, 47, (2, 1, 0, 0, 1, 2, 2, 2, 2)))

    offs = np.array([3, 3, 40, 0, 7, 21, 8, 9, 44], np.int64)
    a = samples(dtype, 50)
    if dtype in FLOATS:
        a = np.nan_to_num(a)
    agree(kernel, a, np.zeros(298, dtype), samples("bool", 9, 3), offs)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16"])
def test_strided_stores_leave_what_is_between(dtype: str) -> None:
    def kernel(A, B):
        v = vload(A, 0, 7)
        vstore_strided(B, 1, 2, v)
        vstore_strided(B, 20, 3, v)
        vstore_strided(B, 43, 4, v)
        vstore_strided(B, 45, 4, vload(A, 2, 32))

    agree(kernel, samples(dtype, 40), samples(dtype, 45 + 31 * 4 + 1, 5))


@pytest.mark.parametrize(
    "dtype", slow_but(["float32"], ["bool", "int16", "float32", "float64"])
)
@pytest.mark.parametrize(
    ("columns", "lanes"), [(1, 2), (3, 4), (4, 3), (8, 8), (5, 7), (16, 16), (14, 16), (17, 3)]
)
def test_columns(dtype: str, columns: int, lanes: int) -> None:
    def kernel(A, B, stride):
        found = vload_columns(A, 3, stride, COLUMNS, LANES)
        vstore(B, 0, found[0])
        vstore(B, LANES, found[COLUMNS // 2])
        vstore(B, 2 * LANES, found[COLUMNS - 1])

    stride = columns + 5
    a = samples(dtype, 3 + stride * lanes)
    if dtype in FLOATS:
        a = np.nan_to_num(a)
    b = np.zeros(3 * lanes, dtype)
    b = agree(kernel, a, b, stride, LANES=lanes, COLUMNS=columns)[1]
    rows = a[3:].reshape(lanes, stride)
    for at, column in enumerate((0, columns // 2, columns - 1)):
        np.testing.assert_array_equal(b[at * lanes : (at + 1) * lanes], rows[:, column])


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32", "int64", "float32", "float64"])
def test_a_vector_under_a_scalar_condition(dtype: str) -> None:
    def kernel(A, B, far):
        for i in range(-1, 2):
            vstore(B, 8 * i + 8, vload_if(i > -1, A, 8 * i, vload(A, 3, 8)))
        vstore(B, 24, vload_if(far < 0, A, far, vload(A, 1, 8)))

    a = np.random.default_rng(0).integers(0, 100, 16).astype(dtype)
    _, b = agree(kernel, a, np.zeros(32, dtype), 2**40)
    np.testing.assert_array_equal(b, np.concatenate([a[3:11], a, a[1:9]]))


def test_masked_lanes_touch_no_memory() -> None:
    def far_away(A, B, far):
        mask = iota(8) < 0
        vstore_masked(A, far, vload_masked(A, far, mask), mask)
        offs = select(iota(8) < 3, iota(8), iota(8) + far)
        v = vgather_masked(A, offs, iota(8) < 3)
        vscatter_masked(B, offs, v, iota(8) < 3)
        vstore_masked(A, far, vload_strided_masked(A, far, 2, mask), mask)

    def tail(A, B, n):
        mask = iota(8) < n
        vstore_masked(B, 4, vload_masked(A, 4, mask), mask)

    a, b = np.arange(8.0), np.zeros(8)
    compiled(tail)(a[:7], b[:7], 3)
    assert b.tolist() == [0, 0, 0, 0, 4, 5, 6, 0]
    b[:] = 0
    agree(tail, a[:7].copy(), np.zeros(7), 3)
    with pytest.raises(IndexError, match=r"of an array of 7 elements"):
        plain(tail)(a[:7], b[:7].copy(), 4)
    assert agree(far_away, a, b, 1 << 40)[1].tolist() == [0, 1, 2, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("start", range(0, 16, 3))
def test_stream_stores_at_any_alignment(start: int) -> None:
    def kernel(A, B, start):
        vstore_stream(B, start, vload(A, 0, 16))
        vstore_stream(B, start + 16, vload(A, 16, 8))
        vstore_stream(B, start + 24, vload(A, 24, 40))

    a = np.arange(64, dtype=np.float32)
    _, b = agree(kernel, a, np.zeros(128, np.float32), start)
    np.testing.assert_array_equal(b[start : start + 64], a)


def test_half_memory() -> None:
    def kernel(A, B, M, D):
        offs, mask = vload(D, 0, 5), vload(M, 0, 5)
        store_half(B, 0, load_half(A, 0) + float32(1e-4))
        v = vload_half(A, 1, 5) * vload_half(A, 2, 5)
        vstore_half(B, 1, v)
        vstore_half(B, 10, vload_masked_half(A, 3, mask))
        vstore_half(B, 120, vload_if_half(load(B, 0) >= 0, A, 2, v))
        vstore_half(B, 15, vgather_half(A, offs))
        vstore_half(B, 20, vgather_masked_half(A, offs, mask))
        vstore_half(B, 25, vload_strided_half(A, 1, 3, 5))
        vstore_half(B, 110, vload_strided_masked_half(A, 1, 3, mask))
        vstore_half(B, 115, vload_columns_half(A, 0, 4, 3, 5)[1])
        vstore_half(B, 125, vload_shuffled_half(A, 27, (1, 0, 0, 2, 1)))
        vstore_masked_half(B, 30, v, mask)
        vscatter_half(B, offs + 35, v)
        vscatter_masked_half(B, offs + 60, v, mask)
        vstore_strided_half(B, 90, 2, v)
        vstore_stream_half(B, 100, v)
        tmp = stack_array(8, "uint16")
        store_half(tmp, 3, float32(70000))
        store_half(B, 105, load_half(tmp, 3))

    a = np.random.default_rng(0).normal(size=30).astype(np.float16).view(np.uint16)
    offs = np.array([3, 9, 0, 21, 4], np.int64)
    out = agree(kernel, a, np.zeros(130, np.uint16), samples("bool", 5), offs)[1]
    assert out.view(np.float16)[105] == np.inf


def test_halves_round_trip_and_float32_rounds_to_even() -> None:
    def kernel(A, B):
        for i in range(A.size):
            store(B, i, half(load(A, i)))

    def roundtrip(A, B):
        for i in range(0, A.size, 16):
            vstore_half(B, i, half(vload_half(A, i, 16)))

    bits = np.arange(65536, dtype=np.uint16)
    back = np.zeros_like(bits)
    compiled(roundtrip)(bits, back)
    nan = np.isnan(bits.view(np.float16))
    np.testing.assert_array_equal(back[~nan], bits[~nan])
    assert np.isnan(back.view(np.float16)[nan]).all()
    # each half, the midpoint to the next, and the floats next to that midpoint
    halves = np.sort(bits[:0x7C00].view(np.float16)).astype(np.float32)
    middle = (halves[1:] + halves[:-1]) / 2
    x = np.r_[middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), 65519.9, 65520.0]
    x = np.r_[x, -x].astype(np.float32)
    rounded = np.zeros_like(x)
    compiled(kernel)(x, rounded)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(rounded, x.astype(np.float16).astype(np.float32))
    # the twin runs element by element
    agree(kernel, x[::7].copy(), np.zeros_like(x[::7]))


@pytest.mark.parametrize(
    "dtype",
    slow_but(
        ["float64", "float32", "int8"], ["float64", "float32", "int64", "uint64", "int8", "bool"]
    ),
)
def test_half_from_rounds_once(dtype: str) -> None:
    def kernel(A, B):
        for i in range(A.size):
            store(B, i, half_from(load(A, i)))
        for i in range(0, A.size - 7, 8):
            vstore(B, i, half_from(vload(A, i, 8)))

    a = samples(dtype, 400)
    if dtype == "float64":
        halves = np.sort(np.arange(0x7C00, dtype=np.uint16).view(np.float16)).astype(np.float64)
        middle = (halves[1:] + halves[:-1]) / 2
        # values that rounding to float32 first would get wrong
        near = np.r_[middle * (1 + 2e-16), middle * (1 - 2e-16), middle * (1 + 1e-9), middle]
        a = np.r_[a, near, -near, 1e-300, 1e300, 65520.0, 65519.99999999999]
    # the twin runs element by element
    some = a[::7].copy() if dtype == "float64" else a
    agree(kernel, some, np.zeros(some.size, np.float32))
    got = np.zeros(a.size, np.float32)
    compiled(kernel)(a, got)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, a.astype(np.float16).astype(np.float32))


def test_scratch_arrays() -> None:
    def kernel(A, B, n):
        tmp = stack_array(33, float32)
        flags = stack_array(4, "bool")
        big = heap_array(n + 1, int32)
        store(flags, 2, n > 3)
        for i in range(32):
            store(tmp, i, load(A, i) * float32(2))
        vstore(big, 0, int32(vload(tmp, 0, 32)))
        store(big, 32, int32(load(flags, 2)))
        vstore(B, 0, float32(vload(big, 1, 32)))

    agree(kernel, np.arange(32, dtype=np.float32), np.zeros(32, np.float32), 40)


def test_scratch_is_aligned() -> None:
    def kernel(n):
        a, b = stack_array(3, float32), stack_array(5, int8)
        c, d = heap_array(n, float64), heap_array(n, "uint16")
        store(a, 0, float32(n)), store(b, 0, int8(n)), store(c, 0, 1.0), store(d, 0, uint16(1))
        return a.ctypes.data, b.ctypes.data, c.ctypes.data, d.ctypes.data, load(a, 0), c.size

    *addresses, first, size = compiled(kernel)(7)
    assert [at % 64 for at in addresses] == [0, 0, 0, 0]
    assert (first, size) == (7.0, 7)


@pytest.mark.parametrize(
    "read",
    [
        "vload(A, 0, 8)",
        "vload_masked(A, 0, broadcast(True, 8))",
        "vload_strided(A, 0, 2, 8)",
        "vload_if(A.size > 3, A, 0, broadcast(float32(0), 8))",
    ],  # fmt: skip
)
def test_spilled_vectors_are_aligned_to_cache_lines(read: str) -> None:
    """Without this alignment, the speed depends on the address of the stack."""
    scope: dict[str, Any] = {}
    exec(f"def kernel(A, B): vstore(B, 0, {read})", scope)
    made = compiled(scope["kernel"])
    made(np.ones(16, "float32"), np.zeros(8, "float32"))
    (code,) = made.inspect_llvm().values()
    assert "alignstack(64)" in code


def test_each_parallel_call_has_its_own_stack_array() -> None:
    @numba.njit(nogil=True)
    def body(i: int, B: np.ndarray) -> None:
        tmp = stack_array(256, "int64")
        for k in range(256):
            store(tmp, k, i * k)
        total = 0
        for k in range(256):
            total += load(tmp, k)
        store(B, i, total)

    @numba.njit(parallel=True)
    def run(B: np.ndarray) -> None:
        for i in numba.prange(B.size):
            body(i, B)

    out = np.zeros(500, np.int64)
    run(out)
    np.testing.assert_array_equal(out, np.arange(500) * (255 * 128))


def test_vectors_are_values_between_functions() -> None:
    @numba.njit(**OPTIONS)
    def step(v: Any, mask: Any, k: int) -> Any:
        return select(mask, v * v, v), mask ^ (iota(4) == k)

    @numba.njit(**OPTIONS)
    def run(A: np.ndarray, n: int) -> float:
        v = vload(A, 0, 4)
        mask = v > broadcast(1.0, 4)
        best = v
        for k in range(n):
            v, mask = step(v, mask, k)
            if k % 2 == 0:
                best = v
            best += v
        return reduce_add(best)

    a, mask = np.array([0.5, 1.5, 2.0, 1.0]), np.array([False, True, True, False])
    v = best = a
    for k in range(4):
        v, mask = np.where(mask, v * v, v), mask ^ (np.arange(4) == k)
        best = (v if k % 2 == 0 else best) + v
    assert run(a, 4) == pytest.approx(best.sum())


def test_threads_run_at_once() -> None:
    def kernel(A, B):
        for i in range(0, A.size, 8):
            vstore(B, i, exp(vload(A, i, 8)))

    function = compiled(kernel)
    a = np.linspace(-3, 3, 4096).astype(np.float32)
    outs = [np.zeros_like(a) for _ in range(4)]
    threads = [threading.Thread(target=function, args=(a, out)) for out in outs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for out in outs:
        np.testing.assert_allclose(out, np.exp(a), rtol=3e-7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("minimum(load(A, 0), 1.0)", "cast them to one"),
        ("select(load(A, 0), 1, 2)", "give a boolean"),
        ("sqrt(3)", "cast them to one"),
        ("exp(3)", "takes floats"),
        ("vload(A, 0, 4) + vload(A, 0, 8)", "Vec"),
        ("vload(A, 0, 4) + 1.0", "Vec"),
    ],
)
def test_mixed_dtypes_are_refused(text: str, message: str) -> None:
    scope: dict[str, Any] = values_of(intrinsics)
    exec(f"def kernel(A):\n    return {text}", scope)
    with pytest.raises(TypingError, match=message):
        numba.njit(scope["kernel"])(np.zeros(8, np.float32))


# ---- checks of the twins ----


@pytest.mark.parametrize(
    "access",
    [
        lambda A: twins.load(A, 8),
        lambda A: twins.load(A, -1),
        lambda A: twins.store(A, 8, 1.0),
        lambda A: twins.vload(A, 5, 4),
        lambda A: twins.vload(A, -1, 4),
        lambda A: twins.vstore(A, 5, np.zeros(4, np.float32)),
        lambda A: twins.vgather(A, np.array([0, 8])),
        lambda A: twins.vscatter(A, np.array([0, -1]), np.zeros(2, np.float32)),
        lambda A: twins.vload_strided(A, 0, 3, 4),
        lambda A: twins.vstore_strided(A, 2, -1, np.zeros(4, np.float32)),
        lambda A: twins.vload_if(True, A, 5, np.zeros(4, np.float32)),
        lambda A: twins.vload_masked(A, 5, np.array([True, True, True, True])),
        lambda A: twins.vstore_masked(A, 7, np.zeros(2, np.float32), np.array([True, True])),
    ],
)
def test_twins_check_offsets(access: Callable[[np.ndarray], Any]) -> None:
    with pytest.raises(IndexError, match=r"offsets? -?\d+.* of an array of 8 elements"):
        access(np.zeros(8, np.float32))


@pytest.mark.parametrize("dtype", [*DTYPES, "boolean"])
def test_twins_poison_scratch(dtype: str) -> None:
    for make in (twins.stack_array, twins.heap_array):
        for name in (dtype, getattr(twins, dtype)):
            array = make(5, name)
            assert array.dtype == dtype.replace("boolean", "bool")
            assert np.isnan(array).all() if dtype in FLOATS else (array % 2 == 1).all()
    assert np.isnan(twins.load_half(twins.stack_array(1, "uint16"), 0))
