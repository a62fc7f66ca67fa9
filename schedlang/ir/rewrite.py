"""Rewriting: statements rebuilt with other expressions, buffers or bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Alloc, Block, Buffer, Load, Stmt, buffers_of, changed, walk
from schedlang.ir.nodes import mapped as with_held


def with_leaves(root: Expr, swap: Mapping[Expr, Expr]) -> Expr:
    """Return ``root`` with some leaves (axes, sizes) replaced."""
    return rewrite(root, swap.get) if swap else root


def mapped(stmt: Stmt, value: Callable[[Expr], Expr]) -> Stmt:
    """Return ``stmt`` with ``value`` applied to each expression of its own, not to its body."""
    new: dict[str, Any] = {}
    for name in stmt.EXPRESSIONS:
        field = getattr(stmt, name)
        if isinstance(field, tuple):
            new[name] = tuple(map(value, field))
        elif isinstance(field, Expr):
            new[name] = value(field)
    return changed(stmt, **new) if new else stmt


def substituted(stmt: Stmt, swap: Mapping[Expr, Expr]) -> Stmt:
    """Return ``stmt``, its body included, with some leaves replaced."""
    if not swap:
        return stmt
    memo: dict[int, Expr] = {}

    def value(root: Expr) -> Expr:
        return rewrite(root, swap.get, memo)

    leaves: dict[Axis | Var, Lin] = {
        leaf: to_lin(new) for leaf, new in swap.items() if isinstance(leaf, (Axis, Var))
    }

    def change(old: Stmt) -> Stmt:
        if isinstance(old, Alloc) and old.origin:
            return replace(old, origin=tuple(at.substitute(leaves) for at in old.origin))
        return mapped(old, value)

    return deep(stmt, change)


def deep(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Return ``stmt`` with ``change`` applied to each statement, innermost first."""
    stmt = with_held(stmt, lambda inner: deep(inner, change))
    return stmt if isinstance(stmt, Block) else change(stmt)


Relocation = Callable[[Buffer, tuple[Expr, ...]], "tuple[Buffer, tuple[Expr, ...]] | None"]


def with_buffers(block: Block, new: Mapping[Buffer, Buffer]) -> Block:
    """Return ``block`` with buffers replaced by ones of the same shape, allocations included."""

    def moved_to(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        return (new[buffer], at) if buffer in new else None

    def made(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Alloc) and stmt.buffer in new:
            return replace(stmt, buffer=new[stmt.buffer])
        return stmt

    changed = deep(relocated(block, moved_to), made)
    assert isinstance(changed, Block)
    return changed


def relocated(stmt: Stmt, moved_to: Relocation) -> Stmt:
    """Return ``stmt``, its body included, with accesses moved to other buffers or indices.

    ``moved_to`` maps a buffer and indices to the new ones, or to ``None`` to keep them.
    """

    def load(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        found = moved_to(node.buffer, node.indices)
        return None if found is None else Load(found[0], found[1], node.dtype)

    memo: dict[int, Expr] = {}

    def value(root: Expr) -> Expr:
        return rewrite(root, load, memo)

    def change(old: Stmt) -> Stmt:
        new = mapped(old, value)
        names = (*new.WRITTEN, *new.READ)
        if not names:
            return new
        indices = new.indices  # type: ignore[union-attr]
        places = {b: place for b in buffers_of(new) if (place := moved_to(b, indices)) is not None}
        if not places:
            return new

        def moved(field: Any) -> Any:
            if isinstance(field, tuple):
                return tuple(map(moved, field))
            return places[field][0] if field in places else field

        # all buffers of a statement are accessed at the same indices
        _, at = next(iter(places.values()))
        return changed(new, indices=at, **{name: moved(getattr(new, name)) for name in names})

    return deep(stmt, change)


def storage(stmt: Stmt) -> list[Buffer]:
    """Return the buffers that ``stmt`` allocates."""
    return [s.buffer for s, _ in walk(stmt) if isinstance(s, Alloc)]


def with_rows(buffer: Buffer, *extents: int) -> Buffer:
    """Return ``buffer`` with leading dimensions: one copy of it for each of their indices."""
    steps = buffer.strides
    if steps is not None:
        size = buffer.size
        assert size is not None
        for extent in reversed(extents):
            steps, size = (size, *steps), size * extent
    return replace(buffer, shape=(*extents, *buffer.shape), strides=steps)
