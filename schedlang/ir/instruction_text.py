"""The text of what an instruction declares, for messages."""

from __future__ import annotations

from schedlang.instructions.declaration import Instruction
from schedlang.ir.printer import INDENT


def formula(declared: Instruction) -> str:
    """Return what an instruction computes, as one line."""
    op = declared.op
    lanes = ", ".join(a.name for a in op.axis)
    how = "+=" if declared.accumulates else "="
    return f"{declared.output.name}[{lanes}] {how} {op.body[0]}"


def declared_nest(declared: Instruction) -> str:
    """Return the loops of a declaration as lines, with what it computes in them."""
    lines = [repr(declared).strip("<>").replace("Instruction ", "", 1)]
    for depth, axis in enumerate((*declared.op.axis, *declared.op.reduce_axis), 1):
        lines.append(f"{INDENT * depth}for {axis.name} in 0..{axis.extent}:")
    return "\n".join([*lines, INDENT * len(lines) + formula(declared)])
