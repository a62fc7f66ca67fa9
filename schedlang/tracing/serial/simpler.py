"""Indices of a fused nest in their shortest form: the ranges of all loops around are known now."""

from __future__ import annotations

from schedlang.expr.dtypes import INDEX
from schedlang.expr.nodes import Call, Const, Expr
from schedlang.expr.visit import rewrite
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Block, For, Stmt, with_held
from schedlang.ir.rewrite import with_expressions


def simpler(block: Block, ranges: Ranges | None = None) -> Block:
    """Return a block whose indices lack each ``min`` and ``max`` that the loops around decide."""
    known = Ranges() if ranges is None else ranges

    def swap(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.fn not in ("min", "max") or node.dtype != INDEX:
            return None
        shorter = to_expr(to_lin(node, ranges=known))
        return None if isinstance(shorter, Const) and shorter.dtype != INDEX else shorter

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Block):
            return with_held(stmt, change)
        memo: dict[int, Expr] = {}
        stmt = with_expressions(stmt, lambda e: rewrite(e, swap, memo))
        if not isinstance(stmt, For):
            return with_held(stmt, change)
        inside = known.extended(stmt.axis, Lin.of(0), to_lin(stmt.extent, ranges=known) - 1)
        return with_held(stmt, lambda inner: simpler(inner, inside))  # type: ignore[arg-type]

    result = change(block)
    assert isinstance(result, Block)
    return result
