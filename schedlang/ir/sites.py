"""Statements with the loops and guards around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import Any

from schedlang.expr.nodes import Axis
from schedlang.index.linear import ZERO, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import has_mod, merge_div_mod, to_lin
from schedlang.ir.nodes import Block, Buffer, For, If, Stmt, Store

# the most dimensions of a buffer of which all orders are tried
MOST_ORDERED = 4


@dataclass(frozen=True, eq=False)
class Site:
    """A statement with the loops and guards around it, outer to inner."""

    store: Any
    loops: tuple[For, ...]
    guards: tuple[If, ...]

    @cached_property
    def ranges(self) -> Ranges:
        return scope_of(self.loops)

    @cached_property
    def extents(self) -> tuple[tuple[Axis, Lin], ...]:
        """The axis and the extent of each loop."""
        return tuple((loop.axis, to_lin(loop.extent)) for loop in self.loops)

    @cached_property
    def indices(self) -> tuple[Lin, ...]:
        """The indices of the store."""
        return tuple(to_lin(i, ranges=self.ranges) for i in self.store.indices)


def scope_of(loops: Sequence[For]) -> Ranges:
    """Return the ranges of loop variables."""
    return Ranges({loop.axis: (ZERO, to_lin(loop.extent) - 1) for loop in loops})


def sites_of(body: Block, buffer: Buffer) -> list[Site]:
    """Return the stores to ``buffer`` in ``body``, in program order."""
    found: list[Site] = []
    stack: list[tuple[Stmt, tuple[For, ...], tuple[If, ...]]] = [(body, (), ())]
    while stack:
        stmt, loops, guards = stack.pop()
        if isinstance(stmt, Block):
            stack += [(s, loops, guards) for s in reversed(stmt.stmts)]
        elif isinstance(stmt, For):
            stack.append((stmt.body, (*loops, stmt), guards))
        elif isinstance(stmt, If):
            stack.append((stmt.body, loops, (*guards, stmt)))
        elif isinstance(stmt, Store) and buffer in stmt.buffers:
            found.append(Site(stmt, loops, guards))
    return found


def flat(buffer: Buffer, indices: Sequence[Lin], order: Sequence[int] | None = None) -> Lin:
    """Return the flat position of an element; ``//`` and ``%`` of one loop are merged.

    ``order`` lists the dimensions, the one of stride 1 last; by default they are row-major.
    """
    place, stride = ZERO, Lin.of(1)
    for k in reversed(range(len(buffer.shape)) if order is None else order):
        place, stride = place + indices[k] * stride, stride * to_lin(buffer.shape[k])
    return merge_div_mod(place)


def orders(buffer: Buffer, indices: Sequence[Lin]) -> Iterable[tuple[int, ...]]:
    """Return the orders of dimensions in which to prove facts about ``indices``, row-major first.

    The others matter if loops are fused, so that an index has a remainder.
    """
    rank = len(buffer.shape)
    if rank <= MOST_ORDERED and any(map(has_mod, indices)):
        return permutations(range(rank))
    return [tuple(range(rank))]


__all__ = ["Site", "flat", "orders", "scope_of", "sites_of"]
