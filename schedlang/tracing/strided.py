"""``np.lib.stride_tricks.as_strided`` and ``x.strides``, where a trace knows the strides."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from operator import index
from typing import Any, NoReturn

import numpy as np

from schedlang.arrays.stages import view
from schedlang.compute.tensor import Tensor
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError, explain
from schedlang.tracing.calls import compute_once
from schedlang.tracing.memory import View, by_rows
from schedlang.tracing.trace import Value, current
from schedlang.tracing.unknown import line_text

_ASKED = "np.lib.stride_tricks.as_strided"


def strides_of(array: Any) -> tuple[int, ...]:
    """Return ``x.strides`` of an array that lies as the trace assumes, in bytes."""
    layout = None if array.is_scalar else array.layout
    if layout is None:
        _refuse_unknown("x.strides")
    current().assume_rows(f"x.strides in {line_text()}")
    return tuple(step * array.itemsize for step in layout.strides)


def strided(array: Any, shape: Any = None, strides: Any = None) -> Any:
    """Return the view of the memory of ``array`` that ``np.lib.stride_tricks.as_strided`` returns.

    It may be read. Raises :class:`~schedlang.errors.BoundsError` if it has elements outside of the
    array in whose memory ``array`` lies.
    """
    extents = array.shape if shape is None else _integers("shape", shape)
    steps = strides_of(array) if strides is None else _integers("strides", strides)
    root, offset = _place(array)
    current().assume_rows(f"{_ASKED} in {line_text()}")
    size = array.itemsize
    if len(extents) != len(steps) or any(e < 0 for e in extents):
        raise ComputeTypeError(
            f"{_ASKED}(x, {extents}, {steps}) in {line_text()}: give a stride for each dimension, "
            "and extents of 0 or more"
        )
    apart = size * _spacing(root)
    if any(step % apart for step in steps):
        how = f"have {size} bytes" if apart == size else f"are {abs(apart)} bytes apart"
        raise ComputeTypeError(
            explain(
                f"{_ASKED}(x, {extents}, {steps}) in {line_text()}",
                f"the elements of x {how}, and a stride is not a multiple of that",
                f"Strides count bytes: write {apart} for the next element.",
            )
        )
    counts = [step // apart for step in steps]
    value = root.value
    total = prod(value.shape) if isinstance(value, Tensor) else 1
    ends = [(e - 1) * c for e, c in zip(extents, counts)]
    low = offset + sum(min(end, 0) for end in ends)
    high = offset + sum(max(end, 0) for end in ends)
    if all(extents) and (low < 0 or high >= total):
        raise BoundsError(
            explain(
                f"{_ASKED}(x, {extents}, {steps}) in {line_text()}",
                f"it has the elements {low} to {high} of memory that has {total} elements, "
                f"0 to {total - 1}",
                "Give a smaller shape or smaller strides.",
            )
        )

    def read(base: Value) -> Value:
        return compute_once(_elements, (base, tuple(extents), tuple(counts), offset), {})

    whole = type(array)(array.storage)
    return whole.view_by(
        read, why=f"elements of what {_ASKED} returned may share memory, so a trace reads them only"
    )


def _elements(base: Value, extents: Sequence[int], counts: Sequence[int], offset: int) -> Tensor:
    row: Any = np.reshape(base, (-1,))  # type: ignore[arg-type]

    def place(*axes: Any) -> tuple[Any]:
        return (sum((axis * count for axis, count in zip(axes, counts)), offset),)

    return view("strided", row, tuple(extents), place)


def _place(array: Any) -> tuple[View, int]:
    """Return the view of the whole memory of an array, and where the array begins in it."""
    chain = [array._view]
    while chain[-1].base is not None:
        chain.append(chain[-1].base)
    root = chain[-1]
    layout = root.layout
    start = None if layout is None else layout.ctypes.data
    for part in chain[-2::-1]:
        layout = None if layout is None or part.mirrored is None else part.mirrored(layout)
    if layout is None or start is None or array.value.dtype != root.value.dtype:
        _refuse_unknown(_ASKED)
    return root, (layout.ctypes.data - start) // _spacing(root)


def _spacing(root: View) -> int:
    """Return how many elements lie from one element of an array to the next one, row by row."""
    strides = root.storage.strides
    if not strides:
        return 1
    rows = by_rows(root.value.shape).strides  # type: ignore[union-attr]
    if any(step != strides[-1] * row for step, row in zip(strides, rows)):
        _refuse_unknown(_ASKED)
    return strides[-1]


def _integers(name: str, value: Any) -> tuple[int, ...]:
    try:
        given = value if isinstance(value, (tuple, list)) else (value,)
        return tuple(map(index, given))
    except (TypeError, ComputeTypeError):
        raise ComputeTypeError(
            f"{_ASKED}(x, {name}={value}) in {line_text()}: its {name} must be integers that are "
            "known while the function is traced"
        ) from None


def _refuse_unknown(asked: str) -> NoReturn:
    raise ComputeError(
        explain(
            f"{asked} in {line_text()}",
            "a trace knows the strides of arguments, of arrays that the function makes with a "
            "shape, and of their views, and not those that NumPy chooses for other results",
            "Take np.ascontiguousarray(x) first, or write "
            "np.lib.stride_tricks.sliding_window_view(x, window).",
        )
    )
