"""The arrays in an ONNX file: checked before anything is read or made, and read when needed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import FrontendError, explain
from schedlang.frontend.onnx.beside import Beside
from schedlang.frontend.onnx.elements import array_dtype, dtype_of
from schedlang.frontend.onnx.limits import check_dims

# the fields that hold elements one by one, by dtype; the others hold them as int32
_FIELDS = {
    "float32": "float_data", "complex64": "float_data", "float64": "double_data",
    "complex128": "double_data", "int64": "int64_data", "uint32": "uint64_data",
    "uint64": "uint64_data",
}  # fmt: skip
_PARTS = {"complex64": "float32", "complex128": "float64"}
_ALL_FIELDS = (
    "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"
)  # fmt: skip
EXTERNAL = 1


@dataclass(frozen=True)
class Weight:
    """An array of a file: its dtype and shape, and the function that reads it."""

    dtype: str
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]


def weight(proto: Any, what: str, files: Beside) -> Weight:
    """Return the array of a ``TensorProto``, whose data must be exactly as much as its shape says.

    ``what`` names it in messages. Data beside the model must lie in ``files``. Raises
    :class:`~schedlang.errors.FrontendError` otherwise; nothing is read then.
    """
    dtype = dtype_of(proto.data_type, what)
    shape = check_dims(list(proto.dims), what)
    if proto.HasField("segment"):
        raise FrontendError(f"{what}: it is a segment of an array, which is not supported")
    count = math.prod(shape)
    if proto.data_location == EXTERNAL:
        read = files.reader(proto, what, count * _kind(dtype).itemsize, dtype)
        return Weight(dtype, shape, lambda: _of_bytes(read(), dtype, shape, what))
    filled = [name for name in _ALL_FIELDS if len(getattr(proto, name))]
    if proto.HasField("raw_data"):
        _check_count(what, shape, len(proto.raw_data), count * _kind(dtype).itemsize, "bytes")
        if filled:
            raise FrontendError(f"{what}: it has data twice, as raw_data and as {filled[0]}")
        return Weight(
            dtype, shape, lambda: _of_bytes(bytearray(proto.raw_data), dtype, shape, what)
        )
    field = _FIELDS.get(dtype, "int32_data")
    if [name for name in filled if name != field]:
        raise FrontendError(f"{what}: data of {dtype} must be in {field}, but are in {filled[0]}")
    held = len(getattr(proto, field))
    _check_count(what, shape, held, count * (2 if dtype in _PARTS else 1), "numbers")
    return Weight(dtype, shape, lambda: _of_numbers(getattr(proto, field), dtype, shape, what))


def _kind(dtype: str) -> np.dtype[Any]:
    """Return the NumPy dtype of the bytes in a file, which are little-endian."""
    return array_dtype(dtype) if dtype == "bfloat16" else np.dtype(dtype).newbyteorder("<")


def _check_count(what: str, shape: tuple[int, ...], held: int, needed: int, unit: str) -> None:
    if held != needed:
        raise FrontendError(
            explain(
                what,
                f"its shape {shape} needs {needed} {unit}, but the file has {held}",
                "The file is damaged; export the model again.",
            )
        )


def _of_bytes(data: bytearray, dtype: str, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Return the array whose bytes are ``data``, which it shares with others of the same bytes."""
    if dtype == "bool" and np.frombuffer(data, "uint8").max(initial=0) > 1:
        raise FrontendError(f"{what}: a byte of its data is neither 0 nor 1, and it is of bools")
    return np.frombuffer(data, _kind(dtype)).reshape(shape).astype(array_dtype(dtype), copy=False)


def _of_numbers(data: Any, dtype: str, shape: tuple[int, ...], what: str) -> np.ndarray:
    target = array_dtype(dtype)
    if dtype in _PARTS:
        return np.array(data, _PARTS[dtype]).view(target).reshape(shape)
    if dtype in ("float32", "float64", "int64", "uint64"):
        return np.array(data, target).reshape(shape)
    wide = np.array(data, "uint64" if dtype == "uint32" else "int64")
    if dtype in ("float16", "bfloat16"):
        # the bits of each element
        bits = _narrow(wide, np.dtype("uint16"), what)
        return bits.view(target).reshape(shape)
    if dtype == "bool":
        return (wide != 0).reshape(shape)
    return _narrow(wide, target, what).reshape(shape)


def _narrow(wide: np.ndarray, kind: np.dtype[Any], what: str) -> np.ndarray:
    narrow = wide.astype(kind)
    if not np.array_equal(narrow.astype(wide.dtype), wide):
        raise FrontendError(f"{what}: a number in its data does not fit its type, {kind.name}")
    return narrow
