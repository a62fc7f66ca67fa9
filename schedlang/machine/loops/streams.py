"""Stores that bypass the cache, as a pragma of a loop around asks for."""

from __future__ import annotations

from schedlang.ir.nodes import Block, For, Stmt, Store, block_of, with_fields, with_held
from schedlang.machine.loops.job import LoopJob
from schedlang.state.state import NONTEMPORAL


def stream_stores(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with the stores of a stage marked, inside of its loops with the pragma."""
    if not any(loop.pragmas for loop in job.nest.loops):
        return body
    return block_of(_streamed(body, ""))


def _streamed(stmt: Stmt, stage: str) -> Stmt:
    if isinstance(stmt, For) and any(name == NONTEMPORAL for name, _ in stmt.pragmas):
        stage = stmt.stage
    if isinstance(stmt, Store):
        own = stmt.stage == stage and stmt.reducer is None
        return with_fields(stmt, streamed=True) if own else stmt
    return with_held(stmt, lambda inner: _streamed(inner, stage))
