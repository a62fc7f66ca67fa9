"""Unrolling: the copies of a loop's body, one for each iteration."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis, Var
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Copies,
    Copy,
    For,
    If,
    Kept,
    Lanes,
    Load,
    Stmt,
    Store,
    Strips,
    block_of,
    walk,
    with_held,
)
from schedlang.machine.loops.functions import becomes_function
from schedlang.machine.loops.job import MOST_COPIES, LoopJob


@dataclass(frozen=True)
class _Place:
    """The axes with a value in each copy, the number of copies, and whether lanes are around."""

    fixed: frozenset[Axis] = frozenset()
    copies: int = 1
    in_lanes: bool = False


def unroll(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with unrolled loops of constant extent as copies.

    Where the compiler unrolls loops, only those in lanes become copies. Raise
    :class:`~schedlang.errors.BuildError` for more than ``MOST_COPIES`` copies of a body.
    """
    return block_of(_unrolled(body, job, _Place())) if job.may_have("unroll") else body


def _unrolled(stmt: Stmt, job: LoopJob, place: _Place) -> Stmt:
    if isinstance(stmt, For):
        if stmt.kind == "unroll" and (place.in_lanes or job.target.facts.unrolls):
            if isinstance(stmt.extent, int):
                return _copies(stmt, stmt.extent, job, place)
        if becomes_function(stmt):
            place = replace(place, copies=1)
    elif isinstance(stmt, Strips) and becomes_function(stmt):
        place = replace(place, copies=1)
    elif isinstance(stmt, Lanes):
        place = replace(place, in_lanes=True)
    elif isinstance(stmt, Copy):
        place = replace(place, fixed=place.fixed | {stmt.axis})
    return with_held(stmt, lambda inner: _unrolled(inner, job, place))


def _copies(loop: For, extent: int, job: LoopJob, place: _Place) -> Stmt:
    copies = place.copies * extent
    if copies > MOST_COPIES:
        raise BuildError(
            explain(
                f"unroll({loop.axis.name}) on stage {loop.stage}",
                f"with the unrolled loops around it, it makes {copies} copies of the body, which "
                "would not compile in reasonable time or memory",
                f"Unroll fewer or smaller loops, at most {MOST_COPIES} copies in all.",
            )
        )
    share = extent > 1 and not place.in_lanes and _only_stores(loop, place.fixed)
    inside = replace(place, fixed=place.fixed | {loop.axis}, copies=copies)
    body = block_of(_unrolled(loop.body, job, inside))
    stored, body = _without_storage(body)
    copied = Copies(tuple(Copy(loop.axis, k, body) for k in range(extent)), share)
    return Block((*stored, copied)) if stored else copied


def _without_storage(body: Block) -> tuple[list[Alloc], Block]:
    """Return the allocations of ``body`` itself, which the copies share, and the rest of it."""
    stored: list[Alloc] = []
    rest: list[Stmt] = []
    for stmt in body.stmts:
        if isinstance(stmt, Alloc):
            stored.append(stmt)
        elif isinstance(stmt, Block):
            inner, left = _without_storage(stmt)
            stored += inner
            rest.append(left)
        else:
            rest.append(stmt)
    return stored, Block(tuple(rest)) if stored else body


def _only_stores(loop: For, fixed: Set[Axis]) -> bool:
    """Return whether the copies of an unrolled loop consist of stores alone.

    Its tests must depend only on the ``fixed`` axes and on unrolled ones, so that they are decided
    in each copy.
    """
    inside = [s for s, _ in walk(loop.body)]
    unrolled = {s.axis for s in inside if isinstance(s, For) and s.kind == "unroll"}
    decided = {*fixed, *unrolled, loop.axis}

    def plain(stmt: Stmt) -> bool:
        if isinstance(stmt, If):
            leaves = (n for n in postorder([stmt.cond]) if isinstance(n, (Axis, Var, Load)))
            return all(leaf in decided for leaf in leaves)
        return isinstance(stmt, (Store, Lanes, Strips, Copy, Kept)) or (
            isinstance(stmt, For) and stmt.kind in ("unroll", "vectorize")
        )

    return all(map(plain, inside))
