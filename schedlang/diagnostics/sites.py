"""The stores of a nest, with the loops around each and their iteration counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from schedlang.expr.nodes import Expr
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, If, Kept, Load, Stmt, Store

# assumed iterations of a loop whose extent is known only at the call
SYMBOLIC = 256


@dataclass(frozen=True)
class Site:
    """A store and the loops around it, the outermost first.

    ``kept`` are the buffers whose sums stay in registers around it.
    """

    store: Store
    loops: tuple[For, ...]
    kept: frozenset[Buffer] = frozenset()

    @property
    def iterations(self) -> int:
        return prod(map(extent_of, self.loops))


def sites(body: Stmt) -> Iterator[Site]:
    """Yield the stores in program order."""
    stack: list[tuple[Stmt, tuple[For, ...], frozenset[Buffer]]] = [(body, (), frozenset())]
    while stack:
        stmt, loops, kept = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, loops, kept) for s in reversed(stmt.stmts))
        elif isinstance(stmt, For):
            stack.append((stmt.body, (*loops, stmt), kept))
        elif isinstance(stmt, If):
            stack.append((stmt.body, loops, kept))
        elif isinstance(stmt, Kept):
            stack.append((stmt.body, loops, stmt.buffers))
        elif isinstance(stmt, Store):
            yield Site(stmt, loops, kept)


def accesses(site: Site) -> Iterator[tuple[Buffer, tuple[Expr, ...]]]:
    """Yield each buffer that a site accesses with the index, stores before loads.

    Sums that stay in registers are not stored there.
    """
    store = site.store
    if not site.kept.issuperset(store.buffers):
        for buffer in store.buffers:
            yield buffer, tuple(store.indices)
    for node in postorder((*store.values, *store.indices)):
        if isinstance(node, Load):
            yield node.buffer, tuple(node.indices)


def name_of(loop: For, nest: Nest) -> str:
    """Return the name of a loop as the printed nest has it."""
    return nest.names.get(loop.axis, loop.axis.name)


def extent_of(loop: For) -> int:
    """Return the iterations of a loop, at least 1; a guess if its extent is symbolic."""
    return max(1, loop.extent) if isinstance(loop.extent, int) else SYMBOLIC


__all__ = ["Site", "accesses", "extent_of", "name_of", "sites"]
