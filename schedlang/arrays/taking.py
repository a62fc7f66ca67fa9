"""Elements at given indices, which are numbers or read from a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.arrays.operands import operand
from schedlang.arrays.shapes import axis_number, broadcast, is_one
from schedlang.arrays.shaping import ravel
from schedlang.arrays.stages import data_axes, each, element, read, stage, tensor_of
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast, select

# the most indices that are written out as choices
MOST_CHOICES = 64


def take(a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    """Return ``np.take``: the elements at ``indices`` along ``axis``.

    ``indices`` are integers, or a tensor of integers, of which negative ones count from the end.
    """
    source = tensor_of(a, "np.take")
    if mode not in ("raise", "wrap", "clip"):
        raise ComputeError(f"np.take: mode={mode!r} is none of 'raise', 'wrap', 'clip'")
    if axis is None or not source.ndim:
        source, axis = ravel(source), axis or 0
    along = axis_number(axis, source.ndim, "np.take")
    if isinstance(indices, (list, tuple)) or (isinstance(indices, np.ndarray) and indices.ndim):
        return _take_numbers(source, np.asarray(indices), along, mode)
    chosen = operand(indices, "np.take")
    if chosen.dtype == "bool" or not dtypes.is_integer(chosen.dtype):
        raise ComputeTypeError(
            f"np.take: indices are {chosen.dtype}, but must be integers; cast them with "
            ".astype('int64')"
        )
    inner = chosen.shape if isinstance(chosen, Tensor) else ()
    shape = (*source.shape[:along], *inner, *source.shape[along + 1 :])

    def value(*at: Axis) -> Expr:
        places = at[along : along + len(inner)]
        index = _in_range(element(chosen, places, inner), source.shape[along], mode)
        return read(source, [*at[:along], index, *at[along + len(inner) :]])

    return each("take", shape, value)


def _in_range(index: Expr, length: Any, mode: str) -> Expr:
    """Return ``index`` as NumPy reads it in a dimension of ``length``."""
    wide = cast(index, "int64") if not index.weak else index
    if mode == "clip":
        return call("max", call("min", wide, as_expr(length) - 1), 0)
    if mode == "wrap":
        return wide % length
    if index.dtype.startswith("uint"):
        return wide
    return select(wide < 0, wide + length, wide)


def _take_numbers(source: Tensor, indices: np.ndarray, along: int, mode: str) -> Tensor:
    """Return ``np.take`` of known indices: a slice of evenly spaced ones, else a choice."""
    length = source.shape[along]
    if indices.size and indices.dtype.kind not in "iu":
        raise ComputeTypeError(f"np.take: indices are {indices.dtype}, but must be integers")
    if indices.size > MOST_CHOICES:
        raise ComputeTypeError(
            explain(
                f"np.take of {indices.size} known indices",
                f"more than {MOST_CHOICES} are data, which a computation takes as an input",
                f'Declare them, idx = sl.placeholder({indices.shape}, "int64", name="idx"), and '
                "pass the array to the kernel.",
            )
        )
    numbers = [int(v) for v in indices.ravel()]
    if isinstance(length, int):
        for k, number in enumerate(numbers):
            if mode == "raise" and not -length <= number < length:
                raise ComputeError(
                    f"np.take: index {number} is out of bounds for dimension {along} of "
                    f"{source.name}, which has {length} elements"
                )
            wrapped = number % length if mode == "wrap" else min(max(number, 0), length - 1)
            numbers[k] = number % length if mode == "raise" else wrapped
    shape = (*source.shape[:along], *indices.shape, *source.shape[along + 1 :])

    def value(*at: Axis) -> Expr:
        places = at[along : along + indices.ndim]
        position: Expr = as_expr(0)
        for place, size in zip(places, indices.shape):
            position = position * size + place
        index = _chosen(numbers, position, length, mode)
        return read(source, [*at[:along], index, *at[along + indices.ndim :]])

    return each("take", shape, value)


def _chosen(numbers: list[int], position: Expr, length: Any, mode: str) -> Expr:
    """Return the number at ``position``: a linear one if they are evenly spaced."""
    if isinstance(length, int) and len(numbers) > 1:
        step = numbers[1] - numbers[0]
        if all(b - a == step for a, b in zip(numbers, numbers[1:])):
            return position * step + numbers[0]
    made = [as_expr(n) if isinstance(length, int) else _in_range(as_expr(n), length, mode)
            for n in numbers]  # fmt: skip
    if not made:
        return as_expr(0)
    chosen = made[-1]
    for k in range(len(made) - 2, -1, -1):
        chosen = select(binary("==", position, k), made[k], chosen)
    return chosen


def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Tensor:
    """Return ``np.take_along_axis``: an element of ``arr`` for each of ``indices``."""
    source, chosen = (tensor_of(v, "np.take_along_axis") for v in (arr, indices))
    if chosen.dtype == "bool" or not dtypes.is_integer(chosen.dtype):
        raise ComputeTypeError(f"np.take_along_axis: indices are {chosen.dtype}, not integers")
    if axis is None:
        source, axis = ravel(source), 0
    along = axis_number(axis, source.ndim, "np.take_along_axis")
    if chosen.ndim != source.ndim:
        raise ComputeError(
            f"np.take_along_axis: indices of shape {shape_text(chosen.shape)} must have the "
            f"{source.ndim} dimensions of {source.name}"
        )
    rest = [tuple(1 if k == along else e for k, e in enumerate(t.shape)) for t in (source, chosen)]
    common = list(broadcast(rest, "np.take_along_axis"))
    common[along] = chosen.shape[along]
    axes = data_axes(tuple(common))
    index = _in_range(element(chosen, axes, common), source.shape[along], "raise")
    at = [index if k == along else 0 if is_one(e) else axes[k] for k, e in enumerate(source.shape)]
    return stage("take", axes, read(source, at))
