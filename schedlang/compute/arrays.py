"""Arrays of other libraries and objects with the buffer protocol, viewed as NumPy arrays."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from schedlang.compute.torch_tensors import is_tensor, tensor_as_numpy
from schedlang.errors import CallTypeError, first_line

# DLPack's device types of CPU memory and of pinned CPU memory
_HOST = (1, 3)


def as_numpy(value: Any, what: str, written: bool = False) -> np.ndarray:
    """Return ``value`` as a NumPy array over the same memory.

    ``value`` may be a NumPy array or scalar, a PyTorch tensor, or an object with
    ``__array_interface__``, DLPack, the buffer protocol (``memoryview``, ``array.array``,
    ``bytearray``) or ``__array__``. One that is ``written`` must share its memory. Bytes are uint8.
    Raises :class:`~schedlang.errors.CallTypeError` for anything else, and for arrays in GPU memory.

    >>> from array import array
    >>> as_numpy(array("f", [1.0, 2.0]), "A")
    array([1., 2.], dtype=float32)
    """
    # NumPy imports its masked arrays when they are first asked for
    masked = sys.modules.get("numpy.ma")
    if masked and isinstance(value, masked.MaskedArray):
        raise CallTypeError(f"{what} is a masked array: pass .filled(...) or .data")
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if is_tensor(value):
        return tensor_as_numpy(value, what)
    if isinstance(value, np.generic):
        if written:
            raise CallTypeError(f"{what} is a NumPy scalar, which cannot be written: pass an array")
        return np.asarray(value)
    device = getattr(value, "__dlpack_device__", None)
    if hasattr(value, "__cuda_array_interface__") or (
        device is not None and device()[0] not in _HOST
    ):
        raise CallTypeError(
            f"{what} is in GPU memory, but this kernel runs on the CPU: copy it first, with "
            ".cpu() or cupy.asnumpy"
        )
    if device is not None:
        try:
            return np.from_dlpack(value)
        except RuntimeError:
            # a dtype that DLPack lacks in NumPy, such as JAX's bfloat16
            if not hasattr(value, "__array__"):
                raise
            return np.asarray(value)
    if hasattr(value, "__array_interface__"):
        return np.asarray(value)
    # before __array__, which may copy
    memory = _buffer(value, what)
    if memory is not None:
        return memory
    kind = type(value).__name__
    if written:
        raise CallTypeError(
            f"{what} is of type {kind}, which does not share its memory: pass an array to write "
            "into, such as np.empty(...)"
        )
    if hasattr(value, "__array__"):
        return np.asarray(value)
    raise CallTypeError(
        f"{what} is of type {kind}: pass an array (NumPy, PyTorch, or any object with "
        "__array_interface__, DLPack or the buffer protocol), e.g. np.asarray(...)"
    )


def has_buffer(value: Any) -> bool:
    """Return whether an object has the buffer protocol, such as ``bytearray``."""
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _buffer(value: Any, what: str) -> np.ndarray | None:
    """Return the memory of an object with the buffer protocol; ``None`` for any other object."""
    try:
        view = memoryview(value)
    except TypeError:
        return None
    try:
        return np.asarray(view)
    except (TypeError, ValueError, RuntimeError) as error:
        raise CallTypeError(
            f"{what} is of type {type(value).__name__} with elements {view.format!r}, which is not "
            f"a NumPy dtype ({first_line(error)}): pass np.frombuffer(..., dtype=...)"
        ) from None
