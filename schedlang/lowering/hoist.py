"""Hoisting: guards move out of loops they do not depend on, and equal neighbours are merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from schedlang.expr.nodes import Expr
from schedlang.expr.visit import axes_in, postorder
from schedlang.ir.findings import Findings
from schedlang.ir.nodes import (
    Alloc,
    Block,
    For,
    If,
    Load,
    Stmt,
    block_of,
    held_statements,
    with_fields,
    with_held,
)
from schedlang.ir.printer import expr_text


def hoist(block: Block, findings: Findings | None = None) -> Block:
    """Return ``block`` with each guard as far out as possible, and equal neighbours merged.

    ``findings`` are about other nests with the same statements.
    """
    if findings is None:
        return _hoist(block)
    parts = [
        findings.once(("hoisted", stmt), partial(_hoist, Block((stmt,)))) for stmt in block.stmts
    ]
    return Block(tuple(_merge([stmt for part in parts for stmt in part.stmts])))


def _hoist(block: Block) -> Block:
    """Return what :func:`hoist` does, without recursion, since nests may be deep."""
    blocks: list[list[Stmt]] = [[]]
    stack: list[Stmt | None] = [block]
    around: list[Stmt] = []
    # None on the stack marks the end of the innermost open statement
    while stack:
        stmt = stack.pop()
        if stmt is None:
            body = _merge(blocks.pop())
            blocks[-1] += _rebuilt(around.pop(), body)
        elif isinstance(stmt, Block):
            stack.extend(reversed(stmt.stmts))
        elif len(held_statements(stmt)) == 1:
            around.append(stmt)
            blocks.append([])
            stack += [None, *held_statements(stmt)]
        else:
            blocks[-1].append(with_held(stmt, lambda inner: _hoist(block_of(inner))))
    return Block(tuple(_merge(blocks.pop())))


def _rebuilt(stmt: Stmt, stmts: Sequence[Stmt]) -> list[Stmt]:
    """Return ``stmt`` around ``stmts``, with the guards that can move out of it around it."""
    (held,) = held_statements(stmt)
    outer = stmt
    if [*block_of(held).stmts] != [*stmts]:
        outer = with_held(stmt, lambda _: Block(tuple(stmts)))
    guards: list[If] = []
    while isinstance(outer, For) and _movable(outer, outer.body.stmts):
        (guard,) = outer.body.stmts
        assert isinstance(guard, If)
        guards.append(guard)
        outer = with_fields(outer, body=guard.body)
    for guard in reversed(guards):
        outer = with_fields(guard, body=Block((outer,)))
    return [outer]


def _movable(loop: For, body: Sequence[Stmt]) -> bool:
    """Return whether ``body`` is a single guard that depends on neither the loop nor on loads."""
    if len(body) != 1 or not isinstance(body[0], If):
        return False
    return not any(n is loop.axis or isinstance(n, Load) for n in postorder([body[0].cond]))


def _merge(stmts: Sequence[Stmt]) -> list[Stmt]:
    """Merge adjacent guards with the same condition, unless the first body may change it."""
    merged: list[Stmt] = []
    for stmt in stmts:
        last = merged[-1] if merged else None
        if isinstance(stmt, If) and isinstance(last, If) and _same_condition(last, stmt):
            body = _merge([*last.body.stmts, *stmt.body.stmts])
            merged[-1] = replace(last, body=Block(tuple(body)))
        else:
            merged.append(stmt)
    return merged


def _same_condition(a: If, b: If) -> bool:
    kinds = [(guard.note, guard.predicate, guard.where) for guard in (a, b)]
    if kinds[0] != kinds[1] or any(isinstance(s, Alloc) for s in a.body.stmts):
        return False
    return not _depends_on_loads(a.cond) and _text_and_axes(a.cond) == _text_and_axes(b.cond)


def _depends_on_loads(cond: Expr) -> bool:
    return any(isinstance(n, Load) for n in postorder([cond]))


def _text_and_axes(cond: Expr) -> tuple[str, tuple[Expr, ...]]:
    """Return the text of ``cond`` and its axes in order, which only equal conditions share."""
    return expr_text(cond, {}), tuple(axes_in([cond]))
