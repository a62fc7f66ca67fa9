"""Operations whose value NumPy leaves to the machine: docs/reference/dtypes.md has the rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.expr.dtypes import is_integer


def truncate(x: Any, dtype: str) -> Any:
    """Return floats as integers of ``dtype``: truncated toward zero, then the low bits.

    They are truncated to int64, or to int32 for int32 and narrower dtypes. What does not fit there,
    NaN too, is the lowest number of that dtype. A uint64 takes 2**63 and more, too.

    >>> truncate(np.array([-1.5, 300.7, 3e9, np.nan]), "int32").tolist()
    [-1, 300, -2147483648, -2147483648]
    >>> truncate(np.array([-1.5, 300.7, 3e9, np.nan]), "uint8").tolist()
    [255, 44, 0, 0]
    """
    wide = np.asarray(x, np.float64)
    if dtype == "uint64":
        high = wide >= 2.0**63
        low = np.asarray(truncate(np.where(high, wide - 2.0**63, wide), "int64"))
        return (low.view(np.uint64) ^ (high.astype(np.uint64) << np.uint64(63)))[()]
    narrow = np.dtype(dtype).itemsize < 4 or dtype == "int32"
    via = np.dtype(np.int32 if narrow else np.int64)
    end = -float(np.iinfo(via).min)
    # below -2**63, no float64 is truncated to it
    inside = (wide < end) & (wide > -end - 1 if narrow else wide >= -end)
    if inside.all():
        return wide.astype(via).astype(dtype)[()]
    whole = np.where(inside, wide, 0.0).astype(via)
    return np.where(inside, whole, np.iinfo(via).min).astype(via).astype(dtype)[()]


def convert_dtype(x: Any, dtype: str) -> Any:
    """Return ``x`` as values of a dtype of NumPy: as by ``astype``, and :func:`truncate`."""
    array = np.asarray(x)
    if is_integer(dtype):
        if array.dtype.kind == "f":
            return truncate(array, dtype)
        if array.dtype.kind in "iub":
            # integers wrap, of which NumPy does not warn
            return array.astype(dtype, copy=False)[()]
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype, copy=False)[()]


def tf32(x: Any) -> Any:
    """Return float32 rounded to the 11 bits of mantissa that TF32 has, ties away from 0.

    >>> tf32(np.array([1 + 2**-11, 1 + 2**-12, -np.inf, np.nan], "float32")).tolist()
    [1.0009765625, 1.0, -inf, nan]
    """
    floats = np.asarray(x, np.float32)
    bits = (floats.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(floats), floats, bits.view(np.float32))[()]


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller of ``a`` and ``b``, the first of zeros; NaN if either is NaN.

    >>> minimum(np.array([0.0, -0.0, 2.0]), np.array([-0.0, 0.0, np.nan])).tolist()
    [0.0, -0.0, nan]
    """
    return _first(np.minimum, a, b)


def maximum(a: Any, b: Any) -> Any:
    """Return the larger of ``a`` and ``b``, the first of zeros; NaN if either is NaN."""
    return _first(np.maximum, a, b)


def _first(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    result = ufunc(a, b)
    if result.dtype.kind != "f":
        return result
    # NumPy returns either zero
    return np.where(np.equal(a, b), a, result).astype(result.dtype, copy=False)[()]


def power(a: Any, b: Any) -> Any:
    """Return ``a ** b``.

    An integer to a negative power, where NumPy raises, is truncated toward zero: 1 and -1 have
    powers, and others, 0 too, are 0.

    >>> power(np.array([1, -1, 2, 0]), np.array([-3, -3, -3, -3])).tolist()
    [1, -1, 0, 0]
    """
    kind = np.result_type(a, b).kind
    if kind == "f":
        return float_power(a, b)
    if kind != "i" or not np.any(np.less(b, 0)):
        return np.power(a, b)
    one = np.ones_like(a)
    inverse = np.where(a == 1, one, np.where(a == -1, np.where(b % 2, -one, one), a - a))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0)))[()]


def float_power(a: Any, b: Any) -> Any:
    """Return ``a ** b`` of floats as IEEE 754 defines it, in their dtype.

    For a scalar exponent 0.5, ``np.power`` returns the square root, which differs at -0.0 and -inf.

    >>> float(float_power(-np.inf, 0.5)), float(np.power(-np.inf, np.array([0.5, 2.0]))[0])
    (inf, inf)
    """
    with np.errstate(all="ignore"):
        result = np.power(a, b)
    root = np.equal(b, 0.5)
    if not np.any(root):
        return result
    root_value = np.where(np.equal(a, -np.inf), np.inf, np.add(result, 0.0))
    return np.where(root, root_value, result).astype(result.dtype)[()]


def saturate(x: Any, dtype: str) -> Any:
    """Return the integers of ``dtype`` nearest to ``x``, floats truncated toward zero, NaN as 0.

    >>> saturate(np.array([-1.0, 2.9, 300.0, np.nan]), "uint8")
    array([  0,   2, 255,   0], dtype=uint8)
    """
    array, info = np.asarray(x), np.iinfo(dtype)
    if array.dtype.kind != "f":
        own = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.iinfo(np.uint8)
        limited = np.clip(array, max(info.min, own.min), min(info.max, own.max))
        return limited.astype(dtype)[()]
    wide = array.astype(np.float64)
    # the integer after the largest is a float, which the largest may not be
    low, high = wide <= float(info.min), wide >= float(info.max + 1)
    inside = np.where(low | high | np.isnan(wide), 0.0, wide).astype(dtype)
    limited = np.where(low, np.array(info.min, dtype), inside)
    return np.where(high, np.array(info.max, dtype), limited)[()]
