"""Functions of NumPy whose results have a length that only the elements tell.

A traced function calls them between its kernels, and the kernels after them take the length as a
symbolic size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.arrays.host.row import Row
from schedlang.arrays.shapes import smallest
from schedlang.compute.tensor import Extent, Shape


def _vector(size: Extent, **_: Any) -> Shape:
    return (size,)


def _nonzero(a: Shape, size: Extent) -> list[Shape]:
    return [(size,) for _ in a]


def _compressed(condition: Any, a: Shape, size: Extent, axis: Any = None, **_: Any) -> Shape:
    return (size,) if axis is None else _along(a, axis, size)


def _along(a: Shape, axis: int, size: Extent) -> Shape:
    k = axis % len(a)
    return (*a[:k], size, *a[k + 1 :])


def _repeated(a: Shape, size: Extent, axis: Any = None, **_: Any) -> Shape:
    return (size,) if axis is None else _along(a, axis, size)


def _unique(
    ar: Shape,
    size: Extent,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    **_: Any,
) -> Any:
    values: Shape = (size,) if axis is None else _along(ar, axis, size)
    inverse: Shape = ar if axis is None else (ar[axis],)
    shapes = [values, *[(size,)] * return_index, *[inverse] * return_inverse]
    shapes += [(size,)] * return_counts
    return shapes if len(shapes) > 1 else values


def _common(size: Extent, return_indices: bool = False, **_: Any) -> Any:
    return [(size,)] * 3 if return_indices else (size,)


def _least_squares(a: Shape, b: Shape, size: Extent, **_: Any) -> Any:
    """Return the shapes of a solution, of the residuals, the rank and the singular values."""
    return [(a[1], *b[1:]), (size,), (), (smallest(a[0], a[1]),)]


def _row(parameters: str, arrays: str, shape: Callable[..., Any] = _vector) -> Row:
    return Row(parameters, arrays, shape)


_TWO = "ar1 ar2 assume_unique"
UNSIZED = {
    "nonzero": _row("a", "a", _nonzero),
    "flatnonzero": _row("a", "a"),
    "argwhere": _row("a", "a", lambda a, size: (size, len(a))),
    "compress": _row("condition a axis out", "condition a", _compressed),
    "extract": _row("condition arr", "condition arr"),
    "unique": _row(
        "ar return_index return_inverse return_counts axis equal_nan sorted", "ar", _unique
    ),
    "union1d": _row("ar1 ar2", "ar1 ar2"),
    "intersect1d": _row(_TWO + " return_indices", "ar1 ar2", _common),
    "setdiff1d": _row(_TWO, "ar1 ar2"),
    "setxor1d": _row(_TWO, "ar1 ar2"),
    "trim_zeros": _row("filt trim", "filt"),
    "bincount": _row("x weights minlength", "x weights"),
    "repeat": _row("a repeats axis", "a repeats", _repeated),
    "linalg.lstsq": _row("a b rcond", "a b", _least_squares),
}
