"""Elements at arrays of indices: ``A[idx, jdx]``, ``A[:, idx]``.

Source: NumPy's advanced indexing (numpy.org/doc/stable/user/basics.indexing.html).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Union

import numpy as np

from schedlang.arrays.operands import axis_in
from schedlang.arrays.shapes import at_least_0, broadcast, is_one
from schedlang.arrays.slices import Taken, index_text, slice_elements
from schedlang.arrays.stages import each, read
from schedlang.arrays.taking import read_index, static_index
from schedlang.compute.partial_index import wrong_count
from schedlang.compute.tensor import Extent, Shape, Tensor, shape_text
from schedlang.errors import BoundsError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.index.simplify import to_lin

# the index of a dimension at a place in the shape to which all arrays of indices broadcast
At = Callable[[Sequence[Expr]], Expr]
# an index that is an expression, as one from the start of the dimension with this number
Scalar = Callable[[int, Expr], Any]


@dataclass(frozen=True)
class _Array:
    """An array of indices: its shape, and the index at a place in it."""

    shape: Shape
    at: At


@dataclass(frozen=True)
class Places:
    """The elements that an index with arrays chooses.

    ``shape`` is the shape of the result. ``at`` returns the indices in the tensor of the element at
    some indices of the result.
    """

    shape: Shape
    at: Callable[[Sequence[Any]], list[Any]]


Part = Union[None, Taken, _Array]


def is_array(value: Any) -> bool:
    """Return whether an item of an index is an array: a tensor, a NumPy array or a list."""
    return isinstance(value, (np.ndarray, list)) or (isinstance(value, Tensor) and value.ndim > 0)


def gather(
    tensor: Tensor, items: Sequence[Any], written: str, scalar: Scalar | None = None
) -> Tensor:
    """Return ``tensor[items]`` with NumPy's meaning, where some items are arrays of indices.

    ``written`` is the index as the user wrote it. ``scalar`` makes an index of an item that is an
    expression; by default it counts from the start.

    >>> import schedlang as sl
    >>> A, I = sl.placeholder((4, 6), name="A"), sl.placeholder((3, 1), "int64", name="I")
    >>> gather(A, (I, [0, 2]), "A[I, [0, 2]]")
    Tensor(take: float32[3, 2])
    """
    elements = places(tensor, items, written, scalar)
    return each("take", elements.shape, lambda *axes: read(tensor, elements.at(axes)))


def places(
    tensor: Tensor, items: Sequence[Any], written: str, scalar: Scalar | None = None
) -> Places:
    """Return which elements ``tensor[items]`` has, by the rules of NumPy's advanced indexing.

    Arrays of indices, and integers beside them, broadcast. Their dimensions stand where the arrays
    do if these are next to each other, else they come first. Raises
    :class:`~schedlang.errors.ComputeTypeError` for a mask whose elements are unknown and for
    indices that are not integers, :class:`~schedlang.errors.BoundsError` for known indices out of
    range and for too many of them, and :class:`~schedlang.errors.ComputeError` for arrays that do
    not broadcast.
    """
    items, gap = _expand(tensor, items, written)
    parts: list[Part] = []
    dimension = 0
    for item in items:
        if item is None:
            parts.append(None)
            continue
        parts.append(_part(tensor, dimension, item, written, scalar))
        dimension += 1
    arrays = [k for k, p in enumerate(parts) if isinstance(p, _Array)]
    inner = broadcast(
        [p.shape for p in parts if isinstance(p, _Array)], f"the indices of {written}"
    )
    together = arrays[-1] - arrays[0] == len(arrays) - 1 and not arrays[0] < gap <= arrays[-1]
    first = sum(not isinstance(p, _Array) for p in parts[: arrays[0]]) if together else 0
    outer: list[Extent] = [
        at_least_0(p.length) if isinstance(p, Taken) else 1
        for p in parts
        if not isinstance(p, _Array)
    ]

    def at(axes: Sequence[Any]) -> list[Any]:
        place = axes[first : first + len(inner)]
        rest = iter([*axes[:first], *axes[first + len(inner) :]])
        indices: list[Any] = []
        for part in parts:
            if isinstance(part, _Array):
                indices.append(part.at(_own(part.shape, inner, place)))
                continue
            axis = next(rest)
            if part is not None:
                indices.append(part.at(axis))
        return indices

    return Places((*outer[:first], *inner, *outer[first:]), at)


def _own(shape: Shape, full: Shape, place: Sequence[Any]) -> list[Any]:
    """Return the place in an array of ``shape`` that is broadcast to ``full``."""
    skipped = len(full) - len(shape)
    return [
        0 if is_one(own) and not is_one(wide) else i
        for own, wide, i in zip(shape, full[skipped:], place[skipped:])
    ]


def _expand(tensor: Tensor, items: Sequence[Any], written: str) -> tuple[list[Any], int]:
    """Return an item for each dimension, and ``None`` for new ones; known masks as integers.

    The second result is the place of ``...`` among them, which parts arrays even if it stands for
    no dimension; 0 without one.
    """
    entries: list[Any] = []
    for item in items:
        if isinstance(item, Tensor) and item.dtype == "bool":
            raise ComputeTypeError(
                explain(
                    written,
                    "the shape of the result would depend on data",
                    f"Keep the shape and choose, np.where({item.name}, {tensor.name}, 0), or "
                    f"reduce with where={item.name}.",
                )
            )
        array = isinstance(item, (np.ndarray, list))
        entries.append(_known(item, written) if array else item)
    width = sum(map(_width, entries))
    if width > tensor.ndim:
        raise BoundsError(wrong_count(tensor, tuple(index_text(v) for v in entries)))
    if sum(v is Ellipsis for v in entries) > 1:
        raise ComputeTypeError(f"{written}: give ... once")
    rest = [slice(None)] * (tensor.ndim - width)
    at = next((k for k, v in enumerate(entries) if v is Ellipsis), len(entries))
    full: list[Any] = []
    dimension = gap = 0
    for k, item in enumerate((*entries[:at], *rest, *entries[at + 1 :])):
        if k == at and at < len(entries):
            gap = len(full)
        mask = isinstance(item, np.ndarray) and item.dtype == bool
        full += _of_mask(tensor, dimension, item, written) if mask else [item]
        dimension += _width(item)
    return full, gap


def _width(item: Any) -> int:
    """Return how many dimensions of a tensor an item of an index is for."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1


def _known(item: Any, written: str) -> np.ndarray:
    """Return a list or NumPy array of indices as an array of integers or bools."""
    try:
        array = np.asarray(item)
    except (TypeError, ValueError):
        # it holds tensors, or its rows differ in length
        array = np.empty(1, object)
    if isinstance(item, list) and not array.size:
        array = array.astype(np.intp)
    if array.dtype.kind not in "iub":
        what = "expressions or rows of several lengths" if array.dtype == object else array.dtype
        raise ComputeTypeError(
            explain(
                written,
                f"an array of indices holds {what}, but must hold integers",
                'Give integers, or declare the indices, idx = sl.placeholder(shape, "int64", '
                'name="idx"), and pass them to the kernel.',
            )
        )
    return array


def _of_mask(tensor: Tensor, first: int, mask: np.ndarray, written: str) -> list[np.ndarray]:
    """Return the places where a known mask holds, an array for each dimension from ``first`` on."""
    shape = tensor.shape[first : first + mask.ndim]
    if any(not isinstance(e, int) or e != n for e, n in zip(shape, mask.shape)):
        raise BoundsError(
            f"{written}: the mask has shape {mask.shape}, but these dimensions of {tensor.name} "
            f"have shape {shape_text(shape)}"
        )
    return list(np.nonzero(mask))


def _part(
    tensor: Tensor, dimension: int, item: Any, written: str, scalar: Scalar | None
) -> Taken | _Array:
    length = tensor.shape[dimension]
    where = f"dimension {dimension} of {tensor.name}"
    if isinstance(item, slice):
        return slice_elements(item, length, written)
    if isinstance(item, np.ndarray):
        return _Array(item.shape, static_index(item, length, "raise", where))
    if isinstance(item, Tensor):
        if not dtypes.is_integer(item.dtype):
            raise ComputeTypeError(
                f"{written}: {item.name} holds {item.dtype}, but indices must be integers; cast "
                f"them, {item.name}.astype('int64')"
            )
        if to_lin(length).const == 0 and all(to_lin(e).const for e in item.shape):
            raise BoundsError(f"{written}: {where} has no elements to choose from")
        return _Array(item.shape, lambda place: read_index(read(item, place), length, "raise"))
    if isinstance(item, Integral) and not isinstance(item, (bool, np.bool_)):
        return _Array((), static_index(np.asarray(int(item)), length, "raise", where))
    if isinstance(item, Expr) and (axis := axis_in(item)) is not None:
        raise ComputeTypeError(
            explain(
                written,
                f"{axis} is an axis, so this reads an element, where arrays of indices are not "
                "supported",
                f"Read an element of each: {tensor.name}[idx[k], {axis}].",
            )
        )
    index = scalar(dimension, item) if scalar else tensor.checked_index(dimension, item)
    return _Array((), lambda _: index)
