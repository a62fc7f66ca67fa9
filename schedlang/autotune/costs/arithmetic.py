"""The arithmetic of a statement, in instructions and in operations."""

from __future__ import annotations

from collections.abc import Callable

from schedlang.expr.nodes import Binary, Call, Expr, Select
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Load, Store

# cycles of a division or a math function a vector
DIVISION, MATH = 10, 14
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
CHEAP = ("min", "max", "abs")


def instructions(store: Store, times: Callable[[Expr], float]) -> float:
    """Cycles of the arithmetic of a statement; ``times``: how many instructions each node is.

    What computes the index of a load takes cycles, too.
    """
    total = sum(
        times(node) * _cycles(node) for node in postorder(store.values)
        if not (node.weak or isinstance(node, Load))
    )  # fmt: skip
    # a product that is added is one instruction
    fused = any(isinstance(v, Binary) and v.op == "*" for v in store.values)
    if store.reducer is not None and not fused:
        total += times(store.values[0])
    return max(total, times(store.values[0]))


def _cycles(node: Expr) -> float:
    if isinstance(node, Binary) and node.op in ("/", "//", "%"):
        return DIVISION
    if isinstance(node, Call):
        return 1 if node.fn in CHEAP else MATH
    return isinstance(node, (Binary, Select))


def operations(store: Store) -> int:
    """Operations on elements for one lane; what computes the index of a load is none."""
    loads = {id(node) for node in postorder(store.values) if isinstance(node, Load)}
    counted = sum(
        (isinstance(node, Binary) and node.op in ARITHMETIC)
        or (isinstance(node, Call) and node.fn not in CHEAP)
        for node in postorder(store.values, loads) if not node.weak
    )  # fmt: skip
    return counted + (store.reducer is not None)


__all__ = ["instructions", "operations"]
