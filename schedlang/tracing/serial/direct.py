"""Assignments without a temporary array: what computes the value stores it where it belongs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedlang.expr.nodes import Expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import loads
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Load,
    Stmt,
    Store,
    expressions,
    walk,
    written_by,
)
from schedlang.ir.rewrite import relocate
from schedlang.language.construct import as_expr

Place = Callable[[tuple[Expr, ...]], tuple[Expr, ...]]


@dataclass(frozen=True)
class Target:
    """An assignment to an array: element ``i`` of ``value`` is ``into[place(i)]``.

    ``fixed`` are the dimensions of ``into`` in which all elements have the same index. ``ranges``
    are the ranges of the loops around.
    """

    value: Buffer
    into: Buffer
    place: Place
    fixed: tuple[int, ...]
    ranges: Ranges


def stored_directly(stmts: Sequence[Stmt], target: Target) -> list[Stmt] | None:
    """Return statements that store ``target.into`` instead of ``target.value``.

    Return ``None`` if they may read an element of it after they have stored it.
    """
    # nothing writes an array without elements
    writes = (k for k, s in enumerate(stmts) if _writes(s, target.value))
    first = next(writes, len(stmts))
    body = stmts[first:]
    if not _is_safe(body, target):
        return None

    def moved(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        return (target.into, target.place(at)) if buffer is target.value else None

    own = [s for s in stmts if not (isinstance(s, Alloc) and s.buffer is target.value)]
    return [relocate(s, moved) for s in own]


def _writes(stmt: Stmt, buffer: Buffer) -> bool:
    return any(buffer in written_by(s) for s, _ in walk(Block((stmt,))))


def _is_safe(stmts: Sequence[Stmt], target: Target) -> bool:
    if len(stmts) == 1 and isinstance(stmts[0], Store) and stmts[0].reducer is None:
        # it reads all that it needs before it stores one element
        return stmts[0].buffers == (target.value,)
    plain = True
    for stmt, _ in walk(Block((*stmts,))):
        if isinstance(stmt, Store) and target.value in stmt.buffers:
            if len(stmt.buffers) > 1 or stmt.scatters:
                return False
            plain = plain and stmt.reducer is None
        plain = plain and not any(x.buffer is target.value for x in loads(expressions(stmt)))
    for stmt, _ in walk(Block((*stmts,))):
        own = isinstance(stmt, Store) and stmt.buffers == (target.value,) and plain
        for load in loads(expressions(stmt)):
            if load.buffer is not target.into or _is_apart(load, target):
                continue
            assert not own or isinstance(stmt, Store)
            place = target.place(stmt.indices) if own else ()  # type: ignore[union-attr]
            if not own or not _same(load.indices, place, target.ranges):
                return False
    return True


def _is_apart(load: Load, target: Target) -> bool:
    """Return whether a load is proved to read another element than all that are assigned."""
    place = target.place(tuple(_zeros(target.value)))
    for k in target.fixed:
        at = to_lin(load.indices[k], ranges=target.ranges)
        distance = (at - to_lin(place[k], ranges=target.ranges)).const
        if distance is not None and distance != 0:
            return True
    return False


def _zeros(buffer: Buffer) -> list[Expr]:
    return [as_expr(0) for _ in buffer.shape]


def _same(a: Sequence[Expr], b: Sequence[Expr], ranges: Ranges) -> bool:
    return all(to_lin(x, ranges=ranges) == to_lin(y, ranges=ranges) for x, y in zip(a, b))
