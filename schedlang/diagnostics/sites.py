"""The stores of a nest, with the loops around each and their iteration counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, For, If, Stmt, Store

# assumed iterations of a loop whose extent is known only at the call
SYMBOLIC = 256


@dataclass(frozen=True)
class Site:
    """A store and the loops around it, the outermost first."""

    store: Store
    loops: tuple[For, ...]

    @property
    def iterations(self) -> int:
        return prod(map(extent_of, self.loops))


def sites(body: Stmt) -> Iterator[Site]:
    """Yield the stores in program order."""
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(body, ())]
    while stack:
        stmt, loops = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, loops) for s in reversed(stmt.stmts))
        elif isinstance(stmt, For):
            stack.append((stmt.body, (*loops, stmt)))
        elif isinstance(stmt, If):
            stack.append((stmt.body, loops))
        elif isinstance(stmt, Store):
            yield Site(stmt, loops)


def name_of(loop: For, nest: Nest) -> str:
    """Return the name of a loop as the printed nest has it."""
    return nest.names.get(loop.axis, loop.axis.name)


def extent_of(loop: For) -> int:
    """Return the iterations of a loop, at least 1; a guess if its extent is symbolic."""
    return max(1, loop.extent) if isinstance(loop.extent, int) else SYMBOLIC


__all__ = ["Site", "extent_of", "name_of", "sites"]
