"""Instructions that compute what a stage of a random computation does.

No processor has them: nests with them run in the interpreters, which take their declarations.
"""

from __future__ import annotations

from typing import Any

import schedlang as sl
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder, rewrite
from schedlang.instructions import CFunction

LANES = (2, 4, 8, 16)


def is_lane(axis: Axis) -> bool:
    """Return whether an instruction may have the iterations of ``axis`` as its lanes."""
    return isinstance(axis.extent, int) and axis.extent in LANES and not axis.is_reduce


def derived_instruction(name: str, op: Any, axis: Axis) -> sl.Instruction | None:
    """Return an instruction that computes ``op`` along ``axis``, a part of one of its axes.

    Return ``None`` if an instruction cannot.
    """
    if not isinstance(op, ComputeOp):
        return None
    root = next((a for a in op.axis if axis.name.split(".")[0] == a.name), None)
    if root is None or len(op.outputs) != 1:
        return None
    if op.reducer is not None and op.reducer.name != "sum":
        return None
    inputs: dict[str, Any] = {}

    def element(lane: Any) -> Any:
        def moved(node: Expr) -> Expr | None:
            if not isinstance(node, Read):
                return None
            along = any(part is root for part in postorder(node.indices))
            shape = (axis.extent if along else 1,)
            letter = f"x{len(inputs)}"
            operand = inputs.setdefault(
                str(node), sl.placeholder(shape, node.tensor.dtype, name=letter)
            )
            return operand.element((lane if along else 0,))

        body = rewrite(op.body[0], moved)
        if op.reducer is None:
            return body
        return sl.sum(body, axis=sl.reduce_axis(1, name="q"))

    try:
        output = sl.compute((axis.extent,), element, name="y")
        types = ("int",) * (len(inputs) + (op.reducer is not None))
        return sl.instruction(name, output, emit={"c": CFunction("none", "math.h", types)})
    except ComputeError:
        # another dtype, more than one axis, a wide operand
        return None


def instructions_of(s: Any) -> list[sl.Instruction]:
    """Return the instructions in the steps of a schedule."""
    return [v for step in s.steps for v in step.args.values() if isinstance(v, sl.Instruction)]
