"""Elements at given indices, which are numbers or read from a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.arrays.operands import operand
from schedlang.arrays.shapes import axis_number, broadcast, is_one
from schedlang.arrays.shaping import ravel
from schedlang.arrays.stages import data_axes, each, element, read, stage, tensor_of
from schedlang.compute.read import Read
from schedlang.compute.tensor import PlaceholderOp, Tensor, shape_text
from schedlang.errors import BoundsError, ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast, select

# the most indices that are written out as choices
MOST_CHOICES = 64


def take(a: Any, indices: Any, axis: Any = None, mode: str = "raise") -> Any:
    """Return ``np.take``: the elements at ``indices`` along ``axis``.

    ``indices`` are integers or a tensor of integers. Negative ones count from the end.
    """
    source = tensor_of(a, "np.take")
    if mode not in ("raise", "wrap", "clip"):
        raise ComputeError(f"np.take: mode={mode!r} is none of 'raise', 'wrap', 'clip'")
    if axis is None or not source.ndim:
        source, axis = ravel(source), axis or 0
    along = axis_number(axis, source.ndim, "np.take")
    length = source.shape[along]
    if isinstance(indices, (list, tuple)) or (isinstance(indices, np.ndarray) and indices.ndim):
        static = np.asarray(indices)
        if static.size and static.dtype.kind not in "iu":
            raise ComputeTypeError(f"np.take: indices are {static.dtype}, but must be integers")
        inner: Any = static.shape
        index_at = static_index(static, length, mode, f"dimension {along} of {source.name}")
    else:
        chosen = operand(indices, "np.take")
        if chosen.dtype == "bool" or not dtypes.is_integer(chosen.dtype):
            raise ComputeTypeError(
                f"np.take: indices are {chosen.dtype}, but must be integers; cast them with "
                ".astype('int64')"
            )
        inner = chosen.shape if isinstance(chosen, Tensor) else ()

        def index_at(place: Sequence[Expr]) -> Expr:
            return read_index(element(chosen, place, inner), length, mode)

    shape = (*source.shape[:along], *inner, *source.shape[along + 1 :])

    def value(*at: Axis) -> Expr:
        index = index_at(at[along : along + len(inner)])
        return read(source, [*at[:along], index, *at[along + len(inner) :]])

    return each("take", shape, value)


def read_index(index: Expr, length: Any, mode: str) -> Expr:
    """Return ``index`` as NumPy reads it in a dimension of ``length``."""
    wide = cast(index, "int64") if not index.weak else index
    if mode == "clip":
        return call("max", call("min", wide, as_expr(length) - 1), 0)
    if mode == "wrap":
        return wide % length
    if _never_negative(index):
        return wide
    if isinstance(index, Const):
        return wide + length if index.value < 0 else wide
    return select(wide < 0, wide + length, wide)


def _never_negative(index: Expr) -> bool:
    """Return whether an index has an unsigned dtype, or ``sl.assume`` says that it is 0 or more."""
    if index.dtype.startswith("uint"):
        return True
    op = index.tensor.op if isinstance(index, Read) else None
    if not isinstance(op, PlaceholderOp) or op.facts is None or op.facts.within is None:
        return False
    return Ranges().nonneg(to_lin(op.facts.within[0]))


def static_index(
    indices: np.ndarray, length: Any, mode: str, where: str
) -> Callable[[Sequence[Expr]], Expr]:
    """Return a function from a place in the array ``indices`` to the index there.

    ``where`` names the dimension of ``length``. Evenly spaced indices are a formula, others a
    choice. Raises :class:`~schedlang.errors.BoundsError` for one that is out of range under mode
    ``"raise"``, and :class:`~schedlang.errors.ComputeTypeError` for more than ``MOST_CHOICES``
    choices.
    """
    numbers = [int(v) for v in indices.ravel()]
    if isinstance(length, int):
        numbers = [_within(n, length, mode, where) for n in numbers]
    final = isinstance(length, int) or (mode == "raise" and min(numbers, default=0) >= 0)
    step = _step(numbers) if final else None
    if step is None and len(numbers) > MOST_CHOICES:
        raise ComputeTypeError(
            explain(
                f"{len(numbers)} known indices of {where}",
                f"more than {MOST_CHOICES} are data, which a computation takes as an input",
                f'Declare them, idx = sl.placeholder({indices.shape}, "int64", name="idx"), and '
                "pass the array to the kernel.",
            )
        )

    def at(place: Sequence[Expr]) -> Expr:
        position: Expr = as_expr(0)
        for k, size in zip(place, indices.shape):
            position = position * size + k
        if step is not None:
            return position * step + numbers[0]
        return _chosen(numbers, position, length, "" if final else mode)

    return at


def _within(number: int, length: int, mode: str, where: str) -> int:
    """Return a known index as one from the start."""
    if not length or (mode == "raise" and not -length <= number < length):
        raise BoundsError(
            f"index {number} is out of bounds for {where}, which has {length} "
            f"element{'s' * (length != 1)}"
        )
    return min(max(number, 0), length - 1) if mode == "clip" else number % length


def _step(numbers: Sequence[int]) -> int | None:
    """Return the step of evenly spaced numbers; ``None`` if they are not."""
    if len(numbers) < 2:
        return None
    step = numbers[1] - numbers[0]
    return step if all(b - a == step for a, b in zip(numbers, numbers[1:])) else None


def _chosen(numbers: list[int], position: Expr, length: Any, mode: str) -> Expr:
    """Return the number at ``position``, read under ``mode`` if there is one."""
    numbers_read = [read_index(as_expr(n), length, mode) if mode else as_expr(n) for n in numbers]
    if not numbers_read:
        return as_expr(0)
    chosen = numbers_read[-1]
    for k in range(len(numbers_read) - 2, -1, -1):
        chosen = select(binary("==", position, k), numbers_read[k], chosen)
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
    index = read_index(element(chosen, axes, common), source.shape[along], "raise")
    at = [index if k == along else 0 if is_one(e) else axes[k] for k, e in enumerate(source.shape)]
    return stage("take", axes, read(source, at))
