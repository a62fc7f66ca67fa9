"""Columns of blocks that are loaded by rows and transposed in registers."""

from __future__ import annotations

from schedlang.ir.nodes import Columns
from schedlang.ir.nodes import Load as LoadExpr
from schedlang.machine.loops.transposes import columns_of
from schedlang.machine.nodes import Column, Let, Load, Reg, Type
from schedlang.machine.select.context import Context, Group
from schedlang.machine.select.values import Values


def column(e: Values, node: LoadExpr, context: Context) -> Column | None:
    """Return the column of a block that ``node`` reads, if copies share the block."""
    group = context.copies
    if group is None or not group.blocks or context.mask is not None:
        return None
    for block, at in columns_of(node, context.values, group.extents, context.lanes):
        if block in group.blocks:
            return Column(_block(e, block, context, group), at)
    return None


def _block(e: Values, block: Columns, context: Context, group: Group) -> Reg:
    """Return the register of ``block``, which the copies share."""
    if block not in group.known:
        array, kind = e.array(block.buffer), Type(block.buffer.dtype, block.lanes)
        at = e.index(block.first, context)
        name = e.fresh(f"{array.name}_columns", kind)
        value = Load("vload_columns", array, at, kind, step=block.step, columns=block.count)
        e.emit(Let(name, value, number=e.number))
        group.known[block] = name
    register = group.known[block]
    assert isinstance(register, Reg)
    return register
