"""bfloat16 in NumPy, which has no such dtype: values are float32, rounded to 8 significant bits.

A bfloat16 is the upper half of a float32. Its arrays have the dtype of ml_dtypes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.expr import dtypes, special_values

# half of the last bit that a bfloat16 keeps, the bits it keeps, and the bit of a quiet NaN
_HALF, _KEPT, _QUIET = np.uint32(0x7FFF), np.uint32(0xFFFF0000), np.uint32(0x00400000)
# integers below are exact as float64; of larger ones the low bits only decide ties
_EXACT, _LOW = 2**40, 0xFFFF


def holding_dtype(dtype: str) -> str:
    """Return the NumPy dtype that holds values of ``dtype``: float32 for bfloat16."""
    return "float32" if dtype == "bfloat16" else dtype


def convert_values(x: Any, dtype: str) -> Any:
    """Return ``x`` as values of ``dtype``, by the rules of casts; bfloat16 is held as float32."""
    if dtype == "bfloat16":
        return round_to_bfloat16(x)
    return special_values.convert_dtype(x, dtype)


def round_to_bfloat16(x: Any) -> Any:
    """Return numbers rounded once to the nearest bfloat16, ties to even, as float32.

    >>> round_to_bfloat16(np.array([1.0, 1.00390625, 1.01171875], "float32")).tolist()
    [1.0, 1.0, 1.015625]
    """
    single = _single(np.asarray(x))
    bits = np.asarray(single).view(np.uint32)
    with np.errstate(over="ignore"):
        near = bits + (_HALF + ((bits >> np.uint32(16)) & np.uint32(1)))
    near = np.where(single == single, near, bits | _QUIET) & _KEPT
    return near.astype(np.uint32, copy=False).view(np.float32)[()]


def _single(x: np.ndarray) -> np.ndarray:
    """Return ``x`` as float32 that rounds correctly to bfloat16: toward odd if inexact."""
    if x.dtype in (np.float32, np.float16, np.bool_) or x.dtype.name == "bfloat16":
        return x.astype(np.float32)
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        low = (x & x.dtype.type(_LOW)) != 0
        # set the bit below the bits of float64, if any bit that it drops is set
        odd = (x & ~x.dtype.type(_LOW)) | np.where(low, x.dtype.type(0x8000), x.dtype.type(0))
        large = (x >= _EXACT) | (x <= -_EXACT) if x.dtype.kind == "i" else x >= _EXACT
        x = np.where(large, odd, x)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        near = wide.astype(np.float32)
        back = near.astype(np.float64)
        inexact = (wide == wide) & (back != wide)
        far = inexact & (np.abs(back) > np.abs(wide))
    bits = near.view(np.uint32) - far.astype(np.uint32)
    return (bits | inexact.astype(np.uint32)).view(np.float32)


def as_float32(x: Any) -> Any:
    """Return a scalar of ml_dtypes' bfloat16 as float32, and any other value unchanged."""
    return np.float32(x) if isinstance(x, np.generic) and x.dtype.name == "bfloat16" else x


def from_bits(bits: Any) -> Any:
    """Return the bfloat16 values of 16-bit patterns, as float32."""
    return (np.asarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32)[()]


def to_bits(x: Any) -> Any:
    """Return the 16-bit patterns of bfloat16 values, which are given as float32."""
    return (np.asarray(x, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)[()]


def as_array(values: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array of ``dtype`` from one that holds its values (see :func:`holding_dtype`)."""
    if dtype != "bfloat16":
        return values
    return np.asarray(to_bits(values)).view(dtypes.array_dtype(dtype)).reshape(values.shape)
