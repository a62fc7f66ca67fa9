"""Lanes: evaluation of expressions on many threads at once, and widths of vector accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.expr.evaluate import value_of
from schedlang.expr.evaluation_order import evaluation_order
from schedlang.expr.nodes import Axis, Const, Expr, Select, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import ZERO
from schedlang.ir.accesses import accesses
from schedlang.ir.nodes import Buffer, For, If, Load, Store, expressions, walk
from schedlang.ir.offsets import flat, lane_step, most_at_once, one_access

# returns the elements of a load at evaluated indices, for the lanes of a mask
Reader = Callable[[Load, "list[np.ndarray]", np.ndarray], np.ndarray]


def on_lanes(root: Expr, values: Mapping[Any, Any], active: np.ndarray, read: Reader) -> Any:
    """Evaluate ``root`` on the lanes ``active``; a lazy branch only on the lanes that take it."""
    root, steps = evaluation_order(root)
    masks = [active]
    results: dict[int, Any] = {}
    true_mask: list[Any] = []

    def value(node: Expr) -> Any:
        leaf = isinstance(node, (Const, Axis, Var))
        return value_of(node, results, values, None) if leaf else results[id(node)]

    for what, node in steps:
        if what == "if":
            masks.append(masks[-1] & value(node.cond))
        elif what == "else":
            true_mask.append(value(node.a))
            masks[-1] = masks[-2] & ~np.asarray(value(node.cond))
        elif what == "end":
            masks.pop()
            results[id(node)] = np.where(value(node.cond), true_mask.pop(), value(node.b))
        elif isinstance(node, Load):
            at = [np.broadcast_to(value(i), active.shape) for i in node.indices]
            results[id(node)] = read(node, at, masks[-1])
        else:
            operands = {id(child): value(child) for child in node.children}
            results[id(node)] = value_of(node, operands, values, None)
    return value(root)


def lanes_differ(loop: For) -> bool:
    """Return whether a condition inside ``loop`` differs between lanes, as GPUs have no masks.

    Atomic updates are of single elements, too.
    """
    for stmt, _ in walk(loop.body):
        if isinstance(stmt, Store) and stmt.atomic:
            return True
        conds = [stmt.cond] if isinstance(stmt, If) else []
        conds += [n.cond for n in postorder(expressions(stmt)) if isinstance(n, Select) and n.lazy]
        if any(n is loop.axis for n in postorder(conds)):
            return True
    return False


def strip_lanes(loop: For) -> int:
    """Return how many iterations of a vectorized loop form one vector in a kernel."""
    touched = [a.buffer.dtype for stmt, _ in walk(loop.body) for a in accesses(stmt)]
    return min(map(most_at_once, touched), default=1)


def lanes_at_once(buffer: Buffer, indices: Sequence[Expr], loop: For) -> tuple[int, int]:
    """Return how many iterations of a vectorized loop share one access, and its elements."""
    assert isinstance(loop.extent, int)
    offset = flat(buffer, tuple(indices))
    step = lane_step(offset, loop.axis)
    if step == 0:
        return loop.extent, 1
    wide = 1
    rest = offset.substitute({loop.axis: ZERO})
    most = min(strip_lanes(loop), loop.extent)
    while (
        step == 1
        and wide * 2 <= most
        and loop.extent % (wide * 2) == 0
        and (one_access(buffer, rest, wide * 2))
    ):
        wide *= 2
    return wide, wide
