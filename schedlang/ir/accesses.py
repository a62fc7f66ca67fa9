"""The accesses of a nest: which statement reads and writes which element, and what is around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from schedlang.expr.evaluation_order import evaluations, under
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import ZERO, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import (
    Block,
    Buffer,
    Exchange,
    For,
    If,
    Kept,
    Load,
    Stmt,
    Store,
    expressions,
    held_statements,
    read_by,
    walk,
    written_by,
)

Context = TypeVar("Context")


@dataclass(frozen=True, eq=False)
class Access:
    """A read or write of one element, or a read of ``count`` adjacent ones from there on.

    An update reads and writes its element, by two accesses that say ``updates``. ``tests`` are the
    conditions of the lazy branches around a load, where they are asked for.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    stores: bool = False
    updates: bool = False
    tests: tuple[Expr, ...] = ()
    count: int = 1


@dataclass(frozen=True, eq=False)
class Site:
    """A statement, and the statements around it, outer to inner, without blocks."""

    stmt: Any
    around: tuple[Stmt, ...] = ()

    @cached_property
    def loops(self) -> tuple[For, ...]:
        return tuple([s for s in self.around if isinstance(s, For)])

    @cached_property
    def guards(self) -> tuple[If, ...]:
        return tuple([s for s in self.around if isinstance(s, If)])

    @cached_property
    def kept(self) -> bool:
        """True if the elements that the statement updates stay in registers."""
        around = [s.buffers for s in self.around if isinstance(s, Kept)]
        return bool(around) and around[-1].issuperset(written_by(self.stmt))

    @cached_property
    def ranges(self) -> Ranges:
        """The ranges of the loops' variables."""
        return Ranges({axis: (ZERO, extent - 1) for axis, extent in self.extents})

    @cached_property
    def extents(self) -> tuple[tuple[Axis, Lin], ...]:
        """The axis and the extent of each loop."""
        return tuple((loop.axis, to_lin(loop.extent)) for loop in self.loops)

    @cached_property
    def indices(self) -> tuple[Lin, ...]:
        """The indices at which the statement stores."""
        return tuple(to_lin(i, ranges=self.ranges) for i in self.stmt.indices)

    @cached_property
    def accesses(self) -> list[Access]:
        return accesses(self.stmt)


def sites(root: Stmt) -> Iterator[Site]:
    """Yield the statements of ``root``, without blocks, in program order."""
    outside: tuple[Stmt, ...] = ()
    return (Site(stmt, around) for stmt, around in contexts(root, outside, _around))


def _around(stmt: Stmt, around: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return (*around, stmt)


def contexts(
    root: Stmt, context: Context, inside: Callable[[Stmt, Context], Context]
) -> Iterator[tuple[Stmt, Context]]:
    """Yield the statements of ``root``, without blocks, in program order, each with a context.

    ``root`` is in ``context``, and the statements in ``stmt`` are in ``inside(stmt, context)``.
    """
    stack = [(root, context)]
    while stack:
        stmt, context = stack.pop()
        if not isinstance(stmt, Block):
            yield stmt, context
            if not stmt.HELD:
                continue
            context = inside(stmt, context)
        stack += [(s, context) for s in reversed(held_statements(stmt))]


def stores(root: Stmt) -> list[Site]:
    """Return the stores of ``root`` in program order."""
    outside: tuple[Stmt, ...] = ()
    return [
        Site(stmt, around)
        for stmt, around in contexts(root, outside, _around)
        if isinstance(stmt, Store)
    ]


def accesses(stmt: Stmt, tested: bool = False) -> list[Access]:
    """Return the accesses of a statement itself: loads first, then its own reads and writes.

    A load of several places is one access, and the element of a prefetch is none. If ``tested``,
    each evaluation of a load is an access, with the conditions of the lazy branches around it.
    """
    around: tuple[Expr, ...] = ()
    if tested:
        own = [
            Access(node.buffer, node.indices, tests=tests)
            for root in expressions(stmt)
            for node, tests in evaluations(root, around, under)
            if isinstance(node, Load)
        ]
    else:
        own = [
            Access(load.buffer, load.indices, count=load.count) for load in loads(expressions(stmt))
        ]
    if isinstance(stmt, (Store, Exchange)):
        updates = isinstance(stmt, Store) and stmt.reducer is not None
        read = written_by(stmt) if updates else read_by(stmt)
        own += [Access(b, stmt.indices, False, updates) for b in read]
        own += [Access(b, stmt.indices, True, updates) for b in written_by(stmt)]
    return own


def loads(roots: Sequence[Expr]) -> list[Load]:
    """Return each distinct load of expressions once, those in its indices before it."""
    return [node for node in postorder(roots) if isinstance(node, Load)]


def read_buffers(root: Stmt) -> set[Buffer]:
    """Return the buffers that ``root`` reads: an update reads its target, a prefetch nothing."""
    return {a.buffer for stmt, _ in walk(root) for a in accesses(stmt) if not a.stores}


def written_buffers(root: Stmt) -> set[Buffer]:
    """Return the buffers that ``root`` writes."""
    return {buffer for stmt, _ in walk(root) for buffer in written_by(stmt)}
