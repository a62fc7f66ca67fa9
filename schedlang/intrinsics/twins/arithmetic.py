"""Casts, arithmetic and choices of NumPy scalars and small arrays."""

# the compiled function of the same name has the docstring

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.expr import special_values
from schedlang.expr.bfloat import from_bits, to_bits
from schedlang.expr.bfloat import rounded as rounded_bfloat

Array = np.ndarray
Value = Any

quiet = np.errstate(all="ignore")


@quiet
def cast(x: Value, dtype: Any) -> Value:
    """Return ``x`` cast by the rules of the language; ``x`` may be a Python number."""
    return special_values.converted(x, np.dtype(dtype).name)


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


@quiet
def to_half(x: Value) -> Value:
    """Return any number as float16."""
    return np.asarray(x).astype(np.float16)[()]


def half(x: Value) -> Value:
    return cast(to_half(x), np.float32)


def half_from(x: Value) -> Value:
    return cast(to_half(x), np.float32)


@quiet
def bfloat(x: Value) -> Value:
    return rounded_bfloat(x)


@quiet
def bfloat_from(x: Value) -> Value:
    return rounded_bfloat(x)


def bfloat_value(bits: Value) -> Value:
    return from_bits(bits)


def bfloat_bits(x: Value) -> Value:
    return to_bits(x)


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
def fma(a: Value, b: Value, c: Value) -> Value:
    dtype = np.result_type(a, b, c)
    wide = np.float64 if dtype == np.float32 else np.longdouble
    return cast(np.multiply(a, b, dtype=wide) + c, dtype)


def copysign(a: Value, b: Value) -> Value:
    return np.copysign(a, b)
