"""Loops that go back and forth, as the pragma ``"serpentine"`` asks for."""

from __future__ import annotations

from typing import Optional

from schedlang.errors import BuildError, explain, subscript
from schedlang.expr.nodes import Axis
from schedlang.ir.nodes import Block, For, Stmt, block_of, changed, mapped
from schedlang.machine.loops.job import LoopJob
from schedlang.state.state import SERPENTINE


def find_turns(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with the loop around as the value of each pragma ``"serpentine"``.

    The loop with the pragma goes backwards in every other iteration of that loop. Raise
    :class:`~schedlang.errors.BuildError` if there is no serial loop around.
    """
    if not any(SERPENTINE in dict(loop.pragmas) for loop in job.nest.loops):
        return body
    return block_of(_found(body, None))


def _found(stmt: Stmt, around: Optional[Axis]) -> Stmt:
    if isinstance(stmt, For) and stmt.kind == "serial":
        if SERPENTINE in dict(stmt.pragmas):
            stmt = changed(stmt, pragmas=_with_loop(stmt, around))
        around = stmt.axis
    return mapped(stmt, lambda inner: _found(inner, around))


def _with_loop(loop: For, around: Optional[Axis]) -> tuple[tuple[str, object], ...]:
    if around is None:
        raise BuildError(
            explain(
                f'pragma({loop.axis.name}, "{SERPENTINE}") on stage {loop.stage}',
                "there is no serial loop around it, so that it runs only once",
                f"Leave out the pragma, or compute {loop.stage} inside of a serial loop: "
                f"{subscript(loop.stage)}.compute_at(...).",
            )
        )
    return tuple((n, around if n == SERPENTINE else value) for n, value in loop.pragmas)


def turns_with(loop: For) -> Optional[Axis]:
    """Return the loop around in every other iteration of which ``loop`` goes backwards."""
    found: Optional[Axis] = dict(loop.pragmas).get(SERPENTINE)
    return found


__all__ = ["find_turns", "turns_with"]
