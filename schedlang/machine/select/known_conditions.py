"""Conditions that are known when code is generated, so that no test is emitted.

The values of unrolled axes and lanes decide them, with the ranges of the loops around.
"""

from __future__ import annotations

from dataclasses import replace

from schedlang.expr.nodes import COMPARISONS, Binary, Const, Expr, Select
from schedlang.expr.printer import is_index
from schedlang.expr.visit import postorder, rewrite
from schedlang.index.conditions import decided, facts_of
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Load
from schedlang.ir.offsets import lane_step
from schedlang.machine.select.context import Context


def settled(root: Expr, context: Context) -> Expr:
    """Return ``root`` with each choice whose condition is known replaced by the side it takes.

    Without unrolled axes and lanes there is nothing to do: lowering has settled these choices.
    """
    if not context.values and context.lanes is None:
        return root
    if not any(isinstance(node, Select) for node in postorder([root])):
        return root

    def side(node: Expr) -> Expr | None:
        if not isinstance(node, Select):
            return None
        cond = condition(node.cond, context)
        if isinstance(cond, Const):
            return node.a if cond.value else node.b
        return node if cond is node.cond else replace(node, cond=cond)

    return rewrite(root, side)


def condition(cond: Expr, context: Context) -> Expr:
    """Return ``cond`` without the comparisons that are known; a ``Const`` if all are."""

    def known(node: Expr) -> Expr | None:
        if not isinstance(node, Binary) or node.dtype != "bool":
            return node
        if node.op in ("&", "|"):
            return None
        truth = _comparison(node, context) if node.op in COMPARISONS else None
        return node if truth is None else Const(truth, "bool")

    return rewrite(cond, _folded, before=known)


def _folded(node: Expr) -> Expr | None:
    """Return an ``&`` or ``|`` simplified, if one of its operands is known; else ``None``."""
    assert isinstance(node, Binary)
    for one, other in ((node.a, node.b), (node.b, node.a)):
        if isinstance(one, Const):
            return other if bool(one.value) == (node.op == "&") else one
    return None


def first_lane(cond: Expr, context: Context) -> bool:
    """Return whether ``cond`` is certain to hold in the first lane."""
    assert context.lanes is not None
    values = {**context.values, context.lanes.axis: context.lanes.start}
    stack = [cond]
    while stack:
        node = stack.pop()
        if isinstance(node, Binary) and node.op == "&":
            stack += [node.a, node.b]
            continue
        if not isinstance(node, Binary) or node.op not in ("<", "<=", ">", ">="):
            return False
        if not (is_index(node.a) and is_index(node.b)):
            return False
        facts = [f.substitute(values) for f in facts_of(node, True, context.known)]
        if not facts or not all(context.known.nonneg(-f) for f in facts):
            return False
    return True


def always_read(root: Expr, context: Context) -> frozenset[int]:
    """Return the ``id`` of each load that every unrolled copy makes, under no lazy choice."""
    if not context.copies:
        return frozenset()
    found, seen, stack = set(), set(), [root]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Load):
            found.add(id(node))
        lazy = isinstance(node, Select) and node.lazy
        stack.extend(node.children[:1] if lazy else node.children)
    return frozenset(found)


def _comparison(node: Binary, context: Context) -> bool | None:
    """Return the truth of a comparison of indices if it is the same in all lanes and iterations."""
    if not (is_index(node.a) and is_index(node.b)):
        return None
    difference = to_lin(node.a, context.values) - to_lin(node.b, context.values)
    ends = [difference]
    if context.lanes is not None:
        lanes = context.lanes
        step = lane_step(difference, lanes.axis)
        if step is None:
            return None
        first = difference.substitute({lanes.axis: lanes.start})
        ends = [first, first + step * (lanes.count - 1)]

    return decided(node.op, ends, context.known)
