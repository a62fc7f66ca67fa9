"""New arrays in a trace: ``np.zeros(shape, like=x)`` and its like."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.stages import each
from schedlang.compute.tensor import Tensor
from schedlang.language.construct import const
from schedlang.tracing.trace import current

# the functions that make an array of a shape, and those that make one like another
CREATED = (np.zeros, np.ones, np.full, np.empty, np.eye, np.identity, np.arange)
LIKE = (np.zeros_like, np.ones_like, np.full_like, np.empty_like)


def created(function: Any, *args: Any, **named: Any) -> Tensor:
    """Return the array that a function of NumPy creates; ``like=`` led here."""
    elements = function(*args, **named)
    first = elements.reshape(-1)[:1]
    if function is np.empty:
        first = np.zeros(1, elements.dtype)
    elif not elements.size or not (elements == first).all():
        return current().constant(elements)
    value = const(first[0].item(), elements.dtype)
    return each(function.__name__, elements.shape, lambda *_: value)


__all__ = ["CREATED", "LIKE", "created"]
