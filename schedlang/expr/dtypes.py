"""Element types and their promotion by NumPy 2's rules, with weak scalars.

A *weak* operand (a Python number, an axis, a symbolic size) takes the dtype of the tensor
expression that it is combined with. Two tensor expressions promote as in ``numpy.promote_types``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, missing_extra

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
INDEX = "int64"
# offsets are signed 64-bit numbers
LARGEST_BYTES = 2**63

# stored in 16 bits, computed in float32
SHORT_FLOATS = ("float16", "bfloat16")
_KIND = {name: "f" if name == "bfloat16" else np.dtype(name).kind for name in DTYPES}
_LARGEST_BFLOAT = float.fromhex("0x1.fep127")
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
_PART = {"complex64": "float32", "complex128": "float64"}


# names that mean another dtype than NumPy's, while a function of te computes an expression
NAMES: ContextVar[Mapping[str, str]] = ContextVar("names of dtypes", default=MappingProxyType({}))


def canonical(dtype: object) -> str:
    """Return the name of ``dtype``, which may be a string, a NumPy dtype or a scalar type.

    Raises :class:`ComputeTypeError` for a dtype that schedlang does not have.

    >>> canonical(np.float32), canonical("int"), canonical(bool)
    ('float32', 'int64', 'bool')
    """
    if isinstance(dtype, str):
        if dtype in _KIND:
            return dtype
        dtype = NAMES.get().get(dtype, dtype)
    try:
        name = np.dtype(dtype).name  # type: ignore[call-overload]
    except TypeError:
        name = str(dtype)
    if name not in _KIND:
        raise ComputeTypeError(
            f"dtype {name!r} is not supported: choose one of {', '.join(DTYPES)}"
        )
    return name


def is_float(dtype: str) -> bool:
    return _KIND[dtype] == "f"


def is_complex(dtype: str) -> bool:
    return dtype in _PART


def part_of(dtype: str) -> str:
    """Return the dtype of the real and the imaginary part of a complex dtype.

    >>> part_of("complex64")
    'float32'
    """
    return _PART[dtype]


def is_integer(dtype: str) -> bool:
    return _KIND[dtype] in "iu"


def itemsize(dtype: str) -> int:
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


def kind(dtype: str) -> str:
    """Return NumPy's letter for the kind of ``dtype``: ``b``, ``i``, ``u``, ``f`` or ``c``."""
    return _KIND[dtype]


def largest(dtype: str) -> float:
    """Return the largest finite value of a float dtype, or of a part of a complex one.

    >>> largest("float16"), f"{largest('bfloat16'):.3g}"
    (65504.0, '3.39e+38')
    """
    return _LARGEST_BFLOAT if dtype == "bfloat16" else float(np.finfo(dtype).max)


def register_dtype(dtype: str) -> str:
    """Return the dtype of registers for ``dtype``: float32 for short floats."""
    return "float32" if dtype in SHORT_FLOATS else dtype


def storage_dtype(dtype: str) -> str:
    """Return the dtype of the elements of arrays in kernels.

    Short floats are stored as their bits, uint16, and complex numbers as their parts.
    """
    return "uint16" if dtype in SHORT_FLOATS else _PART.get(dtype, dtype)


def array_dtype(dtype: str) -> Any:
    """Return the NumPy dtype of arrays of ``dtype``; for bfloat16 it comes from ml_dtypes.

    Raises :class:`~schedlang.errors.MissingExtraError` if ml_dtypes is not installed.
    """
    if dtype != "bfloat16":
        return np.dtype(dtype)
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise missing_extra("ml_dtypes", "bfloat16", "an array of bfloat16") from None
    return np.dtype(bfloat16)


def can_cast(source: str, dtype: str, rule: str) -> bool:
    """Return whether ``source`` casts to ``dtype`` under NumPy's ``rule``, ``safe`` or so.

    >>> can_cast("int8", "bfloat16", "safe"), can_cast("bfloat16", "float16", "safe")
    (True, False)
    """
    if "bfloat16" not in (source, dtype):
        return bool(np.can_cast(source, dtype, rule))  # type: ignore[arg-type]
    if rule == "safe":
        return _common(source, dtype) == dtype
    return _RANK[_KIND[source]] <= _RANK[_KIND[dtype]]


def _common(a: str, b: str) -> str:
    """Return the dtype of an operation on tensor expressions of two dtypes.

    With bfloat16, which NumPy lacks, it is the smallest float that holds both.
    """
    if a == b:
        return a
    if "bfloat16" not in (a, b):
        return str(np.promote_types(a, b).name)
    other = b if a == "bfloat16" else a
    if other in ("bool", "int8", "uint8"):
        return "bfloat16"
    if other in _PART:
        return other
    return "float32" if other in ("float16", "int16", "uint16", "float32") else "float64"


def limits(dtype: str) -> tuple[int, int]:
    """Return the smallest and largest value of an integer dtype; for bool, 0 and 1."""
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def promote(a: str, weak_a: bool, b: str, weak_b: bool) -> tuple[str, bool]:
    """Return the dtype of an operation on ``a`` and ``b``, and whether the result is weak.

    >>> promote("float32", False, "int64", True)
    ('float32', False)
    >>> promote("int32", False, "float64", True)
    ('float64', False)
    >>> promote("int32", False, "float32", False)
    ('float64', False)
    """
    if weak_a and weak_b:
        if a == b:
            return a, True
        return _common(a, b), True
    if weak_a != weak_b:
        strong, weak = (b, a) if weak_a else (a, b)
        if _RANK[_KIND[weak]] <= _RANK[_KIND[strong]]:
            return strong, False
        if weak in _PART:
            single = is_float(strong) and register_dtype(strong) == "float32"
            return "complex64" if single else "complex128", False
        return weak, False
    return _common(a, b), False


def float_of(dtype: str, weak: bool) -> str:
    """Return the dtype in which NumPy evaluates functions such as ``np.exp`` on ``dtype``.

    >>> float_of("float32", False), float_of("int8", False), float_of("int64", True)
    ('float32', 'float16', 'float64')
    """
    if is_float(dtype) or is_complex(dtype):
        return dtype
    if weak:
        return "float64"
    return {"bool": "float16", "int8": "float16", "uint8": "float16", "int16": "float32",
            "uint16": "float32"}.get(dtype, "float64")  # fmt: skip
