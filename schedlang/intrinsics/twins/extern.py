"""Calls of functions of the user's, which take arrays of NumPy."""

# the compiled function of the same name has the docstring

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from schedlang.intrinsics.twins.memory import check


def invoke(table: Sequence[Any], position: int, *boxes: tuple[Any, Any, Any, Any]) -> None:
    table[position](*[boxed(*box) for box in boxes])


def boxed(A: Any, at: Any, extents: Sequence[Any], strides: Sequence[Any]) -> Any:
    """Return the box of an array that begins at an offset, without a copy."""
    first, shape = int(at), tuple(int(e) for e in extents)
    if not prod(shape):
        return np.empty(shape, A.dtype)
    steps = [int(s) for s in strides]
    last = first + sum((e - 1) * s for e, s in zip(shape, steps))
    check("a box of a function", A, first, last)
    step = A.itemsize
    return np.lib.stride_tricks.as_strided(A[first:], shape, [s * step for s in steps])
