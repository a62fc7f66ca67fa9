"""The buffers that a statement reads and writes, its body included."""

from __future__ import annotations

from schedlang.expr.visit import postorder
from schedlang.ir.nodes import (
    Buffer,
    Fetch,
    Load,
    Stmt,
    Store,
    expressions,
    read_by,
    walk,
    written_by,
)


def loaded(root: Stmt) -> set[Buffer]:
    """Return the buffers that ``root`` reads: an update reads its target, a prefetch nothing."""
    found: set[Buffer] = set()
    for stmt, _ in walk(root):
        found |= {n.buffer for n in postorder(expressions(stmt)) if isinstance(n, Load)}
        if isinstance(stmt, Store) and stmt.reducer is not None:
            found |= set(stmt.buffers)
        if not isinstance(stmt, Fetch):
            found |= set(read_by(stmt))
    return found


def stored(root: Stmt) -> set[Buffer]:
    """Return the buffers that ``root`` writes."""
    found: set[Buffer] = set()
    for stmt, _ in walk(root):
        found |= set(written_by(stmt))
    return found


__all__ = ["loaded", "stored"]
