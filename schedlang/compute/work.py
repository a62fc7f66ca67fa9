"""How much arithmetic a computation is, before any schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from schedlang.compute.graph import operations
from schedlang.compute.tensor import ComputeOp, Extent, Tensor
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Binary, Call, Expr, Read, Unary, Var
from schedlang.expr.visit import postorder

_ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
# points at which a condition is tried, to count where it holds
MOST_TRIED = 1 << 22


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
    return sum(_points(op, sizes or {}) * of_point(op) for op in _computed(outputs))


def needed_flops(outputs: Sequence[Tensor], sizes: Mapping[Var, Any] | None = None) -> int | None:
    """As :func:`flops`, but points that a reduction's ``where`` leaves out are not counted.

    ``None`` where that is not known ahead: a condition on elements, or one over too many indices.

    >>> import schedlang as sl
    >>> A, k = sl.placeholder((8,), name="A"), sl.reduce_axis(8, name="k")
    >>> C = sl.compute((8,), lambda i: sl.sum(A[k], axis=k, where=k <= i), name="C")
    >>> flops([C]), needed_flops([C])
    (64, 36)
    """
    total = 0
    for op in _computed(outputs):
        points = _points(op, sizes or {})
        if op.where is not None:
            part = _held(op.where, sizes or {})
            if part is None:
                return None
            points = points * part[0] // part[1]
        total += points * of_point(op)
    return total


def _computed(outputs: Sequence[Tensor]) -> list[ComputeOp]:
    return [op for op in operations(outputs) if isinstance(op, ComputeOp)]


def _points(op: ComputeOp, sizes: Mapping[Var, Any]) -> int:
    return prod(_value(axis.extent, sizes) for axis in (*op.axis, *op.reduce_axis))


def of_point(op: ComputeOp) -> int:
    """The operations of one point."""
    combined = 0 if op.reducer is None else max(1, _operations(op.reducer.result))
    return _operations(op.body) + combined


def _held(cond: Expr, sizes: Mapping[Var, Any]) -> tuple[int, int] | None:
    """For how many of its points ``cond`` holds, and of how many: all that its axes make."""
    nodes = list(postorder([cond]))
    if any(isinstance(node, Read) for node in nodes):
        return None
    axes = [node for node in nodes if isinstance(node, Axis)]
    lengths = [_value(axis.extent, sizes) for axis in axes]
    if not 0 < prod(lengths) <= MOST_TRIED:
        return None
    values = dict(sizes) | {
        axis: np.arange(n).reshape([-1 if a is axis else 1 for a in axes]) + _value(axis.lo, sizes)
        for axis, n in zip(axes, lengths)
    }
    with np.errstate(all="ignore"):
        found = np.broadcast_to(evaluate(cond, values), lengths)
    return int(np.count_nonzero(found)), prod(lengths)


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
