"""The value of an assignment, spread over the elements that it is assigned to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.arrays.shapes import is_one, same
from schedlang.compute.tensor import Shape, Tensor, shape_text
from schedlang.errors import ComputeError
from schedlang.language.construct import as_expr


def spread(value: Any, shape: Shape, what: str) -> Callable[[Sequence[Any]], Any]:
    """Return a function from places in ``shape`` to the element of ``value`` there.

    ``value`` is a number or a tensor. Raises :class:`~schedlang.errors.ComputeError`, which names
    the assignment ``what``, if it does not broadcast to ``shape``; as in NumPy, it may have more
    dimensions of extent 1 in front.
    """
    if not isinstance(value, Tensor) or not value.ndim:
        scalar = as_expr(value)
        return lambda at: scalar
    extents = list(value.shape)
    while len(extents) > len(shape) and is_one(extents[0]):
        del extents[0]
    dropped = value.ndim - len(extents)
    skipped = len(shape) - len(extents)
    aligned = shape[skipped:] if skipped >= 0 else ()
    if skipped < 0 or not all(same(g, s) or is_one(g) for g, s in zip(extents, aligned)):
        raise ComputeError(
            f"{what}: an array of shape {shape_text(value.shape)} does not broadcast to "
            f"{shape_text(shape)}, the shape of the elements"
        )
    stretched = [is_one(g) and not is_one(s) for g, s in zip(extents, aligned)]

    def element(at: Sequence[Any]) -> Any:
        return value[
            (0,) * dropped
            + tuple(as_expr(0 if wide else i) for i, wide in zip(at[skipped:], stretched))
        ]

    return element
