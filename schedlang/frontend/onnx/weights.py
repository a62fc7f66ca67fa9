"""The arrays in an ONNX file: checked before anything is read or made, and read when needed."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from schedlang.errors import FrontendError, explain
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


def weight(proto: Any, what: str, folder: Path | None) -> Weight:
    """Return the array of a ``TensorProto``, whose data must be exactly as much as its shape says.

    ``what`` names it in messages. Data beside the file must lie in ``folder``. Raises
    :class:`~schedlang.errors.FrontendError` otherwise; nothing is read then.
    """
    dtype = dtype_of(proto.data_type, what)
    shape = check_dims(list(proto.dims), what)
    if proto.HasField("segment"):
        raise FrontendError(f"{what}: it is a segment of an array, which is not supported")
    count = math.prod(shape)
    if proto.data_location == EXTERNAL:
        return Weight(dtype, shape, _outside(proto, what, folder, dtype, shape))
    filled = [name for name in _ALL_FIELDS if len(getattr(proto, name))]
    if proto.HasField("raw_data"):
        _check_count(what, shape, len(proto.raw_data), count * _kind(dtype).itemsize, "bytes")
        if filled:
            raise FrontendError(f"{what}: it has data twice, as raw_data and as {filled[0]}")
        return Weight(dtype, shape, lambda: _of_bytes(bytearray(proto.raw_data), dtype, shape))
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


def _of_bytes(data: bytearray, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == "bool":
        return (np.frombuffer(data, "uint8") != 0).reshape(shape)
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
        bits = _narrowed(wide, np.dtype("uint16"), what)
        return bits.view(target).reshape(shape)
    if dtype == "bool":
        return (wide != 0).reshape(shape)
    return _narrowed(wide, target, what).reshape(shape)


def _narrowed(wide: np.ndarray, kind: np.dtype[Any], what: str) -> np.ndarray:
    found = wide.astype(kind)
    if not np.array_equal(found.astype(wide.dtype), wide):
        raise FrontendError(f"{what}: a number in its data does not fit its type, {kind.name}")
    return found


def _outside(
    proto: Any, what: str, folder: Path | None, dtype: str, shape: tuple[int, ...]
) -> Callable[[], np.ndarray]:
    """Return the function that reads data from a file beside the model."""
    entries = {entry.key: entry.value for entry in proto.external_data}
    if folder is None:
        raise FrontendError(
            explain(
                what,
                "its data are in a file beside the model, whose folder is not known",
                "Give the path of the model's file: from_onnx(path).",
            )
        )
    path = _inside(folder, entries.get("location", ""), what)
    needed = math.prod(shape) * _kind(dtype).itemsize
    offset = _number(entries.get("offset", "0"), "offset", what)
    _check_count(what, shape, _number(entries.get("length", str(needed)), "length", what),
                 needed, "bytes")  # fmt: skip
    with open(_opened(path, what), "rb") as file:
        size = os.fstat(file.fileno()).st_size
    if offset + needed > size:
        raise FrontendError(
            f"{what}: bytes {offset} to {offset + needed} of {path.name} hold its data, but the "
            f"file has {size}"
        )

    def read() -> np.ndarray:
        data = bytearray(needed)
        with open(_opened(path, what), "rb") as file:
            file.seek(offset)
            if file.readinto(data) != needed:
                raise FrontendError(f"{what}: {path.name} became shorter while it was read")
        return _of_bytes(data, dtype, shape)

    return read


def _inside(folder: Path, location: str, what: str) -> Path:
    """Return the path of a file in ``folder`` or below, which no link leads out of."""
    parts = location.replace("\\", "/").split("/")
    windows = PureWindowsPath(location)
    bad = (
        not location or not location.isprintable() or windows.drive or windows.root
        or any(part in ("", ".", "..") for part in parts)
    )  # fmt: skip
    if bad:
        raise FrontendError(
            explain(
                what,
                f"its data are at {location[:80]!r}, which is no path into the model's folder",
                "Save the data beside the model, under a relative path without '..'.",
            )
        )
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise FrontendError(
                explain(
                    what,
                    f"its data are at {location[:80]!r}, of which {part!r} is a symbolic link",
                    "Replace the link by the file itself.",
                )
            )
    return path


def _number(text: str, key: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise FrontendError(f"{what}: the {key} of its data is {text[:40]!r}, which is no number")
    return int(text)


def _opened(path: Path, what: str) -> int:
    """Return the descriptor of a plain file, which is not followed if it is a link by now."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise FrontendError(
            f"{what}: its data are in {path.name}, which cannot be read: {error.strerror}"
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FrontendError(f"{what}: its data are in {path.name}, which is no plain file")
    return descriptor
