"""Casts, arithmetic and choices of NumPy scalars and small arrays."""

# the compiled function of the same name has the docstring

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from schedlang.expr import special_values
from schedlang.expr.bfloat import from_bits, to_bits
from schedlang.expr.bfloat import round_to_bfloat16 as rounded_bfloat
from schedlang.expr.dtypes import DTYPES, is_integer

Array = np.ndarray
Value = Any

quiet = np.errstate(all="ignore")


# NumPy derives the name of a dtype anew each time
_name_of = cache(lambda dtype: np.dtype(dtype).name)


@quiet
def cast(x: Value, dtype: Any) -> Value:
    """Return ``x`` cast by the rules of the language; ``x`` may be a Python number."""
    return special_values.convert_dtype(x, _name_of(dtype))


def float32(x: Value) -> Value:
    kind = type(x)
    if kind is np.float32:
        return x
    return np.float32(x) if kind is float and abs(x) < 3e38 else cast(x, np.float32)


def float64(x: Value) -> Value:
    kind = type(x)
    if kind is np.float64:
        return x
    return np.float64(x) if kind is float else cast(x, np.float64)


def _caster(name: str, dtype: str) -> Callable[[Value], Value]:
    own = np.dtype(dtype)
    scalar = own.type
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(own).min, np.iinfo(own).max)

    def to_dtype(x: Value) -> Value:
        kind = type(x)
        if kind is scalar:
            return x
        if kind is int and low <= x <= high:
            return scalar(x)
        # integers wrap, of which NumPy does not warn
        if isinstance(x, np.generic) and x.dtype.kind in "iub":
            return x.astype(own)
        return cast(x, dtype)

    to_dtype.__name__ = name
    return to_dtype


globals().update({t: _caster(t, t) for t in DTYPES if is_integer(t)})
boolean = _caster("boolean", "bool")


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
