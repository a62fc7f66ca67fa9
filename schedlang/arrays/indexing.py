"""Indices of tensors: an element, or a view of rows, slices and new dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple, Union

import numpy as np

from schedlang.arrays.gathering import gather, is_array
from schedlang.arrays.operands import axis_in
from schedlang.arrays.shapes import at_least_0, same
from schedlang.arrays.slices import Taken, index_text, items_text, slice_elements
from schedlang.arrays.stages import LETTERS, through, view
from schedlang.arrays.taking import read_index
from schedlang.compute.partial_index import wrong_count
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, Extent, Tensor, shape_text
from schedlang.errors import BoundsError, ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Const, Expr

# what becomes of a dimension: one index, or a slice of it
Part = Union[Expr, int, Taken]


class _New(NamedTuple):
    """A new dimension of extent 1 (``None`` in an index)."""


def get(tensor: Tensor, indices: Any) -> Any:
    """Return ``tensor[indices]``.

    An index without axes is NumPy's: a full one is an element, and any other a view; negative
    integers count from the end. Arrays of integers gather elements into a new stage. An index with
    axes selects one element of a computation, or a
    :class:`~schedlang.compute.partial_index.Row` if it is not complete.
    """
    items = indices if isinstance(indices, tuple) else (indices,)
    if not all(isinstance(v, (Expr, int)) for v in items):
        items = tuple(v[()] if isinstance(v, np.ndarray) and not v.ndim else v for v in items)
        if any(is_array(v) for v in items):
            return gather(tensor, items, f"{tensor.name}[{items_text(items)}]")
    basic = any(_is_basic(v) for v in items)
    if not basic and len(items) == tensor.ndim:
        return _row_source(tensor.element(_from_the_start(tensor, items)))
    axis = next((a for v in items if (a := _axis_of(v)) is not None), None)
    if axis is None and (basic or items):
        return _view(tensor, items)
    if basic:
        raise ComputeTypeError(
            explain(
                f"{tensor.name}[{items_text(items)}]",
                f"{axis} is an axis, so this reads an element, where slices are not supported",
                "Read single elements, and write loops as axes: k = sl.reduce_axis(n), and "
                f"sl.sum({tensor.name}[i + k], axis=k).",
            )
        )
    return tensor.element(items)


def _is_basic(value: Any) -> bool:
    return value is None or value is Ellipsis or isinstance(value, slice)


def _axis_of(item: Any) -> Axis | None:
    """Return an axis in an item of an index, also in a bound of a slice."""
    parts = (item.start, item.stop, item.step) if isinstance(item, slice) else (item,)
    axes = (axis_in(v) for v in parts if isinstance(v, Expr))
    return next((axis for axis in axes if axis is not None), None)


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def _from_the_start(tensor: Tensor, items: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an index, whose numbers and 0-d tensors count from the start unless it has axes."""
    if not any(isinstance(v, Tensor) or (_is_integer(v) and v < 0) for v in items):
        return items
    if any(isinstance(v, Expr) and axis_in(v) is not None for v in items):
        return items
    return tuple(
        v if isinstance(v, Expr) else _from_start(tensor, k, v) for k, v in enumerate(items)
    )


def _from_start(tensor: Tensor, dimension: int, value: Any) -> Any:
    """Return an integer, 0-d tensor or expression as an index from the start of a dimension.

    An expression is one already.
    """
    if _is_integer(value):
        return _position(tensor, dimension, value)
    index = tensor.checked_index(dimension, value)
    if isinstance(value, Tensor):
        return read_index(index, tensor.shape[dimension], "raise")
    return index


def _position(tensor: Tensor, dimension: int, value: Any) -> Any:
    """Return the integer ``value`` as an index from the start of a dimension."""
    number, extent = int(value), tensor.shape[dimension]
    is_static = isinstance(extent, int)
    if is_static and not -extent <= number < extent:
        raise BoundsError(
            explain(
                f"index {number} of {tensor.name}",
                f"dimension {dimension} has {extent} element{'s' * (extent != 1)}",
                f"Its indices are 0..{extent}, {extent} excluded, or -{extent}..0 from the end."
                if extent
                else f"{tensor.name} of shape {shape_text(tensor.shape)} is empty.",
            )
        )
    return number if number >= 0 else extent - -number


def _view(tensor: Tensor, items: tuple[Any, ...]) -> Tensor:
    count = sum(v is not None and v is not Ellipsis for v in items)
    if count > tensor.ndim or sum(v is Ellipsis for v in items) > 1:
        if count > tensor.ndim:
            raise BoundsError(wrong_count(tensor, tuple(index_text(v) for v in items)))
        raise ComputeTypeError(f"{tensor.name}[{items_text(items)}]: give ... once")
    rest = [slice(None)] * (tensor.ndim - count)
    at = next((k for k, v in enumerate(items) if v is Ellipsis), None)
    full = [*items, *rest] if at is None else [*items[:at], *rest, *items[at + 1 :]]
    parts: list[Part | _New] = []
    dimension = 0
    for value in full:
        if value is None:
            parts.append(_New())
            continue
        parts.append(_part(tensor, dimension, value, items))
        dimension += 1
    return _make_view(tensor, parts)


def _part(tensor: Tensor, dimension: int, value: Any, items: tuple[Any, ...]) -> Part:
    if isinstance(value, slice):
        return slice_elements(value, tensor.shape[dimension], f"{tensor.name}[{items_text(items)}]")
    return _from_start(tensor, dimension, value)


def _make_view(tensor: Tensor, parts: Sequence[Part | _New]) -> Tensor:
    shape: list[Extent] = []
    names: list[str] = []
    dimension = 0
    for part in parts:
        if isinstance(part, _New):
            shape.append(1)
            names.append(f"n{len(names)}")
            continue
        if isinstance(part, Taken):
            shape.append(at_least_0(part.length))
            few = tensor.ndim <= len(LETTERS)
            names.append(LETTERS[dimension] if few else f"i{dimension}")
        dimension += 1

    def indices(*axes: Axis) -> list[Any]:
        rest = iter(axes)
        positions: list[Any] = []
        for part in parts:
            if isinstance(part, _New):
                next(rest)
            elif isinstance(part, Taken):
                positions.append(part.at(next(rest)))
            else:
                positions.append(part)
        return positions

    word = "row" if all(not isinstance(p, Taken) or p.whole for p in parts) else "slice"
    return view(word, tensor, tuple(shape), indices, names)


def _row_source(value: Any) -> Any:
    """Return a read of a view with whole dimensions, such as ``A[0]``, as a read of its source.

    The indices of the two are checked against the same extents.
    """
    if not isinstance(value, Read):
        return value
    op = value.tensor.op
    if not isinstance(op, ComputeOp) or not op.view:
        return value
    source = op.body[0]
    assert isinstance(source, Read)
    for index, extent in zip(source.indices, source.tensor.shape):
        if isinstance(index, Axis):
            if not same(index.extent, extent):
                return value
        elif not isinstance(index, Const) and axis_in(index) is not None:
            return value
    return through(value)
