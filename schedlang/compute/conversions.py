"""The calls that turn an argument into one that fits, in its own library, for errors."""

from __future__ import annotations

from typing import Any

from schedlang.compute.torch_tensors import is_tensor


def as_dtype(value: Any, name: str, dtype: str) -> str:
    """Return the call that converts ``value``, the argument ``name``, to ``dtype``.

    >>> import numpy as np
    >>> as_dtype(np.zeros(2), "x", "float32"), as_dtype([1, 2], "x", "int32")
    ("x.astype('float32')", "np.asarray(x, 'int32')")
    """
    if is_tensor(value):
        return f"{name}.to(torch.{dtype})"
    if hasattr(value, "astype"):
        return f"{name}.astype({dtype!r})"
    return f"np.asarray({name}, {dtype!r})"


def as_contiguous(value: Any, name: str) -> str:
    """Return the call that makes a contiguous copy of ``value``, the argument ``name``.

    >>> import numpy as np
    >>> as_contiguous(np.zeros((2, 3)).T, "x")
    'np.ascontiguousarray(x)'
    """
    if is_tensor(value):
        return f"{name}.contiguous()"
    library = type(value).__module__.partition(".")[0]
    return f"{'cupy' if library == 'cupy' else 'np'}.ascontiguousarray({name})"
