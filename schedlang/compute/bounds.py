"""Reads that provably leave their tensor are refused where they are written."""

from __future__ import annotations

from collections.abc import Mapping

from schedlang.compute.tensor import ComputeOp, PlaceholderOp, shape_text
from schedlang.errors import BoundsError, explain
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import Lin, Opaque
from schedlang.expr.nodes import Axis, Binary, Expr, Read, Select, Unary
from schedlang.expr.simplify import to_lin


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
    base = ranges if op.where is None else ranges.assuming(facts_of(op.where, True, ranges))
    seen: set[tuple[int, int]] = set()
    stack: list[tuple[Expr, Ranges]] = [(root, base) for root in reversed(op.roots)]
    while stack:
        node, known = stack.pop()
        if (id(node), id(known)) in seen:
            continue
        seen.add((id(node), id(known)))
        if isinstance(node, Select) and node.lazy:
            stack.append((node.b, known.assuming(facts_of(node.cond, False, ranges))))
            stack.append((node.a, known.assuming(facts_of(node.cond, True, ranges))))
            stack.append((node.cond, known))
            continue
        if isinstance(node, Read):
            _check_read(op, node, known, late)
        stack.extend((child, known) for child in reversed(node.children))


def _check_read(op: ComputeOp, read: Read, ranges: Ranges, late: bool) -> None:
    for position, (index, extent) in enumerate(zip(read.indices, read.tensor.shape)):
        lin = to_lin(index, ranges=ranges)
        if any(isinstance(leaf, Opaque) for leaf in lin.leaves()):
            continue
        low, high = ranges.interval(lin)
        size = to_lin(extent)
        below = low is not None and low < 0 and not ranges.nonneg(lin)
        above = high is not None and size.const is not None and high >= size.const
        above = above and not ranges.nonneg(size - 1 - lin)
        if not (below or above) or (ranges.facts and not _certain(lin, size, ranges)):
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
