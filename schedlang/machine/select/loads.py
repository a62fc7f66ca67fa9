"""Loads of one element, or of the lanes of a vector."""

from __future__ import annotations

from dataclasses import replace

from schedlang.expr.dtypes import SHORT_FLOATS, storage_dtype
from schedlang.index.linear import Lin, to_expr
from schedlang.ir.instructed import Tile
from schedlang.ir.nodes import Load as LoadExpr
from schedlang.ir.offsets import CLOSE, gathers, is_uniform, lane_step
from schedlang.machine.nodes import Load, Type, Value
from schedlang.machine.select.context import Context
from schedlang.machine.select.values import Values
from schedlang.machine.walks import wide

# the most lanes whose order fits on a line
MOST_SHUFFLED = 16


def load(e: Values, node: LoadExpr, offset: Lin, context: Context) -> Load:
    """Return a load of one element, or of lanes: adjacent, a constant step apart, or gathered."""
    if isinstance(node, Tile):
        return _tile(e, node, offset, context)
    array, lanes, mask = e.array(node.buffer), context.lanes, context.mask
    scalar = Type(node.dtype)
    vector = scalar if lanes is None else Type(node.dtype, lanes.count)
    step = None if lanes is None else lane_step(offset, lanes.axis)
    if lanes is None or is_uniform(step, mask is None or context.leads):
        at = e.index(offset, context, node.buffer, node.indices)
        return Load("load", array, at, scalar)
    if mask is not None and gathers(offset):
        # the index is itself read from a tensor, which only lanes under the mask may do
        return Load("vgather_masked", array, _lane_offsets(e, offset, context), vector, mask=mask)
    if step == 0:
        assert mask is not None
        where = wide(e.index(offset, context, node.buffer, node.indices), lanes.count)
        return Load("vgather_masked", array, where, vector, mask=mask)
    if step is None:
        if mask is not None:
            offsets = _lane_offsets(e, offset, context)
            return Load("vgather_masked", array, offsets, vector, mask=mask)
        if e.shuffled and (shuffle := _shuffle_order(e, node, context)) is not None:
            start, distances = shuffle
            within = context._replace(lanes=replace(lanes, start=lanes.start + start))
            first = e.offset(node.buffer, node.indices, _at_lane(context, start))
            at = e.index(first, within, node.buffer, node.indices)
            return Load("vload_shuffled", array, at, vector, order=e.order(distances))
        return Load("vgather", array, _lane_offsets(e, offset, context), vector)
    first = offset.substitute({lanes.axis: lanes.start})
    at = e.index(first, context, node.buffer, node.indices)
    if step == 1:
        if mask is not None:
            return Load("vload_masked", array, at, vector, mask=mask)
        aligned = e.aligned(node.buffer, first, lanes.count)
        return Load("vload_aligned" if aligned else "vload", array, at, vector)
    if mask is None:
        return Load("vload_strided", array, at, vector, step=step)
    if abs(step) > CLOSE:
        at = _lane_offsets(e, offset, context)
        return Load("vgather_masked", array, at, vector, mask=mask)
    return Load("vload_strided_masked", array, at, vector, step=step, mask=mask)


def _tile(e: Values, node: Tile, offset: Lin, context: Context) -> Load:
    """Return the load of an operand of an instruction; a short float is loaded as its bits."""
    at, raw = e.index(offset, context, node.buffer, node.indices), node.dtype in SHORT_FLOATS
    aligned = e.aligned(node.buffer, offset, node.count)
    vector = "vload_aligned" if aligned else "vload"
    how, lanes = (vector, node.count) if node.count > 1 else ("load", 0)
    kind = Type(storage_dtype(node.dtype) if raw else node.dtype, lanes)
    return Load(how, e.array(node.buffer), at, kind, raw=raw)


def _shuffle_order(
    e: Values, node: LoadExpr, context: Context
) -> tuple[int, tuple[int, ...]] | None:
    """Return the lane that reads the first element, and each lane's distance from that element.

    Return ``None`` if the distances are not constants, if the elements do not fit in one vector, or
    if there are too many lanes.
    """
    lanes = context.lanes
    assert lanes is not None
    if lanes.count > MOST_SHUFFLED:
        return None
    offsets = [
        e.offset(node.buffer, node.indices, _at_lane(context, lane)) for lane in range(lanes.count)
    ]
    distances = [(offset - offsets[0]).const for offset in offsets]
    constants = [d for d in distances if d is not None]
    if len(constants) < lanes.count or max(constants) - min(constants) >= lanes.count:
        return None
    low = min(constants)
    return constants.index(low), tuple(d - low for d in constants)


def _at_lane(context: Context, lane: int) -> Context:
    """Return the context of one lane alone."""
    lanes = context.lanes
    assert lanes is not None
    return context._replace(values={**context.values, lanes.axis: lanes.start + lane})


def _lane_offsets(e: Values, offset: Lin, context: Context) -> Value:
    assert context.lanes is not None
    return wide(e.value(to_expr(offset), context), context.lanes.count)
