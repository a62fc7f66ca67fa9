"""The buffers that a statement reads and writes, its body included."""

from __future__ import annotations

from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Buffer, Exchange, Load, Stmt, Store, expressions, walk


def loaded(root: Stmt) -> set[Buffer]:
    """Return the buffers that ``root`` reads; an update also reads its target."""
    found: set[Buffer] = set()
    for stmt, _ in walk(root):
        found |= {n.buffer for n in postorder(expressions(stmt)) if isinstance(n, Load)}
        if isinstance(stmt, Store) and stmt.reducer is not None:
            found |= set(stmt.buffers)
        if isinstance(stmt, Exchange):
            found |= set(stmt.source)
    return found


def stored(root: Stmt) -> set[Buffer]:
    """Return the buffers that ``root`` writes."""
    found: set[Buffer] = set()
    for stmt, _ in walk(root):
        if isinstance(stmt, Store):
            found |= set(stmt.buffers)
        if isinstance(stmt, Exchange):
            found |= set(stmt.into)
    return found


__all__ = ["loaded", "stored"]
