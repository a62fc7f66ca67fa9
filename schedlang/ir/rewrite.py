"""Rewriting: statements rebuilt with other expressions, buffers or bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import rewrite
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import (
    Block,
    Buffer,
    Load,
    Stmt,
    buffers_of,
    defined_by,
    held_statements,
    walk,
    with_fields,
    with_held,
)


def with_leaves(root: Expr, swap: Mapping[Expr, Expr]) -> Expr:
    """Return ``root`` with some leaves (axes, sizes) replaced."""
    return rewrite(root, swap.get) if swap else root


def with_expressions(stmt: Stmt, value: Callable[[Expr], Expr]) -> Stmt:
    """Return ``stmt`` with ``value`` applied to each expression of its own, not to its body."""
    return _with_fields(stmt, stmt.EXPRESSIONS, Expr, value)


def with_polynomials(stmt: Stmt, value: Callable[[Lin], Lin]) -> Stmt:
    """Return ``stmt`` with ``value`` applied to each polynomial of its own, not to its body."""
    return _with_fields(stmt, stmt.POLYNOMIALS, Lin, value)


def with_own_buffers(stmt: Stmt, names: Sequence[str], new: Callable[[Buffer], Buffer]) -> Stmt:
    """Return ``stmt`` with ``new`` applied to each buffer in the fields ``names``."""
    return _with_fields(stmt, names, Buffer, new)


def _with_fields(stmt: Stmt, names: Sequence[str], kind: type, new: Callable[[Any], Any]) -> Stmt:
    """Return ``stmt`` with ``new`` applied to what its fields ``names`` hold of a kind."""
    fields: dict[str, Any] = {}
    for name in names:
        old = getattr(stmt, name)
        if type(old) is tuple:
            field = tuple([new(part) for part in old])
            if not all(map(is_, field, old)):
                fields[name] = field
        elif isinstance(old, kind) and (field := new(old)) is not old:
            fields[name] = field
    return with_fields(stmt, **fields) if fields else stmt


def substitute(stmt: Stmt, swap: Mapping[Expr, Expr]) -> Stmt:
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
        return with_polynomials(with_expressions(old, value), lambda at: at.substitute(leaves))

    return deep(stmt, change)


def deep(stmt: Stmt, change: Callable[[Stmt], Stmt]) -> Stmt:
    """Return ``stmt`` with ``change`` applied to each statement, innermost first."""
    stmt = with_held(stmt, lambda inner: deep(inner, change))
    return stmt if isinstance(stmt, Block) else change(stmt)


def without_blocks(stmt: Stmt) -> Iterator[Stmt]:
    """Yield the statements of nested blocks, or ``stmt`` alone if it is not a block."""
    if isinstance(stmt, Block):
        for inner in stmt.stmts:
            yield from without_blocks(inner)
    else:
        yield stmt


def replace_statements(stmt: Stmt, change: Callable[[Stmt], Sequence[Stmt]]) -> Block:
    """Return the results of ``change`` for the statements of a block, or for one statement, in
    order."""
    stmts: list[Stmt] = []
    stack = [stmt]
    while stack:
        old = stack.pop()
        if isinstance(old, Block):
            stack += reversed(old.stmts)
        else:
            stmts += change(old)
    return Block(tuple(stmts))


def with_each(stmt: Stmt, change: Callable[[Stmt], Sequence[Stmt]]) -> Stmt:
    """Return ``stmt`` with several statements, or none, in place of each that it holds."""
    if not stmt.HELD:
        return stmt
    if isinstance(stmt, Block):
        return replace_statements(stmt, change)
    return with_held(stmt, lambda inner: replace_statements(inner, change))


Relocation = Callable[[Buffer, tuple[Expr, ...]], "tuple[Buffer, tuple[Expr, ...]] | None"]


def with_buffers(block: Block, new: Mapping[Buffer, Buffer]) -> Block:
    """Return ``block`` with buffers replaced by ones of the same shape, allocations included."""

    def moved_to(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        return (new[buffer], at) if buffer in new else None

    def defines(stmt: Stmt) -> Stmt:
        return with_own_buffers(stmt, stmt.DEFINES, lambda buffer: new.get(buffer, buffer))

    rewritten = deep(relocate(block, moved_to), defines)
    assert isinstance(rewritten, Block)
    return rewritten


def relocate(stmt: Stmt, moved_to: Relocation) -> Stmt:
    """Return ``stmt``, its body included, with accesses moved to other buffers or indices.

    ``moved_to`` maps a buffer and indices to the new ones, or to ``None`` to keep them.
    """

    def load(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        new_place = moved_to(node.buffer, node.indices)
        return None if new_place is None else Load(new_place[0], new_place[1], node.dtype)

    memo: dict[int, Expr] = {}

    def value(root: Expr) -> Expr:
        return rewrite(root, load, memo)

    def change(old: Stmt) -> Stmt:
        new = with_expressions(old, value)
        names = (*new.WRITTEN, *new.READ)
        if not names:
            return new
        indices = new.indices  # type: ignore[union-attr]
        places = {b: place for b in buffers_of(new) if (place := moved_to(b, indices)) is not None}
        if not places:
            return new

        # all buffers of a statement are accessed at the same indices
        _, at = next(iter(places.values()))
        new = with_own_buffers(new, names, lambda b: places[b][0] if b in places else b)
        return with_fields(new, indices=at)

    return deep(stmt, change)


def distinct(root: Stmt) -> list[Stmt]:
    """Return every statement once, without blocks, in program order: copies hold one body."""
    statements: list[Stmt] = []
    visited: set[int] = set()
    stack: list[Stmt] = [root]
    while stack:
        stmt = stack.pop()
        if id(stmt) in visited:
            continue
        visited.add(id(stmt))
        if not isinstance(stmt, Block):
            statements.append(stmt)
        stack += held_statements(stmt)[::-1]
    return statements


def storage(stmt: Stmt) -> list[Buffer]:
    """Return the buffers that ``stmt`` allocates."""
    return [buffer for s, _ in walk(stmt) for buffer in defined_by(s)]


def with_rows(buffer: Buffer, *extents: int) -> Buffer:
    """Return ``buffer`` with leading dimensions: one copy of it for each of their indices."""
    steps = buffer.strides
    if steps is not None:
        size = buffer.size
        assert size is not None
        for extent in reversed(extents):
            steps, size = (size, *steps), size * extent
    return replace(buffer, shape=(*extents, *buffer.shape), strides=steps)
