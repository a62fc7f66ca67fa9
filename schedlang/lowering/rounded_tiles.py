"""Rounding up of private tiles: elements past the tensor's end are computed but never stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.index.linear import ZERO, Lin, Opaque
from schedlang.index.quotients import within
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.lowering.instantiate import instantiate
from schedlang.state.plan import Dim
from schedlang.state.state import Stage


def round_up(
    stage: Stage,
    dims: Sequence[Dim],
    inline: Mapping[Tensor, ComputeOp],
    ranges: Ranges,
    boxed: Callable[[Tensor], bool] | None = None,
) -> tuple[tuple[Dim, ...], set[Tensor]]:
    """Return ``dims`` without guards at the tensor's ends, if no operand is read out of bounds.

    A guard is dropped if the operands are padded, as in a packed matrix whose last panel is filled
    up, or if the operands that are read past their ends are all ``boxed``: their storage can be
    as large as the region read. The second result is the set of those operands.
    """
    rounded, past = list(dims), set[Tensor]()
    for k, dim in enumerate(dims):
        if dim.low or dim.high:
            free = [*rounded[:k], replace(dim, low=False, high=False), *rounded[k + 1 :]]
            outside = _read_outside(stage, free, inline, ranges)
            if outside is None:
                continue
            if not outside or (boxed is not None and not dim.low and all(map(boxed, outside))):
                rounded = free
                past |= outside
    return tuple(rounded), past


def _read_outside(
    stage: Stage, dims: Sequence[Dim], inline: Mapping[Tensor, ComputeOp], ranges: Ranges
) -> set[Tensor] | None:
    """Return the tensors that a point of ``dims`` may read out of bounds.

    Return ``None`` if that cannot be decided.
    """
    op = stage.op
    if not isinstance(op, ComputeOp):
        return None
    values: dict[Axis, Lin] = {}
    for axis, dim in zip(op.axis, dims):
        values[axis] = dim.lo + Lin.of(axis)
        ranges = ranges.extended(axis, ZERO, dim.extent - 1)
    for axis in op.reduce_axis:
        values[axis] = to_lin(axis.lo) + Lin.of(axis)
        ranges = ranges.extended(axis, ZERO, to_lin(axis.extent) - 1)
    for axis, dim in zip(op.axis, dims):
        if dim.low:
            ranges = ranges.assuming((-values[axis],))
        if dim.high:
            ranges = ranges.assuming((values[axis] - dim.size + 1,))
    roots = (*op.body, *(op.init or ()), *(() if op.where is None else (op.where,)))
    tensors: set[Tensor] = set()
    for tensor, index in instantiate(roots, values, inline, ranges).reads:
        for at, extent in zip(index, tensor.shape):
            if not within(at, to_lin(extent), ranges):
                if any(isinstance(leaf, Opaque) for leaf in at.leaves()):
                    return None
                tensors.add(tensor)
    return tensors
