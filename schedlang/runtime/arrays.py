"""Arrays of any library as NumPy arrays without copies, and outputs in the caller's library."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.errors import CallTypeError


def as_numpy(value: Any, what: str, written: bool = False) -> np.ndarray:
    """``value`` as a NumPy array over the same memory.

    Takes NumPy arrays and scalars, and objects with ``__array_interface__``, DLPack or
    ``__array__``; one that is ``written`` must share its memory. Raises
    :class:`~schedlang.errors.CallTypeError` for anything else, and for arrays in a GPU's memory.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise CallTypeError(f"{what} is a masked array: pass .filled(...) or .data")
    if isinstance(value, np.ndarray):
        return value.view(np.ndarray)
    if written and not hasattr(value, "__dlpack__") and not hasattr(value, "__array_interface__"):
        raise CallTypeError(
            f"{what} is a {type(value).__name__}, which does not share its memory: pass an array "
            "to write into, such as np.empty(...)"
        )
    if isinstance(value, np.generic):
        if written:
            raise CallTypeError(f"{what} is a NumPy scalar, which cannot be written: pass an array")
        return np.asarray(value)
    device = getattr(value, "__dlpack_device__", None)
    if hasattr(value, "__cuda_array_interface__") or (
        device is not None and device()[0] not in (1, 3)
    ):
        raise CallTypeError(
            f"{what} lives in a GPU's memory and this kernel runs on the CPU: "
            "copy it first, with .cpu() or cupy.asnumpy"
        )
    if getattr(value, "requires_grad", False):
        raise CallTypeError(f"{what} is a tensor that requires grad: pass its .detach()")
    if device is not None:
        return np.from_dlpack(value)
    if hasattr(value, "__array_interface__") or hasattr(value, "__array__"):
        return np.asarray(value)
    raise CallTypeError(
        f"{what} is a {type(value).__name__}: pass an array (NumPy, PyTorch, or any object with "
        "__array_interface__ or DLPack), e.g. np.asarray(...)"
    )


def empty_like_library(first: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """An uninitialised array in the library of ``first``: PyTorch's or NumPy's."""
    if type(first).__module__.partition(".")[0] == "torch":
        import torch

        return torch.empty(shape, dtype=getattr(torch, dtype))
    return np.empty(shape, dtype)
