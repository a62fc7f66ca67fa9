"""Square results of which readers need one half: the elements up to the diagonal, or from it on."""

from __future__ import annotations

from schedlang.autotune.tactics.facts import StageFacts
from schedlang.compute.bounds import guards_of
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp
from schedlang.expr.visit import postorder
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin

# the half whose rows are at least its columns, and the other one
LOWER, UPPER = "lower", "upper"


def needed_half(stage: StageFacts) -> str:
    """Return the half of a matrix that its readers need, or an empty text if they need both.

    A reader such as ``sl.if_then_else(j <= i, P[i, j], P[j, i])`` needs ``LOWER``: the conditions
    around a read prove it.
    """
    if stage.stays or len(stage.op.axis) != 2:
        return ""
    key = ("needed half", stage.tensor, *(other.op for other in stage.flow.every_stage))
    return stage.flow.once(key, lambda: _needed_half(stage))


def _needed_half(stage: StageFacts) -> str:
    needed = {LOWER, UPPER}
    for reader in stage.flow.every_stage:
        if stage.tensor not in reader.op.input_tensors:
            continue
        if not isinstance(reader.op, ComputeOp) or reader.op.destination is not None:
            return ""
        order = postorder(reader.op.roots)
        guards = guards_of(reader.op, order, Ranges())
        for node in order:
            if isinstance(node, Read) and node.tensor is stage.tensor:
                row, column = map(to_lin, node.indices)
                inside = Ranges().assuming(guards[id(node)][1])
                proven = {LOWER: inside.nonneg(row - column), UPPER: inside.nonneg(column - row)}
                needed = {half for half in needed if proven[half]}
    return min(needed, default="")
