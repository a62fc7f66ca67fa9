"""Expressions at other axes, with their indices in normal form and their conditions decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from schedlang.expr.nodes import Axis, Binary, Const, Expr, Select, Unary
from schedlang.expr.visit import rewrite
from schedlang.index.conditions import compares_indices, occupied, truth
from schedlang.index.linear import Lin, Opaque, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin


def scope(axes: Iterable[Axis]) -> Ranges:
    """Return the ranges at a point of ``axes``, none of which is empty there."""
    return Ranges(facts=tuple(fact for a in axes for fact in occupied(to_lin(a.extent))))


def substituted(value: Expr, values: Mapping[Any, Lin], ranges: Ranges) -> Expr:
    """Return ``value`` with axes replaced by ``values``, simplified under ``ranges``.

    >>> i, j = Axis("i", 8), Axis("j", 4)
    >>> substituted((i // 2 < 4) & (i < 5), {i: Lin.of(j) * 2}, Ranges())
    j*2 < 5
    """

    def index(node: Expr) -> Expr | None:
        if not node.weak or node.dtype != "int64" or isinstance(node, Const):
            return None
        lin = to_lin(node, values, ranges)
        # what is opaque has axes that are not replaced yet
        return None if any(isinstance(x, Opaque) for x in lin.leaves()) else to_expr(lin)

    return rewrite(value, lambda node: _decided(node, ranges), before=index)


def _decided(node: Expr, ranges: Ranges) -> Expr | None:
    """Return a choice or condition that is known, in a shorter form."""
    if isinstance(node, Select) and isinstance(node.cond, Const):
        return node.a if node.cond.value else node.b
    if node.dtype != "bool":
        return None
    if isinstance(node, Unary) and isinstance(node.a, Const):
        return Const(not node.a.value, "bool")
    if isinstance(node, Binary) and node.op in ("&", "|"):
        for one, other in (node.children, node.children[::-1]):
            if isinstance(one, Const):
                return other if bool(one.value) == (node.op == "&") else one
    if isinstance(node, Binary) and compares_indices(node):
        known = truth(node, ranges)
        return None if known is None else Const(known, "bool")
    return None
