"""The arithmetic of a statement, as instructions and as operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from schedlang.compute.work import of_point
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import Binary, Call, Expr, Select
from schedlang.expr.operators import ARITHMETIC, OPERATORS
from schedlang.expr.visit import postorder
from schedlang.instructions.python_function import PythonFunction
from schedlang.ir.instructed import Instructed
from schedlang.ir.nodes import Load, Store

# cycles of a division and of a math function, per vector
# nobody has measured these values
DIVISION, MATH = 10, 14
# operations of a function of Python over intrinsics in a cycle
# nobody has measured this value
EACH = 2
CHEAP = frozenset(f.name for f in FUNCTIONS.values() if f.cheap)


def instructions(
    store: Store, nodes: Sequence[Expr], times: Callable[[Expr], float], every: float
) -> float:
    """Return the cycles of the arithmetic of a statement, whose values consist of ``nodes``.

    ``times`` returns the number of instructions of a node, over all copies of the statement.
    ``every`` is that number for a node that each copy and each vector evaluates, such as the update
    of a reduction.
    """
    total = sum(
        times(node) * _cycles(node) for node in nodes
        if not (node.weak or isinstance(node, Load))
    )  # fmt: skip
    total += sum(_of_operands(node, times) for node in nodes if isinstance(node, Instructed))
    if store.reducer is None:
        return max(total, times(store.values[0]))
    for value in store.values:
        if isinstance(value, Instructed):
            continue
        # a multiply-add is one instruction
        fused = isinstance(value, Binary) and value.op == "*" and times(value) == every
        total += 0.0 if fused else every
    return max(total, every)


def _cycles(node: Expr) -> float:
    if isinstance(node, Binary) and OPERATORS[node.op].slow:
        return DIVISION
    if isinstance(node, Instructed):
        return _of_instruction(node)
    if isinstance(node, Call):
        return 1 if node.fn in CHEAP else MATH
    return 1 if isinstance(node, (Binary, Select)) else 0


def _of_instruction(node: Instructed) -> float:
    assert node.instruction is not None
    emission = node.instruction.emit.get("llvm")
    return max(1, emission.operations / EACH) if isinstance(emission, PythonFunction) else 1


def _of_operands(node: Instructed, times: Callable[[Expr], float]) -> float:
    """Return the cycles in which a function prepares operands, each once for all of its uses."""
    assert node.instruction is not None
    emission = node.instruction.emit.get("llvm")
    if not isinstance(emission, PythonFunction):
        return 0.0
    alone = emission.alone[-len(node.children) :]
    return sum(times(operand) * count for operand, count in zip(node.children, alone)) / EACH


def operations(store: Store) -> int:
    """Return the number of arithmetic operations of one lane, without the index arithmetic."""
    loads = {id(node) for node in postorder(store.values) if isinstance(node, Load)}
    if isinstance(store.values[0], Instructed):
        return _declared(store.values[0])
    counted = sum(
        (isinstance(node, Binary) and OPERATORS[node.op].kind == ARITHMETIC)
        or (isinstance(node, Call) and node.fn not in CHEAP)
        for node in postorder(store.values, loads) if not node.weak
    )  # fmt: skip
    return counted + (0 if store.reducer is None else len(store.reducer.parts) or 1)


def _declared(value: Instructed) -> int:
    """Return the operations of one lane of an instruction, its sum included."""
    assert value.instruction is not None
    op = value.instruction.op
    return prod(int(a.extent) for a in op.reduce_axis) * of_point(op)
