"""Rewriting: statements rebuilt with other expressions, buffers or bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Exchange,
    Fetch,
    For,
    If,
    Load,
    Stmt,
    Store,
)


def with_leaves(root: Expr, swap: Mapping[Expr, Expr]) -> Expr:
    """Return ``root`` with some leaves (axes, sizes) replaced."""
    return rewrite(root, swap.get) if swap else root


def mapped(stmt: Stmt, value: Callable[[Expr], Expr]) -> Stmt:
    """Return ``stmt`` with ``value`` applied to each expression of its own, not to its body."""
    if isinstance(stmt, For):
        return stmt if isinstance(stmt.extent, int) else replace(stmt, extent=value(stmt.extent))
    if isinstance(stmt, If):
        return replace(stmt, cond=value(stmt.cond))
    if isinstance(stmt, Store):
        indices = tuple(value(i) for i in stmt.indices)
        return replace(stmt, indices=indices, values=tuple(value(v) for v in stmt.values))
    if isinstance(stmt, (Fetch, Exchange)):
        return replace(stmt, indices=tuple(value(i) for i in stmt.indices))
    return stmt


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
    if isinstance(stmt, Block):
        return Block(tuple(deep(s, change) for s in stmt.stmts))
    if isinstance(stmt, (For, If)):
        body = deep(stmt.body, change)
        assert isinstance(body, Block)
        stmt = replace(stmt, body=body)
    return change(stmt)


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
        if isinstance(new, Store):
            stored = [moved_to(b, new.indices) for b in new.buffers]
            if any(s is not None for s in stored):
                places = [s or (b, new.indices) for s, b in zip(stored, new.buffers)]
                return replace(new, buffers=tuple(b for b, _ in places), indices=places[0][1])
        elif isinstance(new, Fetch):
            found = moved_to(new.buffer, new.indices)
            if found is not None:
                return replace(new, buffer=found[0], indices=found[1])
        elif isinstance(new, Exchange):
            into = [moved_to(b, new.indices) for b in new.into]
            source = [moved_to(b, new.indices) for b in new.source]
            if any(s is not None for s in (*into, *source)):
                first = next(s for s in (*into, *source) if s is not None)
                return replace(
                    new, indices=first[1],
                    into=tuple(s[0] if s else b for s, b in zip(into, new.into)),
                    source=tuple(s[0] if s else b for s, b in zip(source, new.source)),
                )  # fmt: skip
        return new

    return deep(stmt, change)


def storage(stmt: Stmt) -> list[Buffer]:
    """Return the buffers that ``stmt`` allocates."""
    if isinstance(stmt, Alloc):
        return [stmt.buffer]
    if isinstance(stmt, (For, If)):
        return storage(stmt.body)
    return [b for s in stmt.stmts for b in storage(s)] if isinstance(stmt, Block) else []


def with_rows(buffer: Buffer, *extents: int) -> Buffer:
    """Return ``buffer`` with leading dimensions: one copy of it for each of their indices."""
    steps = buffer.strides
    if steps is not None:
        size = buffer.size
        assert size is not None
        for extent in reversed(extents):
            steps, size = (size, *steps), size * extent
    return replace(buffer, shape=(*extents, *buffer.shape), strides=steps)
