"""Statements with the loops and guards around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schedlang.expr.interval import Ranges
from schedlang.expr.linear import ZERO, Lin, total
from schedlang.expr.simplify import merge_div_mod, to_lin
from schedlang.ir.nodes import Block, Buffer, For, If, Stmt, Store


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


def flat(buffer: Buffer, indices: Sequence[Lin]) -> Lin:
    """Return the flat position of an element; ``//`` and ``%`` of one loop are merged."""
    strides = [Lin.of(1)]
    for k in reversed(range(1, len(buffer.shape))):
        strides.insert(0, strides[0] * to_lin(buffer.shape[k]))
    return merge_div_mod(total(i * s for i, s in zip(indices, strides)))


__all__ = ["Site", "flat", "scope_of", "sites_of"]
