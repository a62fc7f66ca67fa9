"""New arrays in a trace: ``np.zeros(shape, like=x)`` and its like."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.stages import each
from schedlang.compute.tensor import Tensor
from schedlang.language.construct import const
from schedlang.tracing.trace import current

CREATED = (np.zeros, np.ones, np.full, np.empty, np.eye, np.identity, np.arange)


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


__all__ = ["CREATED", "created"]
