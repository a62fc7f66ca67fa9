"""The element types of ONNX: the dtypes that they are, and why the others are refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.errors import FrontendError, explain

# numbers of TensorProto.DataType
DTYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64",
    9: "bool", 10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64",
    15: "complex128", 16: "bfloat16",
}  # fmt: skip
_OTHERS = {
    8: "string", 17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz",
    21: "uint4", 22: "int4", 23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip


def dtype_of(number: int, what: str) -> str:
    """Return the dtype of an element type of ONNX; ``what`` has it.

    Raises :class:`~schedlang.errors.FrontendError` for strings and for types of less than 16 bits
    besides integers of 8 bits.

    >>> dtype_of(1, "input x"), dtype_of(9, "input x")
    ('float32', 'bool')
    """
    dtype = DTYPES.get(number)
    if dtype is not None:
        return dtype
    if number == 0:
        raise FrontendError(explain(what, "the file does not say which type its elements have"))
    raise FrontendError(
        explain(
            what,
            f"its elements are of type {_OTHERS.get(number, f'number {number}')}, which has no "
            "dtype here",
            f"Export the model with one of {', '.join(DTYPES.values())}.",
        )
    )


def array_dtype(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype of arrays of ``dtype``; for bfloat16 it comes from ml_dtypes."""
    if dtype == "bfloat16":
        from ml_dtypes import bfloat16

        return np.dtype(bfloat16)
    return np.dtype(dtype)
