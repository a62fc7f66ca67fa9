"""Element types and their promotion by NumPy 2's rules, with weak scalars.

A *weak* operand (a Python number, an axis, a symbolic size) takes the dtype of the tensor
expression that it is combined with. Two tensor expressions promote as in ``numpy.promote_types``.
"""

from __future__ import annotations

import numpy as np

from schedlang.errors import ComputeTypeError, explain

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip
INDEX = "int64"
_COMPLEX = ("complex64", "complex128", "clongdouble", "complex256")
# what to write instead of complex arithmetic
PARTS = (
    "Compute the real and the imaginary part apart, as two real expressions: "
    "(a + b*1j)*(c + d*1j) is a*c - b*d and a*d + b*c."
)
# offsets are signed 64-bit numbers
LARGEST_BYTES = 2**63

_KIND = {name: np.dtype(name).kind for name in DTYPES}
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2}


def canonical(dtype: object) -> str:
    """Return the name of ``dtype``, which may be a string, a NumPy dtype or a scalar type.

    Raises :class:`ComputeTypeError` for a dtype that schedlang does not have.

    >>> canonical(np.float32), canonical("int"), canonical(bool)
    ('float32', 'int64', 'bool')
    """
    if isinstance(dtype, str) and dtype in _KIND:
        return dtype
    try:
        name = np.dtype(dtype).name  # type: ignore[call-overload]
    except TypeError:
        name = str(dtype)
    if name in _COMPLEX:
        raise ComputeTypeError(explain(f"dtype {name!r}", "no dtype holds complex numbers", PARTS))
    if name not in _KIND:
        raise ComputeTypeError(
            f"dtype {name!r} is not supported: choose one of {', '.join(DTYPES)}"
        )
    return name


def is_float(dtype: str) -> bool:
    return _KIND[dtype] == "f"


def is_integer(dtype: str) -> bool:
    return _KIND[dtype] in "iu"


def itemsize(dtype: str) -> int:
    return np.dtype(dtype).itemsize


def limits(dtype: str) -> tuple[int, int]:
    """Return the smallest and largest value of an integer dtype; those of bool are 0 and 1."""
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
        return str(np.promote_types(a, b).name), True
    if weak_a != weak_b:
        strong, weak = (b, a) if weak_a else (a, b)
        if _RANK[_KIND[weak]] <= _RANK[_KIND[strong]]:
            return strong, False
        return weak, False
    return (a if a == b else str(np.promote_types(a, b).name)), False


def float_of(dtype: str, weak: bool) -> str:
    """Return the dtype in which NumPy evaluates functions such as ``np.exp`` on ``dtype``.

    >>> float_of("float32", False), float_of("int8", False), float_of("int64", True)
    ('float32', 'float16', 'float64')
    """
    if is_float(dtype):
        return dtype
    if weak:
        return "float64"
    return {"bool": "float16", "int8": "float16", "uint8": "float16", "int16": "float32",
            "uint16": "float32"}.get(dtype, "float64")  # fmt: skip
