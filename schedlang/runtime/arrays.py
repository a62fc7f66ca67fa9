"""Output arrays of the library that the caller's arrays come from.

A process whose calls take the fast path imports no tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.expr.dtypes import array_dtype


def empty_like_library(first: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialised array in the library of ``first``: PyTorch's or NumPy's."""
    from schedlang.compute.torch_tensors import is_tensor

    if is_tensor(first):
        import torch

        # PyTorch's default device may be another one
        return torch.empty(shape, dtype=getattr(torch, dtype), device="cpu")
    return np.empty(shape, array_dtype(dtype))


def like_library(first: Any, value: np.ndarray) -> Any:
    """Return the memory of ``value`` as an array of the library of ``first``."""
    from schedlang.compute.torch_tensors import is_tensor

    if not is_tensor(first):
        return value
    import torch

    if str(value.dtype) == "bfloat16":
        # PyTorch does not take NumPy's extension dtype
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)
