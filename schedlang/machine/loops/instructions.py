"""Instructions: the loops that one replaces become a store of its result for all lanes."""

from __future__ import annotations

from schedlang.errors import BuildError, explain
from schedlang.instructions.declaration import elements
from schedlang.ir.instructed import Instructed, Tile
from schedlang.ir.instruction_match import Match, match
from schedlang.ir.nodes import Block, For, Stmt, block_of, with_fields, with_held
from schedlang.machine.loops.job import LoopJob


def use_instructions(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with instructions in place of the loops that they compute.

    On a target without instructions, the loops run as they stand. Raise
    :class:`~schedlang.errors.BuildError` for an instruction that has no form in the language of the
    target.
    """
    return block_of(_replaced(body, job)) if job.may_have("tensorize") else body


def _replaced(stmt: Stmt, job: LoopJob) -> Stmt:
    declared = stmt.instruction if isinstance(stmt, For) else None
    if declared is None:
        return with_held(stmt, lambda inner: _replaced(inner, job))
    assert isinstance(stmt, For)
    language = job.target.facts.instructions
    if not language:
        return with_fields(stmt, kind="serial", instruction=None)
    if language not in declared.emit:
        raise BuildError(
            explain(
                f"tensorize({stmt.axis.name}, {declared}) on stage {stmt.stage}",
                f"{declared} has no form for target={job.target.facts.name!r}",
                f"Give sl.instruction emit={{{language!r}: ...}}.",
            )
        )
    matched = match(stmt, declared)
    assert isinstance(matched, Match), "lowering has matched it"
    tiles = tuple(
        Tile(operand.buffer, operand.indices, operand.buffer.dtype, count=elements(tensor))
        for operand, tensor in zip(matched.operands, declared.operands)
    )
    value = Instructed(declared.name, tiles, declared.output.dtype, instruction=declared)
    store = with_fields(matched.store, values=(value,))
    body = Block((store,))
    return with_fields(matched.lanes, kind="vectorize", body=body, pragmas=(), instruction=None)
