"""The language's functions of whole tensors, which map over their elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.compute.tensor import Tensor


def mapped(word: str, function: Callable[..., Any], *values: Any) -> Any:
    """Return ``function(*values)``; if a value is a whole tensor, a stage named after ``word``."""
    for value in values:
        if isinstance(value, Tensor) and value.ndim:
            # set by schedlang.arrays, which imports this package
            return value._elementwise(word, function, *values)
    return function(*values)
