"""Transposed loads: what unrolled iterations read next to each other, and lanes far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlang.codegen.context import Context, Text
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis
from schedlang.expr.printer import ATOM
from schedlang.ir.nodes import Load
from schedlang.ir.offsets import CLOSE, lane_step

if TYPE_CHECKING:
    from schedlang.codegen.expression import Expressions

FEWEST, MOST = 4, 16


def column_text(e: Expressions, node: Load, context: Context) -> Text | None:
    """Return one column of a block that is read by rows, where an unrolled loop steps along them.

    The copies of that loop read whole rows between them, so a block of up to ``MOST`` columns is
    loaded once, transposed in registers, and named in ``context.shared``.
    """
    lanes = context.lanes
    if lanes is None or context.mask or node.buffer in context.written:
        return None
    if context.tested:
        # rows that only copies which are left out would read may be no part of the array
        return None
    if lanes.start.const is None:
        # a loop over strips of a long vector stands inside the copies, which share no block then
        return None
    for axis, extent in context.copies.items():
        values = {a: v for a, v in context.values.items() if a is not axis}
        offset = e.offset(node.buffer, node.indices, Context(values))
        step, known = lane_step(offset, lanes.axis), context.values.get(axis)
        at = None if known is None else known.const
        if step is None or abs(step) <= CLOSE or lane_step(offset, axis) != 1 or at is None:
            continue
        start = at // MOST * MOST
        count = min(MOST, extent - start)
        if count < FEWEST:
            continue
        first = offset.substitute({axis: Lin.of(start), lanes.axis: lanes.start})
        name = _block(e, node, first, (axis, step, count), context)
        return Text(f"{name}[{at - start}]", ATOM, lanes.count)
    return None


def _block(
    e: Expressions, node: Load, first: Lin, rows: tuple[Axis, int, int], context: Context
) -> str:
    assert context.lanes is not None
    axis, step, count = rows
    key = ("columns", node.buffer, first, context.lanes.count, axis)
    if key not in context.shared:
        half = "_half" if node.dtype == "float16" else ""
        name = e.names.fresh(f"{e.names[node.buffer]}_columns")
        at = e.index(first, context)
        call = e.use(f"vload_columns{half}")
        sizes = f"{step}, {count}, {context.lanes.count}"
        e.line(f"{name} = {call}({e.names[node.buffer]}, {at}, {sizes})")
        context.shared[key] = Text(name)
    return context.shared[key].text
