"""Reads that provably leave their tensor are refused where they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedlang.compute.tensor import ComputeOp, PlaceholderOp, shape_text
from schedlang.errors import BoundsError, explain
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import Lin, Opaque
from schedlang.expr.nodes import Axis, Binary, Expr, Read, Select, Unary
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder

Guard = tuple[bool, tuple[Lin, ...]]
_ALWAYS: Guard = (False, ())
# conditions nested deeper than this are not all remembered
_REMEMBERED = 32


def facts_of(cond: Expr, holds: bool, ranges: Ranges) -> tuple[Lin, ...]:
    """Polynomials that are 0 or less where ``cond`` is ``holds``."""
    found: list[Lin] = []
    stack = [(cond, holds)]
    while stack:
        node, truth = stack.pop()
        if isinstance(node, Unary) and node.op == "~":
            stack.append((node.a, not truth))
        elif isinstance(node, Binary) and node.op == ("&" if truth else "|"):
            stack += [(node.b, truth), (node.a, truth)]
        elif isinstance(node, Binary) and node.a.weak and node.b.weak and node.a.dtype == "int64":
            if node.b.dtype == "int64":
                found += _comparison(node, truth, ranges)
    return tuple(found)


_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def _comparison(node: Binary, truth: bool, ranges: Ranges) -> list[Lin]:
    op = node.op if truth else _NEGATED.get(node.op, "")
    a, b = to_lin(node.a, ranges=ranges), to_lin(node.b, ranges=ranges)
    if op == "<":
        return [a - b + 1]
    if op == "<=":
        return [a - b]
    if op == ">":
        return [b - a + 1]
    if op == ">=":
        return [b - a]
    if op == "==":
        return [a - b, b - a]
    return []


def check_reads(op: ComputeOp, first: Mapping[Axis, int] | None = None, late: bool = False) -> None:
    """Raise :class:`BoundsError` for a read that is certain to leave its tensor.

    ``first`` gives axes that start later than 0 (a scan's time axis). Before the whole graph is
    known (``late`` false), a placeholder read before its first row is let pass: it may be the
    state of a scan.
    """
    ranges = Ranges()
    for axis, start in (first or {}).items():
        ranges.known[axis] = (Lin.of(start), to_lin(axis.extent) - 1)
    empty = any(a.extent == 0 for a in (*op.axis, *op.reduce_axis) if isinstance(a.extent, int))
    if empty:
        return
    order = list(postorder(op.roots))
    guards = _guards(op, order, ranges)
    for node in order:
        if isinstance(node, Read):
            conditional, facts = guards[id(node)]
            _check_read(op, node, ranges.assuming(facts), conditional, late)


def _guards(op: ComputeOp, order: Sequence[Expr], ranges: Ranges) -> dict[int, Guard]:
    """What is known wherever a node (by ``id``) is evaluated: the facts all its uses share."""
    known: dict[int, Guard] = {id(root): _ALWAYS for root in op.roots}
    if op.where is not None:
        guarded = (True, facts_of(op.where, True, ranges))
        known.update({id(root): guarded for root in op.body if root is not op.where})
    for node in reversed(order):
        conditional, facts = known[id(node)]
        for place, child in enumerate(node.children):
            guard = conditional, facts
            if isinstance(node, Select) and node.lazy and place:
                found = facts_of(node.cond, place == 1, ranges)
                guard = True, (*facts, *found)[-_REMEMBERED:]
            other = known.get(id(child))
            if other is not None and other is not guard:
                guard = guard[0] and other[0], tuple(f for f in guard[1] if f in other[1])
            known[id(child)] = guard
    return known


def _check_read(op: ComputeOp, read: Read, ranges: Ranges, conditional: bool, late: bool) -> None:
    for position, (index, extent) in enumerate(zip(read.indices, read.tensor.shape)):
        lin = to_lin(index, ranges=ranges)
        if any(isinstance(leaf, Opaque) for leaf in lin.leaves()):
            continue
        low, high = ranges.interval(lin)
        size = to_lin(extent)
        below = low is not None and low < 0 and not ranges.nonneg(lin)
        above = high is not None and size.const is not None and high >= size.const
        above = above and not ranges.nonneg(size - 1 - lin)
        if not (below or above) or (conditional and not _certain(lin, size, ranges)):
            continue
        scan = isinstance(read.tensor.op, PlaceholderOp) and position == 0 and not above
        if scan and not late:
            continue
        outside = f"{low}..{high}"
        raise BoundsError(
            explain(
                f"{op.name} reads {read}",
                f"index {position} runs over {outside}, and {read.tensor.name} of shape "
                f"{shape_text(read.tensor.shape)} has {extent} there",
                "Guard it with sl.if_then_else(cond, "
                f"{read}, ...) (sl.select evaluates both sides), pad with sl.pad, or shrink the "
                "shape.",
            )
        )


def _certain(lin: Lin, size: Lin, ranges: Ranges) -> bool:
    """Under a condition, only a read that is outside everywhere is certainly wrong."""
    low, high = ranges.interval(lin)
    last = size.const
    return (high is not None and high < 0) or (low is not None and last is not None and low >= last)
