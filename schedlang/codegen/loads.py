"""The text of loads, of one element or of the lanes of a vector."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from schedlang.codegen.context import Context, Text
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.printer import ATOM
from schedlang.ir.nodes import Load
from schedlang.ir.offsets import CLOSE, gathers, lane_step

if TYPE_CHECKING:
    from schedlang.codegen.expression import Expressions

# the most lanes whose order fits on a line
MOST_SHUFFLED = 16


def load_text(e: Expressions, node: Load, offset: Lin, context: Context) -> Text:
    """Return a load of one element, or of lanes: adjacent, a constant step apart, or gathered."""
    name, half = e.names[node.buffer], "_half" if node.dtype == "float16" else ""
    lanes, use = context.lanes, e.use
    if lanes is not None and context.mask and gathers(offset):
        # the index is itself read from a tensor, which only lanes under the mask may do
        at = _lane_offsets(e, offset, context)
        text = f"{use('vgather_masked' + half)}({name}, {at}, {context.mask})"
        return Text(text, ATOM, lanes.count, 2)
    step = 0 if lanes is None else lane_step(offset, lanes.axis)
    if lanes is None or step == 0:
        at = e.index(offset, context, node.buffer, node.indices)
        if lanes is not None and context.mask and not context.leads:
            # the element may be out of bounds if no lane passes the mask
            where = f"{use('broadcast')}({at}, {lanes.count})"
            text = f"{use('vgather_masked' + half)}({name}, {where}, {context.mask})"
            return Text(text, ATOM, lanes.count, 2)
        return Text(f"{use('load' + half)}({name}, {at})", ATOM, 0, 1)
    count, mask = lanes.count, context.mask
    if step is None:
        if not mask and e.shuffled and (found := _shuffle_order(e, node, context)) is not None:
            start, distances = found
            within = replace(context, lanes=replace(lanes, start=lanes.start + start))
            first = e.offset(node.buffer, node.indices, _at_lane(context, start))
            at = e.index(first, within, node.buffer, node.indices)
            order = _named(e, str(distances), context)
            return Text(f"{use('vload_shuffled' + half)}({name}, {at}, {order})", ATOM, count, 1)
        at = _lane_offsets(e, offset, context)
        if mask:
            return Text(f"{use('vgather_masked' + half)}({name}, {at}, {mask})", ATOM, count, 2)
        return Text(f"{use('vgather' + half)}({name}, {at})", ATOM, count, 2)
    first = offset.substitute({lanes.axis: lanes.start})
    at = e.index(first, context, node.buffer, node.indices)
    if step == 1:
        if mask:
            return Text(f"{use('vload_masked' + half)}({name}, {at}, {mask})", ATOM, count, 1)
        vload = "vload_aligned" if e.aligned(node.buffer, first, count) else "vload"
        return Text(f"{use(vload + half)}({name}, {at}, {count})", ATOM, count, 1)
    if mask:
        if abs(step) > CLOSE:
            at = _lane_offsets(e, offset, context)
            return Text(f"{use('vgather_masked' + half)}({name}, {at}, {mask})", ATOM, count, 2)
        text = f"{use('vload_strided_masked' + half)}({name}, {at}, {step}, {mask})"
        return Text(text, ATOM, count, 1)
    return Text(f"{use('vload_strided' + half)}({name}, {at}, {step}, {count})", ATOM, count, 1)


def _shuffle_order(
    e: Expressions, node: Load, context: Context
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
    known = [d for d in distances if d is not None]
    if len(known) < lanes.count or max(known) - min(known) >= lanes.count:
        return None
    low = min(known)
    return known.index(low), tuple(d - low for d in known)


def _named(e: Expressions, order: str, context: Context) -> str:
    """Return a name for the order of a shuffle, defined once in each block."""
    if order not in context.named:
        name = e.names.fresh("order")
        e.line(f"{name} = {order}")
        context.named[order] = Text(name)
    return context.named[order].text


def _at_lane(context: Context, lane: int) -> Context:
    """Return the context of one lane alone."""
    lanes = context.lanes
    assert lanes is not None
    return replace(context, values={**context.values, lanes.axis: lanes.start + lane})


def _lane_offsets(e: Expressions, offset: Lin, context: Context) -> str:
    lanes = context.lanes
    assert lanes is not None
    text = e.value(to_expr(offset), context)
    if not text.lanes:
        return f"{e.use('broadcast')}({text.text}, {lanes.count})"
    return text.text
