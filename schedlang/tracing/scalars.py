"""Scalars of much work, such as a sum of many elements: stages of their own beside arrays.

A scalar is an expression, which each element of an array would compute again.
"""

from __future__ import annotations

from typing import Any

from schedlang.arrays.stages import tensor_of
from schedlang.compute.read import Read
from schedlang.errors import BoundsError
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import Binary, Call, Expr, Select
from schedlang.expr.visit import postorder
from schedlang.tracing.calls import compute_once
from schedlang.tracing.items import is_traced
from schedlang.tracing.leaves import flatten
from schedlang.tracing.trace import current

# in operations, of which a function of floats such as np.tanh takes about this many
MUCH_WORK = 8


def settle_beside_arrays(values: Any) -> None:
    """Make stages of scalars of much work, if there is an array among the operands of a call."""
    operands = [v for v in flatten(values)[0] if is_traced(v)]
    if any(v.ndim for v in operands):
        for operand in operands:
            settle(operand)


def settle(scalar: Any) -> None:
    """Make a stage of a scalar of the present trace that reads elements and takes much work."""
    trace = current()
    values = trace.values
    if is_traced(scalar) and scalar.is_scalar and scalar.storage in values:
        value = values[scalar.storage]
        if isinstance(value, Expr) and not value.weak and _takes_much_work(value):
            try:
                values[scalar.storage] = compute_once(tensor_of, (value, "a scalar"), {})[()]
            except BoundsError:
                # the side of an if reads elements that exist only where its test holds
                if not trace.conditions:
                    raise


def _takes_much_work(value: Expr) -> bool:
    work, reads = 0, False
    for node in postorder([value]):
        reads |= isinstance(node, Read)
        if isinstance(node, Call):
            known = FUNCTIONS.get(node.fn)
            work += MUCH_WORK if known is not None and known.rule == "float" else 1
        work += isinstance(node, (Binary, Select))
        if reads and work >= MUCH_WORK:
            return True
    return False
