"""The intrinsics of `schedlang.runtime.intrinsics` in NumPy, for kernels that run uncompiled.

They have the same names and the same meaning.  A scalar is a NumPy scalar, a vector a small array.
Every access is checked and may raise IndexError.  Scratch arrays are first filled with NaN or an
odd number, so that a read before the first write shows.  Run a kernel under
`numpy.errstate(all="ignore")`: its plain operators are NumPy's own and warn of overflow.
"""

# the compiled function of the same name has the docstring

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from schedlang.codegen.dialect import NAMES
from schedlang.expr.evaluate import float_power

__all__ = list(NAMES)

Array = np.ndarray
Value = Any

# a float16 array is uint16: there the pattern is a NaN
POISON: dict[str, Any] = {
    "float32": np.nan,
    "float64": np.nan,
    "bool": True,
    "uint16": 0x7EA5,
    "int8": -0x5B,
    "int16": -0x5A5B,
    "int32": -0x5A5A5A5B,
    "int64": -0x5A5A5A5A5A5A5A5B,
    "uint8": 0xA5,
    "uint32": 0xA5A5A5A5,
    "uint64": 0xA5A5A5A5A5A5A5A5,
}

quiet = np.errstate(all="ignore")


def check(what: str, A: Array, low: int, high: int) -> None:
    """Raise IndexError if elements low..high are not all in the array."""
    if low < 0 or high >= A.size:
        at = f"offset {low}" if low == high else f"offsets {low}..{high}"
        raise IndexError(f"{what} at {at} of an array of {A.size} elements")


def halves(A: Array) -> Array:
    """Return an array of uint16 as the float16 that it stores."""
    return A.view(np.float16)


@quiet
def to_half(x: Value) -> Value:
    """Return any number as float16."""
    return np.asarray(x).astype(np.float16)[()]


def load(A: Array, off: int) -> Value:
    if not 0 <= off < A.size:
        check("load", A, off, off)
    return A[off]


@quiet
def store(A: Array, off: int, x: Value) -> None:
    if not 0 <= off < A.size:
        check("store", A, off, off)
    A[off] = x


def load_half(A: Array, off: int) -> Value:
    return np.float32(load(halves(A), off))


def store_half(A: Array, off: int, x: Value) -> None:
    store(halves(A), off, x)


def vload(A: Array, off: int, lanes: int) -> Array:
    if off < 0 or off + lanes > A.size:
        check("vload", A, off, off + lanes - 1)
    return A[off : off + lanes].copy()


def vload_if(test: Any, A: Array, off: int, other: Array) -> Array:
    return vload(A, off, other.size) if test else other


def vload_if_half(test: Any, A: Array, off: int, other: Array) -> Array:
    return vload_half(A, off, other.size) if test else other


@quiet
def vstore(A: Array, off: int, v: Array) -> None:
    if off < 0 or off + v.size > A.size:
        check("vstore", A, off, off + v.size - 1)
    A[off : off + v.size] = v


def vload_half(A: Array, off: int, lanes: int) -> Array:
    return vload(halves(A), off, lanes).astype(np.float32)


def vstore_half(A: Array, off: int, v: Array) -> None:
    vstore(halves(A), off, v)


vstore_stream = vstore
vstore_stream_half = vstore_half


def stream_fence() -> None:
    """Do nothing: writes are in order."""


def apart(*arrays: Array) -> None:
    """Do nothing: there is no compiler."""


def rolled(vectors: int) -> None:
    """Do nothing: there is no vectorizer."""


def rounded(x: Value) -> Value:
    return x


def prefetch(A: Array, off: int) -> None:
    """Do nothing: there is no cache to fill."""


def vgather(A: Array, offs: Array) -> Array:
    check("vgather", A, offs.min(), offs.max())
    return A[offs]


def vgather_half(A: Array, offs: Array) -> Array:
    return vgather(halves(A), offs).astype(np.float32)


def vgather_masked(A: Array, offs: Array, mask: Array) -> Array:
    v = np.zeros(offs.size, A.dtype)
    if mask.any():
        v[mask] = vgather(A, offs[mask])
    return v


def vgather_masked_half(A: Array, offs: Array, mask: Array) -> Array:
    return vgather_masked(halves(A), offs, mask).astype(np.float32)


@quiet
def vscatter(A: Array, offs: Array, v: Array) -> None:
    check("vscatter", A, offs.min(), offs.max())
    A[offs] = v


def vscatter_half(A: Array, offs: Array, v: Array) -> None:
    vscatter(halves(A), offs, v)


def vscatter_masked(A: Array, offs: Array, v: Array, mask: Array) -> None:
    if mask.any():
        vscatter(A, offs[mask], v[mask])


def vscatter_masked_half(A: Array, offs: Array, v: Array, mask: Array) -> None:
    vscatter_masked(halves(A), offs, v, mask)


def vload_masked(A: Array, off: int, mask: Array) -> Array:
    return vgather_masked(A, off + np.arange(mask.size), mask)


def vload_masked_half(A: Array, off: int, mask: Array) -> Array:
    return vload_masked(halves(A), off, mask).astype(np.float32)


def vstore_masked(A: Array, off: int, v: Array, mask: Array) -> None:
    vscatter_masked(A, off + np.arange(mask.size), v, mask)


def vstore_masked_half(A: Array, off: int, v: Array, mask: Array) -> None:
    vstore_masked(halves(A), off, v, mask)


def vload_strided(A: Array, off: int, stride: int, lanes: int) -> Array:
    return vgather(A, off + stride * np.arange(lanes))


def vload_strided_half(A: Array, off: int, stride: int, lanes: int) -> Array:
    return vload_strided(halves(A), off, stride, lanes).astype(np.float32)


def vload_strided_masked(A: Array, off: int, stride: int, mask: Array) -> Array:
    return vgather_masked(A, off + stride * np.arange(mask.size), mask)


def vload_strided_masked_half(A: Array, off: int, stride: int, mask: Array) -> Array:
    return vload_strided_masked(halves(A), off, stride, mask).astype(np.float32)


def vload_shuffled(A: Array, off: int, order: tuple[int, ...]) -> Array:
    return vgather(A, off + np.array(order))


def vload_shuffled_half(A: Array, off: int, order: tuple[int, ...]) -> Array:
    return vload_shuffled(halves(A), off, order).astype(np.float32)


def vload_columns(A: Array, off: int, stride: int, columns: int, lanes: int) -> tuple[Array, ...]:
    return tuple(vload_strided(A, off + k, stride, lanes) for k in range(columns))


def vload_columns_half(
    A: Array, off: int, stride: int, columns: int, lanes: int
) -> tuple[Array, ...]:
    return tuple(vload_strided_half(A, off + k, stride, lanes) for k in range(columns))


def vstore_strided(A: Array, off: int, stride: int, v: Array) -> None:
    vscatter(A, off + stride * np.arange(v.size), v)


def vstore_strided_half(A: Array, off: int, stride: int, v: Array) -> None:
    vstore_strided(halves(A), off, stride, v)


def broadcast(x: Value, lanes: int) -> Array:
    return np.full(lanes, x)


def iota(lanes: int) -> Array:
    return np.arange(lanes)


def lane(v: Array, i: int) -> Value:
    check("lane", v, i, i)
    return v[i]


def with_lane(v: Array, i: int, x: Value) -> Array:
    check("with_lane", v, i, i)
    w = v.copy()
    w[i] = x
    return w


@quiet
def reduction(fold: Callable[..., Value], v: Array) -> Value:
    """Return the lanes reduced by a function, by halves until one is left, and odd lanes last."""
    odd = []
    while v.size > 1:
        n = v.size // 2
        if v.size % 2:
            odd.append(v[2 * n])
        v = fold(v[:n], v[n : 2 * n])
    result = v[0]
    for x in reversed(odd):
        result = fold(result, x)
    return result


def reduce_add(v: Array) -> Value:
    return reduction(np.add, v)


def reduce_mul(v: Array) -> Value:
    return reduction(np.multiply, v)


def reduce_min(v: Array) -> Value:
    return reduction(np.minimum, v)


def reduce_max(v: Array) -> Value:
    return reduction(np.maximum, v)


def reduce_and(v: Array) -> Value:
    return reduction(np.bitwise_and, v)


def reduce_or(v: Array) -> Value:
    return reduction(np.bitwise_or, v)


def poisoned(n: int, dtype: Any) -> Array:
    """Return a new array filled with the poison value of its dtype."""
    name = dtype if isinstance(dtype, str) else dtype.__name__
    name = "bool" if name == "boolean" else name
    return np.full(max(n, 0), POISON[name], name)


def stack_array(n: int, dtype: Any) -> Array:
    return poisoned(n, dtype)


def heap_array(n: int, dtype: Any) -> Array:
    return poisoned(n, dtype)


@quiet
def cast(x: Value, dtype: Any) -> Value:
    """Return ``x`` cast as by NumPy's ``astype``; ``x`` may be a Python number."""
    return (x if isinstance(x, np.generic | np.ndarray) else np.asarray(x)).astype(dtype)[()]


def float32(x: Value) -> Value:
    return np.float32(x) if type(x) is float and abs(x) < 3e38 else cast(x, np.float32)


def float64(x: Value) -> Value:
    return np.float64(x) if type(x) is float else cast(x, np.float64)


def int8(x: Value) -> Value:
    return cast(x, np.int8)


def int16(x: Value) -> Value:
    return cast(x, np.int16)


def int32(x: Value) -> Value:
    return cast(x, np.int32)


def int64(x: Value) -> Value:
    return cast(x, np.int64)


def uint8(x: Value) -> Value:
    return cast(x, np.uint8)


def uint16(x: Value) -> Value:
    return cast(x, np.uint16)


def uint32(x: Value) -> Value:
    return cast(x, np.uint32)


def uint64(x: Value) -> Value:
    return cast(x, np.uint64)


def boolean(x: Value) -> Value:
    return cast(x, np.bool_)


def half(x: Value) -> Value:
    return cast(to_half(x), np.float32)


def half_from(x: Value) -> Value:
    return cast(to_half(x), np.float32)


add, subtract, multiply = quiet(np.add), quiet(np.subtract), quiet(np.multiply)
floordiv, mod = quiet(np.floor_divide), quiet(np.remainder)


def left_shift(a: Value, b: Value) -> Value:
    return np.left_shift(a, b)


def right_shift(a: Value, b: Value) -> Value:
    return np.right_shift(a, b)


def select(cond: Value, a: Value, b: Value) -> Value:
    if isinstance(cond, np.ndarray):
        return np.where(cond, a, b)
    return a if cond else b


@quiet
def minimum(a: Value, b: Value) -> Value:
    return np.minimum(a, b)


@quiet
def maximum(a: Value, b: Value) -> Value:
    return np.maximum(a, b)


@quiet
def fma(a: Value, b: Value, c: Value) -> Value:
    dtype = np.result_type(a, b, c)
    wide = np.float64 if dtype == np.float32 else np.longdouble
    return cast(np.multiply(a, b, dtype=wide) + c, dtype)


@quiet
def absolute(x: Value) -> Value:
    return np.absolute(x)


def copysign(a: Value, b: Value) -> Value:
    return np.copysign(a, b)


@quiet
def sqrt(x: Value) -> Value:
    return np.sqrt(x)


@quiet
def rsqrt(x: Value) -> Value:
    return cast(1, x.dtype) / np.sqrt(x)


@quiet
def floor(x: Value) -> Value:
    return np.floor(x)


@quiet
def ceil(x: Value) -> Value:
    return np.ceil(x)


@quiet
def trunc(x: Value) -> Value:
    return np.trunc(x)


@quiet
def round_even(x: Value) -> Value:
    return np.rint(x) if np.asarray(x).dtype.kind == "f" else x


def isnan(x: Value) -> Value:
    return np.isnan(x)


def isinf(x: Value) -> Value:
    return np.isinf(x)


def isfinite(x: Value) -> Value:
    return np.isfinite(x)


def mathematical(f: Callable[..., Any]) -> Callable[..., Value]:
    """Return a function that computes `f` in float64 and rounds to the dtype of its operands."""

    @quiet
    def twin(*operands: Value) -> Value:
        return cast(f(*operands, dtype=np.float64), np.result_type(*operands))

    return twin


exp = mathematical(np.exp)
exp2 = mathematical(np.exp2)
log = mathematical(np.log)
log2 = mathematical(np.log2)
log10 = mathematical(np.log10)
log1p = mathematical(np.log1p)
expm1 = mathematical(np.expm1)
sin = mathematical(np.sin)
cos = mathematical(np.cos)
tan = mathematical(np.tan)
asin = mathematical(np.arcsin)
acos = mathematical(np.arccos)
atan = mathematical(np.arctan)
sinh = mathematical(np.sinh)
cosh = mathematical(np.cosh)
tanh = mathematical(np.tanh)
asinh = mathematical(np.arcsinh)
acosh = mathematical(np.arccosh)
atanh = mathematical(np.arctanh)
atan2 = mathematical(np.arctan2)


def bits_int32(x: Value) -> Value:
    return np.asarray(x, np.float32).view(np.int32)[()]


def bits_int64(x: Value) -> Value:
    return np.asarray(x, np.float64).view(np.int64)[()]


def bits_float32(x: Value) -> Value:
    return np.asarray(x, np.int32).view(np.float32)[()]


def bits_float64(x: Value) -> Value:
    return np.asarray(x, np.int64).view(np.float64)[()]


@quiet
def sigmoid(x: Value) -> Value:
    return cast(1 / (1 + np.exp(-x, dtype=np.float64)), x.dtype)


@quiet
def erf(x: Value) -> Value:
    return cast(np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.float64), x.dtype)


@quiet
def power(x: Value, y: Value) -> Value:
    dtype = np.result_type(x, y)
    if dtype.kind != "f":
        return cast(np.power(x, y, dtype=dtype), dtype)
    return cast(float_power(np.float64(x), np.float64(y)), dtype)


def njit(**options: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator, in place of numba's, that leaves the function uncompiled."""
    return lambda function: function


prange = range
