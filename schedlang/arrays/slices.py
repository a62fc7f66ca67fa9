"""Slices of one dimension, whose extent may be symbolic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from schedlang.arrays.shapes import at_least_0, extent, smallest
from schedlang.compute.read import Read
from schedlang.compute.tensor import Extent, Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.expr.visit import postorder
from schedlang.language.calls import call
from schedlang.language.construct import as_expr


def index_text(item: Any) -> str:
    """Return the text of one item of an index between brackets.

    >>> index_text(slice(1, None)), index_text(...)
    ('1:', '...')
    """
    if item is Ellipsis:
        return "..."
    if isinstance(item, Tensor):
        return item.name
    if isinstance(item, np.ndarray):
        return "[...]"
    if not isinstance(item, slice):
        return str(item)
    ends = ["" if v is None else str(v) for v in (item.start, item.stop)]
    return ":".join([*ends, *([] if item.step is None else [str(item.step)])])


def items_text(items: Sequence[Any]) -> str:
    """Return the text of the items of an index between brackets."""
    return ", ".join(map(index_text, items))


class Taken(NamedTuple):
    """The elements ``start + i*step`` of a dimension, for ``i`` in ``0..length``.

    ``whole`` says that they are all of them, in order.
    """

    start: Extent
    step: int
    length: Extent
    whole: bool

    def at(self, axis: Axis) -> Expr:
        """Return the index at ``axis``, which counts the elements taken."""
        moved: Expr = axis if self.step == 1 else axis * self.step
        start = self.start
        return moved if isinstance(start, int) and start == 0 else moved + start


def slice_elements(bounds: slice, size: Extent, asked: str) -> Taken:
    """Return the elements of a dimension of extent ``size`` that a slice takes, as in NumPy.

    Bounds may be expressions over sizes, which count from the start. Raises
    :class:`ComputeTypeError` for a bound that is read from a tensor, since the shape would depend
    on data.

    >>> slice_elements(slice(1, -1), 8, "A[1:-1]")
    Taken(start=1, step=1, length=6, whole=False)
    """
    step = _step(bounds.step, asked)
    start, stop = (_bound(v, asked) for v in (bounds.start, bounds.stop))
    if all(isinstance(v, (int, type(None))) for v in (start, stop)) and isinstance(size, int):
        elements = range(*slice(start, stop, step).indices(size))
        return Taken(
            elements.start if len(elements) else 0, step, len(elements), elements == range(size)
        )
    if step > 0:
        return _upward(start, stop, step, size)
    return _downward(start, stop, -step, size)


def _step(given: Any, asked: str) -> int:
    if given is None:
        return 1
    if isinstance(given, Expr) and not isinstance(given, Const):
        raise ComputeTypeError(
            explain(asked, f"the step {given} is an expression", "Write a number.")
        )
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise ComputeTypeError(f"{asked}: the step {given!r} is not an integer")
    step: int = given.__index__()
    if step == 0:
        raise ComputeError(f"{asked}: the step of a slice cannot be 0; write 1 or more, or -1")
    return step


def _bound(value: Any, asked: str) -> Extent | None:
    if value is None:
        return None
    if hasattr(value, "as_scalar"):
        value = value.as_scalar()
    if isinstance(value, Expr) and not isinstance(value, Const):
        if any(isinstance(node, (Read, Axis)) for node in postorder([value])):
            raise ComputeTypeError(
                explain(
                    f"{asked} with the bound {value}",
                    "the shape of the result would depend on data",
                    'A bound is an integer or a size, n = sl.var("n"). To leave out elements, keep '
                    "the shape and choose: np.where(cond, A, 0), or reduce with where=.",
                )
            )
        if not dtypes.is_integer(value.dtype) or not value.weak:
            raise ComputeTypeError(
                f"{asked}: the bound {value} is {value.dtype}, but must be an integer or a size "
                'made by sl.var("n")'
            )
        return extent(value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ComputeTypeError(
            f"{asked}: the bound {value!r} is not an integer; divide with //"
            if isinstance(value, float)
            else f"{asked}: the bound {value!r} is not an integer"
        )
    return int(value.__index__())


def _upward(start: Extent | None, stop: Extent | None, step: int, size: Extent) -> Taken:
    whole = step == 1 and stop is None and (start is None or start == 0)
    if whole:
        return Taken(0, 1, size, True)
    last = size if stop is None else _from_start(stop, size)
    first: Extent = 0 if start is None else start
    if isinstance(first, int) and first < 0:
        if stop is None:
            # the last elements, all of them if there are fewer
            length = smallest(-first, size)
            return Taken(extent(as_expr(size) - length), step, _steps(length, step), False)
        first = at_least_0(as_expr(size) + first)
    elif isinstance(first, Expr):
        first = at_least_0(first)
    return Taken(first, step, _steps(extent(as_expr(last) - first), step), False)


def _downward(start: Extent | None, stop: Extent | None, step: int, size: Extent) -> Taken:
    end = extent(as_expr(size) - 1)
    if start is None:
        first = end
    elif isinstance(start, int) and start < 0:
        first = extent(as_expr(size) + start)
    else:
        first = smallest(start, end)
    if stop is None:
        before: Extent = -1
    elif isinstance(stop, int) and stop < 0:
        before = extent(call("max", as_expr(size) + stop, -1))
    else:
        before = stop
    length = _steps(extent(as_expr(first) - before), step)
    # min(0, n - 1) is 0 where there is an element
    return Taken(0 if isinstance(start, int) and start == 0 else first, -step, length, False)


def _from_start(stop: Extent, size: Extent) -> Extent:
    if isinstance(stop, int) and stop < 0:
        return extent(as_expr(size) + stop)
    return smallest(stop, size)


def _steps(length: Extent, step: int) -> Extent:
    """Return the number of elements, ``step`` apart, among ``length``."""
    if step == 1:
        return at_least_0(length)
    return at_least_0((as_expr(length) + (step - 1)) // step)
