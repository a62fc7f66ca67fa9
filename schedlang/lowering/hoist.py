"""Guards move out of the loops they do not depend on, and equal neighbours join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Alloc, Block, For, If, Load, Stmt
from schedlang.ir.printer import expr_text


def hoist(block: Block) -> Block:
    """Return ``block`` with each guard as far out as it can be, and written once."""
    done: list[list[Stmt]] = [[]]
    stack: list[Stmt | None] = [block]
    around: list[For | If] = []
    # a None on the stack closes the loop or guard opened last
    while stack:
        stmt = stack.pop()
        if stmt is None:
            body = _joined(done.pop())
            done[-1] += _closed(around.pop(), body)
        elif isinstance(stmt, Block):
            stack.extend(reversed(stmt.stmts))
        elif isinstance(stmt, (For, If)):
            around.append(stmt)
            done.append([])
            stack += [None, stmt.body]
        else:
            done[-1].append(stmt)
    return Block(tuple(_joined(done.pop())))


def _closed(outer: For | If, stmts: list[Stmt]) -> list[Stmt]:
    """Return the loop or guard around ``stmts``, inside the guards that can stand outside of it."""
    guards: list[If] = []
    while isinstance(outer, For) and _movable(outer, stmts):
        guard = stmts[0]
        assert isinstance(guard, If)
        guards.append(guard)
        stmts = list(guard.body.stmts)
    made: Stmt = replace(outer, body=Block(tuple(stmts)))
    for guard in reversed(guards):
        made = replace(guard, body=Block((made,)))
    return [made]


def _movable(loop: For, body: Sequence[Stmt]) -> bool:
    """Return whether the loop holds one guard and nothing else, and it does not use the loop."""
    if len(body) != 1 or not isinstance(body[0], If):
        return False
    return not any(n is loop.axis or isinstance(n, Load) for n in postorder([body[0].cond]))


def _joined(stmts: list[Stmt]) -> list[Stmt]:
    """Join adjacent guards with the same condition, if nothing between them changes it."""
    made: list[Stmt] = []
    for stmt in stmts:
        last = made[-1] if made else None
        if isinstance(stmt, If) and isinstance(last, If) and _same(last, stmt):
            body = _joined([*last.body.stmts, *stmt.body.stmts])
            made[-1] = replace(last, body=Block(tuple(body)))
        else:
            made.append(stmt)
    return made


def _same(a: If, b: If) -> bool:
    kinds = [(guard.note, guard.predicate, guard.where) for guard in (a, b)]
    if kinds[0] != kinds[1] or any(isinstance(s, Alloc) for s in a.body.stmts):
        return False
    return not _reads(a.cond) and _shape(a.cond) == _shape(b.cond)


def _reads(cond: Expr) -> bool:
    return any(isinstance(n, Load) for n in postorder([cond]))


def _shape(cond: Expr) -> tuple[str, tuple[Expr, ...]]:
    """Return text and the axes in it, in order: equal for equal conditions only."""
    return expr_text(cond, {}), tuple(n for n in postorder([cond]) if isinstance(n, Axis))
