"""Instructions: the loops that one replaces become a store of its result for all lanes."""

from __future__ import annotations

from schedlang.errors import BuildError, SchedlangError, explain
from schedlang.expr.dtypes import INDEX
from schedlang.expr.nodes import Const
from schedlang.instructions.declaration import MEMORY, Instruction, elements
from schedlang.instructions.emission import MemoryFunction
from schedlang.instructions.fragments import ElementCopy, InParts
from schedlang.ir.extern_call import Extern, View
from schedlang.ir.instructed import Instructed, Tile
from schedlang.ir.instruction_match import Match, Mismatch, match
from schedlang.ir.nodes import Block, For, Stmt, Store, block_of, with_fields, with_held
from schedlang.ir.updates import as_plain_store
from schedlang.machine.alignment import GPU_ALIGNMENT
from schedlang.machine.loops.job import LoopJob
from schedlang.target_kinds import Facts


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
    facts = job.target.facts
    language = facts.instructions if facts.vectors else ""
    if not language:
        return with_fields(stmt, kind="serial", instruction=None)
    matched = matched_by(stmt, facts)
    emission = declared.emit.get(language)
    if emission is None or isinstance(emission, MemoryFunction):
        return _called(stmt, declared, matched, job)
    assert not isinstance(emission, (InParts, ElementCopy)), "a program has others in their place"
    tiles = tuple(
        Tile(operand.buffer, operand.indices, operand.buffer.dtype, count=elements(tensor))
        for operand, tensor in zip(matched.operands, declared.operands)
    )
    value = Instructed(
        declared.name, tiles, declared.output.dtype, instruction=declared, emission=emission
    )
    store = with_fields(matched.store, values=(value,))
    if matched.lanes is None:
        return store
    body = Block((store,))
    return with_fields(matched.lanes, kind="vectorize", body=body, pragmas=(), instruction=None)


def matched_by(loop: For, facts: Facts) -> Match:
    """Return how the loops from ``loop`` inwards compute their instruction.

    Raise :class:`~schedlang.errors.BuildError` for an instruction without a form for targets with
    these ``facts``, and for loops of a GPU that threads have changed.
    """
    declared, language = loop.instruction, facts.instructions
    assert declared is not None
    asked = f"tensorize({loop.axis.name}, {declared}) on stage {loop.stage}"
    in_memory = MEMORY in declared.emit and not facts.binds_threads
    if language not in declared.emit and not in_memory:
        why = f"{declared} has no form for target={facts.name!r}"
        raise BuildError(explain(asked, why, f"Give sl.instruction emit={{{language!r}: ...}}."))
    # lowering has matched the loops, but on a GPU the threads came in between
    matched = match(loop, declared)
    if isinstance(matched, Mismatch):
        raise BuildError(explain(asked, matched.why, matched.hint))
    for tensor, tile in matched.tiles(declared) if facts.binds_threads else ():
        count, buffer = declared.alignment.get(tensor.name, 1), tile.buffer
        if count > GPU_ALIGNMENT and buffer.scope != "global":
            raise BuildError(
                explain(
                    asked,
                    f"{buffer.name} is in {buffer.scope} memory, where an array of a GPU starts at "
                    f"a multiple of {GPU_ALIGNMENT} bytes, and {declared} needs {tensor.name} at "
                    f"multiples of {count}",
                    f"Declare alignment={{{tensor.name!r}: {GPU_ALIGNMENT}}}, or let it use "
                    "global memory.",
                )
            )
    return matched


def _called(loop: For, declared: Instruction, matched: Match, job: LoopJob) -> Extern:
    """Return the call of a function in memory on the tiles that the loops read and write."""
    emission = declared.emit[MEMORY]
    assert isinstance(emission, MemoryFunction)
    try:
        function = emission.function(declared, job.imported)
    except SchedlangError as error:
        raise BuildError(
            explain(
                f"tensorize({loop.axis.name}, {declared}) on stage {loop.stage}",
                "its function in memory cannot be made",
                str(error),
            )
        ) from None
    tiles = (*matched.operands, matched.result)
    views = tuple(
        View(tuple(map(int, tensor.shape)), tile.strides)
        for tensor, tile in zip((*declared.operands, declared.output), tiles)
    )
    starts = tuple(index for tile in tiles for index in tile.indices)
    ones = tuple(Const(1, INDEX, True) for _ in starts)
    store = matched.store if matched.store.reducer is None else as_plain_store(matched.store)
    body = _with_plain_loops(loop, store)
    inputs = tuple(tile.buffer for tile in matched.operands)
    return Extern(
        function, inputs, (matched.result.buffer,), starts, ones, block_of(body), loop.stage,
        store.number, views, emission.cycles,
    )  # fmt: skip


def _with_plain_loops(stmt: Stmt, store: Stmt) -> Stmt:
    """Return the loops around a store, which say what a function reads and writes."""
    if isinstance(stmt, For):
        body = block_of(_with_plain_loops(stmt.body, store))
        return with_fields(stmt, kind="serial", instruction=None, pragmas=(), body=body)
    if isinstance(stmt, Block):
        return with_held(stmt, lambda inner: _with_plain_loops(inner, store))
    return store if isinstance(stmt, Store) else stmt
