"""Loops that instructions replace: which parts of a stage have them, and whether they match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.errors import explain
from schedlang.expr.nodes import Axis
from schedlang.ir.instruction_match import Mismatch, looped_axes, match
from schedlang.ir.nodes import Block, For, If, Stmt, Store, walk
from schedlang.lowering.drafts import Draft
from schedlang.state.placement import Placement, Problem
from schedlang.state.plan import Plan
from schedlang.state.primitives.arguments import scan_of_part
from schedlang.state.relations import position
from schedlang.state.state import Inline, Stage, State


def is_whole(stage: Stage, plan: Plan, axis: Axis, drafts: Sequence[Draft]) -> bool:
    """Return whether the loops from tensorized ``axis`` inwards are whole, without a test.

    The rest of a cut loop is not, and runs as loops. ``drafts`` are the statements in them.
    """
    if not _are_long_enough(stage, plan, axis):
        return False
    waiting: list[Any] = list(drafts)
    while waiting:
        draft = waiting.pop()
        if isinstance(draft, If):
            return False
        if isinstance(draft, For):
            waiting += draft.body.stmts
    return True


def _are_long_enough(stage: Stage, plan: Plan, axis: Axis) -> bool:
    """Return whether loops are as long as their instruction's, or as their own axes."""
    inner = stage.leaf[position(stage.leaf, axis) :]
    lengths = [plan.extents[a].const for a in inner]
    wanted = sorted(a.extent for a in looped_axes(stage.instructions[axis]))
    if sorted(n for n in lengths if n is not None and n != 1) == wanted:
        return True
    return lengths == [a.extent for a in inner]


def has_lanes(stage: Stage, plan: Plan, axis: Axis, init: bool) -> bool:
    """Return whether a loop is vectorized because an instruction would replace it elsewhere.

    It is in the initialization of the stage, and in the rest of a cut loop, if it is the innermost
    loop over elements.
    """
    chosen = next((a for a in stage.leaf if a in stage.instructions), None)
    if chosen is None or plan.extents[axis].const is None:
        return False
    data = [a for a in stage.leaf[position(stage.leaf, chosen) :] if not a.is_reduce]
    if not data or axis is not data[-1]:
        return False
    return init or not _are_long_enough(stage, plan, chosen)


def computes(body: Stmt, stage: Stage) -> bool:
    """Return whether statements in ``body`` compute elements of a stage."""
    return any(
        buffer.tensor is not None and buffer.tensor in stage.outputs
        for stmt, _ in walk(body)
        if isinstance(stmt, Store)
        for buffer in stmt.buffers
    )


def movable(state: State) -> list[Tensor]:
    """Return the tensors that ``set_scope`` can put into other memory."""
    return [
        tensor
        for stage in state.stages.values()
        if not state.is_output(stage) and scan_of_part(state, stage) is None
        for tensor in stage.outputs
    ]


def instruction_problems(state: State, placement: Placement, body: Block) -> Iterator[Problem]:
    """Yield why instructions do not compute what the loops do that they are to replace."""
    wanted = {
        name: stage
        for name, stage in state.stages.items()
        if stage.instructions and not isinstance(placement.attach[name], Inline)
    }
    if not wanted:
        return
    matched: set[str] = set()
    for stmt, _ in walk(body):
        if not isinstance(stmt, For) or stmt.instruction is None:
            continue
        matched.add(stmt.stage)
        result = match(stmt, stmt.instruction, movable(state))
        if isinstance(result, Mismatch):
            yield Problem(refusal(stmt.axis.name, stmt, result), stmt.stage)
    for name, stage in wanted.items():
        if name not in matched and computes(body, stage):
            axis, chosen = next(iter(stage.instructions.items()))
            why = explain(
                f"tensorize({axis.name}, {chosen}) on stage {name}",
                f"the box that {name} computes there has fewer elements than the instruction, or "
                "tests each of them",
                "Compute it at a loop further out, or by smaller tiles.",
            )
            yield Problem(why, name)


def refusal(axis: str, loop: For, mismatch: Mismatch) -> str:
    """Return the message for loops that their instruction does not have."""
    asked = f"tensorize({axis}, {loop.instruction}) on stage {loop.stage}"
    return explain(asked, mismatch.why, mismatch.hint)
