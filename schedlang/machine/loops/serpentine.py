"""Loops that go back and forth, as the pragma ``"serpentine"`` asks for."""

from __future__ import annotations

from typing import Optional

from schedlang.expr.nodes import Axis
from schedlang.ir.nodes import Block, For, Stmt, block_of, with_fields, with_held
from schedlang.machine.loops.job import LoopJob
from schedlang.state.state import SERPENTINE

# the pragma of a loop that turns around, with the axis of the loop that it turns with
TURNS_WITH = "turns_with"


def find_turns(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with the serial loop next around each serpentine loop as its pragma.

    A copy of the loop without one runs once, forwards: the initialization of a reduction, and the
    part of a cut loop with one iteration, may be outside of the loop around the others.
    """
    if not any(SERPENTINE in dict(loop.pragmas) for loop in job.nest.loops):
        return body
    return block_of(_found(body, None))


def _found(stmt: Stmt, around: Optional[Axis]) -> Stmt:
    if isinstance(stmt, For) and stmt.kind == "serial":
        if SERPENTINE in dict(stmt.pragmas):
            others = tuple(p for p in stmt.pragmas if p[0] != SERPENTINE)
            own = () if around is None else ((TURNS_WITH, around),)
            stmt = with_fields(stmt, pragmas=(*others, *own))
        around = stmt.axis
    return with_held(stmt, lambda inner: _found(inner, around))


def turns_with(loop: For) -> Optional[Axis]:
    """Return the axis in whose odd iterations ``loop`` goes backwards."""
    return dict(loop.pragmas).get(TURNS_WITH)
