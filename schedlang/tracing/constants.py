"""Arrays of known elements as stages: one repeated number, and arithmetic progressions."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.stages import each
from schedlang.compute.tensor import Tensor
from schedlang.language.construct import cast, const

# sums of integers of this size do not overflow
_LARGEST = 2**53


def formula_stage(elements: np.ndarray, word: str = "full") -> Tensor | None:
    """Return the stage that computes ``elements``; ``None`` if they follow no formula.

    The elements are one number, in which case the stage is named after ``word``, or integers in an
    arithmetic progression in row-major order. Their dtype is any of integers or floats.

    >>> formula_stage(np.zeros((2, 3))), formula_stage(np.arange(6.0)), formula_stage(np.eye(2))
    (Tensor(full: float64[2, 3]), Tensor(arange: float64[6]), None)
    """
    if _is_uniform(elements):
        number = elements.reshape(-1)[0].item() if elements.size else 0
        value = const(number, elements.dtype)
        return each(word, elements.shape, lambda *_: value)
    progression = _progression(elements)
    if progression is None:
        return None
    start, step = progression

    def element(*axes: Any) -> Any:
        place: Any = 0
        for axis, extent in zip(axes, elements.shape):
            place = axis if isinstance(place, int) else place * extent + axis
        scaled = place if step == 1 else place * step
        return cast(scaled + start if start else scaled, elements.dtype)

    return each("arange", elements.shape, element)


def _is_uniform(elements: np.ndarray) -> bool:
    """Return whether all elements have the same bits: NaN equals itself, and 0.0 is not -0.0."""
    flat = np.ascontiguousarray(elements).reshape(-1)
    return not flat.size or flat.tobytes() == flat[:1].tobytes() * flat.size


def _progression(elements: np.ndarray) -> tuple[int, int] | None:
    """Return the first number of a progression of integers and its step, or ``None``."""
    flat = elements.reshape(-1)
    if flat.dtype.kind not in "iuf" or not np.isfinite(flat).all():
        return None
    if not (np.abs(flat.astype("float64")) < _LARGEST).all():
        return None
    whole = flat.astype("int64")
    steps = np.diff(whole)
    if whole.astype(flat.dtype).tobytes() != flat.tobytes() or not (steps == steps[0]).all():
        return None
    return int(whole[0]), int(steps[0])


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays have the same dtype, shape and bits."""
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    return a.tobytes() == b.tobytes()
