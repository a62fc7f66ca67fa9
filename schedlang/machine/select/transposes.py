"""Columns of blocks that are loaded by rows and transposed in registers."""

from __future__ import annotations

from schedlang.ir.nodes import Columns
from schedlang.ir.nodes import Load as LoadExpr
from schedlang.machine.loops.transposes import columns_of
from schedlang.machine.nodes import Column, Let, Load, Reg, Type
from schedlang.machine.select.context import Context
from schedlang.machine.select.values import Values


def column(e: Values, node: LoadExpr, context: Context) -> Column | None:
    """Return the column of a block that ``node`` reads, if copies share the block."""
    if not context.blocks or context.mask is not None:
        return None
    for block, at in columns_of(node, context.values, context.copies, context.lanes):
        if block in context.blocks:
            return Column(_block(e, block, context), at)
    return None


def _block(e: Values, block: Columns, context: Context) -> Reg:
    """Return the register of ``block``, which the copies share."""
    if block not in context.shared:
        array, made = e.array(block.buffer), Type(block.buffer.dtype, block.lanes)
        at = e.index(block.first, context)
        name = e.fresh(f"{array.name}_columns", made)
        value = Load("vload_columns", array, at, made, step=block.step, columns=block.count)
        e.emit(Let(name, value, number=e.number))
        context.shared[block] = name
    found = context.shared[block]
    assert isinstance(found, Reg)
    return found
