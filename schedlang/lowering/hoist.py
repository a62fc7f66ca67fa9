"""Guards move out of the loops they do not depend on, and equal neighbours join."""

from __future__ import annotations

from dataclasses import replace

from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Alloc, Block, For, If, Load, Stmt


def hoist(block: Block) -> Block:
    """``block`` with each guard as far out as it can be."""
    return Block(tuple(s for stmt in block.stmts for s in _stmt(stmt)))


def _stmt(stmt: Stmt) -> list[Stmt]:
    if isinstance(stmt, If):
        return [replace(stmt, body=hoist(stmt.body))]
    if not isinstance(stmt, For):
        return [stmt]
    body = hoist(stmt.body)
    guards: list[If] = []
    while _movable(stmt, body):
        guard = body.stmts[0]
        assert isinstance(guard, If)
        guards.append(guard)
        body = guard.body
    made: Stmt = replace(stmt, body=body)
    for guard in reversed(guards):
        made = replace(guard, body=Block((made,)))
    return [made]


def _movable(loop: For, body: Block) -> bool:
    """Whether the loop holds one guard and nothing else, and it does not use the loop."""
    if len(body.stmts) != 1 or not isinstance(body.stmts[0], If) or loop.kind == "parallel":
        return False
    guard = body.stmts[0]
    if any(isinstance(s, Alloc) for s in body.stmts):
        return False
    return not any(n is loop.axis or isinstance(n, Load) for n in postorder([guard.cond]))
