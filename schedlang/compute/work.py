"""How much arithmetic a computation is, before any schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schedlang.compute.graph import operations
from schedlang.compute.tensor import ComputeOp, Extent, Tensor
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Binary, Call, Expr, Read, Unary, Var

_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")


def flops(outputs: Sequence[Tensor], sizes: Mapping[Var, Any] | None = None) -> int:
    """Arithmetic operations behind ``outputs``, each stage computed once, whole.

    Counted are arithmetic on elements and math functions, one each, and one a point for what a
    reduction combines: a multiply-add is 2. Index arithmetic, comparisons, choices and casts are
    free. ``sizes`` gives the values of symbolic extents.

    >>> import schedlang as sl
    >>> A, B = sl.placeholder((4, 8), name="A"), sl.placeholder((8, 2), name="B")
    >>> k = sl.reduce_axis(8, name="k")
    >>> C = sl.compute((4, 2), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    >>> flops([C])
    128
    """
    total = 0
    for op in operations(outputs):
        if not isinstance(op, ComputeOp):
            continue
        points = 1
        for axis in (*op.axis, *op.reduce_axis):
            points *= _value(axis.extent, sizes or {})
        each = _operations(op.body)
        if op.reducer is not None:
            each += max(1, _operations(op.reducer.result))
        total += points * each
    return total


def _operations(roots: Sequence[Expr]) -> int:
    """The arithmetic nodes of an expression graph, shared parts once, indices left out."""
    seen: set[int] = set()
    stack, count = list(roots), 0
    while stack:
        node = stack.pop()
        if id(node) in seen or isinstance(node, Read) or node.weak:
            continue
        seen.add(id(node))
        negated = isinstance(node, Unary) and node.op == "-"
        count += negated or isinstance(node, Call)
        count += isinstance(node, Binary) and node.op in _ARITHMETIC
        stack.extend(node.children)
    return count


def _value(extent: Extent, sizes: Mapping[Var, Any]) -> int:
    return extent if isinstance(extent, int) else int(evaluate(extent, sizes))
