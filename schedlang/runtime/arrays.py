"""Output arrays of the library that the caller's arrays come from.

A process whose calls take the fast path imports no tensors.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from schedlang.expr.dtypes import array_dtype
from schedlang.host import LINE

# bytes of an output from which on it starts on a cache line: then its stores can bypass the cache
LARGE = 1 << 20


def empty_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an uninitialised array, which starts on a cache line if it is large.

    >>> empty_array((1024, 512), "float32").ctypes.data % 64
    0
    """
    count = math.prod(shape) * np.dtype(dtype).itemsize
    if count < LARGE:
        return np.empty(shape, dtype)
    return aligned_array(shape, dtype)


def aligned_array(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return an uninitialised array, which starts on a cache line.

    >>> aligned_array((3, 5), "int8").ctypes.data % 64
    0
    """
    count = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(count + LINE, "uint8")
    start = -room.ctypes.data % LINE
    return room[start : start + count].view(dtype).reshape(shape)


def empty_like_library(first: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialised array in the library of ``first``: PyTorch's or NumPy's."""
    from schedlang.compute.torch_tensors import is_tensor

    if is_tensor(first):
        import torch

        # PyTorch's default device may be another one
        return torch.empty(shape, dtype=getattr(torch, dtype), device="cpu")
    return empty_array(shape, array_dtype(dtype))


def is_jax(value: Any) -> bool:
    """Return whether ``value`` is an array of JAX, without an import of JAX."""
    kind = getattr(sys.modules.get("jax"), "Array", None)
    return kind is not None and isinstance(value, kind)


# the name by which sl.gradient's argument head= reaches a kernel
HEAD = "head"


def without_expansion(value: Any, array: np.ndarray) -> np.ndarray:
    """Return ``array``, the memory of ``value``, or a copy if ``value`` is an expanded tensor.

    PyTorch's autograd gives the gradient of a sum as one number that is expanded to a shape.
    """
    from schedlang.compute.torch_tensors import is_tensor

    if 0 in array.strides and array.size > 1 and is_tensor(value):
        return np.ascontiguousarray(array)
    return array


def like_library(first: Any, value: np.ndarray) -> Any:
    """Return ``value`` as an array of the library of ``first``: PyTorch's, JAX's or NumPy's.

    A tensor shares the memory of ``value``, and an array of JAX may do so. JAX has no 64-bit
    numbers unless it is told so: then this returns ``value``.
    """
    from schedlang.compute.torch_tensors import is_tensor

    if is_jax(first):
        array = sys.modules["jax"].numpy.asarray(value)
        return array if array.dtype == value.dtype else value
    if not is_tensor(first):
        return value
    import torch

    if str(value.dtype) == "bfloat16":
        # PyTorch does not take NumPy's extension dtype
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)
