"""Transposed loads: the lanes are far apart, and unrolled iterations read adjacent elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.ir.nodes import Load as LoadExpr
from schedlang.ir.offsets import CLOSE, lane_step
from schedlang.machine.nodes import Column, Let, Load, Reg, Type
from schedlang.machine.select.context import Context

if TYPE_CHECKING:
    from schedlang.machine.select.evaluator import Evaluator

FEWEST, MOST = 4, 16


def column(e: Evaluator, node: LoadExpr, context: Context) -> Column | None:
    """Return a column of a block that is loaded by rows, if an unrolled loop steps along the rows.

    Together the copies of that loop read whole rows. So a block of up to ``MOST`` columns is loaded
    once, transposed in registers, and named in ``context.shared``. Return ``None`` otherwise.
    """
    lanes = context.lanes
    if lanes is None or context.mask or node.buffer in context.written:
        return None
    if context.tested:
        # a whole row may be out of bounds, since a test left out some of the copies
        return None
    if lanes.start.const is None:
        # each copy has a loop over vectors of its own, so the copies cannot share a block
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
        return Column(_block(e, node, first, (axis, step, count), context), at - start)
    return None


def _block(
    e: Evaluator, node: LoadExpr, first: Lin, rows: tuple[Axis, int, int], context: Context
) -> Reg:
    assert context.lanes is not None
    axis, step, count = rows
    key = ("columns", node.buffer, first, context.lanes.count, axis)
    if key not in context.shared:
        array, made = e.array(node.buffer), Type(node.dtype, context.lanes.count)
        at = e.index(first, context)
        name = e.fresh(f"{array.name}_columns", made)
        block = Load("vload_columns", array, at, made, step=step, columns=count)
        e.emit(Let(name, block))
        context.shared[key] = name
    found = context.shared[key]
    assert isinstance(found, Reg)
    return found
