"""Primitives that place stages: where a stage is computed, and where it is stored."""

from __future__ import annotations

from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ScanOp
from schedlang.errors import subscript
from schedlang.expr.nodes import Axis
from schedlang.state.placement import (
    effective_readers,
    encloses,
    legal_places,
    outside_of_step,
    place,
    places_text,
)
from schedlang.state.primitives.arguments import leaf_position, scan_of_part, text_of
from schedlang.state.primitives.conflicts import (
    check_fixed_extents,
    with_prefetches,
    without_conflict,
)
from schedlang.state.primitives.primitive import Primitive
from schedlang.state.primitives.refusal import refuse
from schedlang.state.primitives.scan_loops import repeated_steps
from schedlang.state.relations import position
from schedlang.state.state import EFFECTIVE, At, Inline, Result, Root, Stage, State

OUTPUT_HINT = "Attach the stages that it reads instead."


def compute_at(state: State, stage: Stage, parent: Any, axis: Axis) -> Result:
    parent = _parent(parent)
    if parent.name == stage.name:
        hint = OUTPUT_HINT if state.is_output(stage) else _places(state, stage)
        refuse("a stage cannot be computed inside itself", hint)
    if state.is_output(stage):
        refuse(f"{stage.name} is an output, which is computed at root", OUTPUT_HINT)
    if isinstance(stage.op, ExternOp) and stage.op.boxes is None:
        refuse(
            f"{stage.name} is computed whole, by one call of {stage.op.function.name}",
            f"Leave {stage.name} at root, or give sl.extern(..., reads=), which says what the "
            "function reads for a box of its output.",
        )
    if scan_of_part(state, stage):
        refuse(
            f"{stage.name} is part of a scan, which computes it in its time loop",
            OUTPUT_HINT,
        )
    if not state.dependences.depends(parent.name, stage.name):
        why = f"{parent.name} does not read {stage.name}, directly or through other stages"
        refuse(why, _places(state, stage))
    if isinstance(parent.attach, Inline):
        refuse(f"{parent.name} is inlined and has no loops", _places(state, stage))
    leaf_position(state, parent, axis)
    if axis in parent.scattered_leaves:
        refuse(
            f"{axis.name} is a loop that initializes {parent.name}, and the updates that read "
            f"{stage.name} are not inside it",
            _places(state, stage),
            state,
            axis,
        )
    repeated = repeated_steps(stage, parent, axis) if stage.is_scan else None
    if repeated is not None:
        refuse(*repeated, state, axis)
    misplaced = outside_of_step(state, None, stage, parent, axis)
    if misplaced is not None:
        refuse(*misplaced, state, axis)
    around = parent.leaf[: position(parent.leaf, axis) + 1]
    lanes = next((a for a in around if parent.kinds.get(a) == "vectorize"), None)
    if lanes is not None:
        refuse(
            f"{lanes.name} is vectorized, and a stage has no storage per lane",
            f"Attach it outside {lanes.name}, or vectorize a loop of {stage.name} instead.",
            state,
            lanes,
        )
    stored, location = stage.store, At(parent.name, axis)
    if isinstance(stored, At) and encloses(state, stored, location) is False:
        refuse(
            f"{stage.name} is stored at {stored.axis.name} of {stored.stage}, which does not "
            f"enclose {axis.name}",
            f"Call {subscript(stage.name)}.compute_root() first, then compute_at and store_at.",
        )
    after = state.updated(stage.with_(attach=location))
    return with_prefetches(after, state), None


def _parent(parent: Any) -> Stage:
    if not isinstance(parent, Stage):
        why = f"{text_of(parent)} is not a stage of this schedule, so it has no loops"
        refuse(why, "Give a stage that reads this one.")
    return parent


def _places(state: State, stage: Stage) -> str:
    placement = place(state.updated(stage.with_(attach=Root())))
    readers = effective_readers(state)[stage.name]
    return places_text(legal_places(state, placement.attach, readers, stage))


def compute_inline(state: State, stage: Stage) -> Result:
    if state.is_output(stage):
        refuse(
            f"{stage.name} is an output and must be stored",
            "Inline the stages that it reads instead.",
        )
    if isinstance(stage.op, ScanOp) or scan_of_part(state, stage):
        refuse(
            f"{stage.name} is part of a scan, whose rows must be stored",
            "Inline the stages that its update reads instead.",
        )
    if isinstance(stage.op, ExternOp):
        refuse(
            f"{stage.name} is computed by {stage.op.function.name}, which writes arrays",
            "Leave it at root, or call compute_at if it has reads=.",
        )
    if stage.op.reducer is not None:
        refuse(
            f"{stage.name} is a reduction, which must be stored to accumulate",
            f"Use {subscript(stage.name)}.compute_at(...) instead.",
        )
    attached = next(iter(state.attached(stage)), None)
    if attached is not None:
        refuse(
            f"stage {attached.name} is computed at one of its loops, which inlining removes",
            f"First attach {attached.name} elsewhere, or call "
            f"{subscript(attached.name)}.compute_root().",
        )
    if stage.predicate is not None:
        refuse(
            f"{stage.name} has a store predicate, but an inlined stage stores nothing",
            "Inline it without the predicate, or attach it with compute_at.",
        )
    lost = [f"pragma {name!r}" for _, name, _ in stage.pragmas if name in EFFECTIVE]
    lost += ["a double buffer"] if stage.double_buffer else []
    lost += ["a pipeline"] if stage.pipeline else []
    if lost:
        refuse(
            f"{stage.name} has {lost[0]}, but an inlined stage has no loops and stores nothing",
            "Leave out one of the two steps, or attach the stage with compute_at.",
        )
    reader = state.extern_reader(stage)
    if reader is not None:
        refuse(
            f"the function of {reader.name} reads {stage.name} as an array, which must be stored",
            f"Leave {stage.name} at root.",
        )
    after = state.updated(stage.with_(attach=Inline(), store=None))
    return with_prefetches(after, state), None


def compute_root(state: State, stage: Stage) -> Result:
    if isinstance(stage.attach, At):
        check_fixed_extents(stage, state)
    after = state.updated(stage.with_(attach=Root(), store=None))
    # at root, the extents are the extents of the whole tensor, so tails are checked again
    return without_conflict(after, state, stage.name), None


def store_at(state: State, stage: Stage, parent: Any, axis: Axis) -> Result:
    _check_stores_box(stage)
    parent = _parent(parent)
    leaf_position(state, parent, axis)
    loop = _compute_loop(stage)
    storage = At(parent.name, axis)
    if encloses(state, storage, loop) is False:
        where = f"{stage.name} is computed at {loop.axis.name} of {loop.stage}"
        if loop.stage == parent.name:
            why = f"{where}, and {axis.name} is inside {loop.axis.name}"
        else:
            why = f"{where}, which is not inside {axis.name} of {parent.name}"
        refuse(why, f"Store at {loop.axis.name} or at a loop around it.", state, axis)
    after = state.updated(stage.with_(store=storage))
    return without_conflict(after, state, stage.name, axis), None


def _check_stores_box(stage: Stage) -> None:
    """Refuse to keep the rows of a scan, or of a stage whose function computes whole boxes."""
    if stage.is_scan:
        refuse(
            f"{stage.name} is a scan, whose rows are computed and stored at one place",
            "Attach it with compute_at alone.",
        )
    if isinstance(stage.op, ExternOp):
        refuse(
            f"{stage.op.function.name} computes {stage.name} a box at a time, and would compute "
            "the rows that are kept once more",
            f"Store {stage.name} at the loop that computes it, which compute_at does.",
        )


def _compute_loop(stage: Stage) -> At:
    if not isinstance(stage.attach, At):
        refuse(f"{stage.name} is not attached to a loop", "Call compute_at first.")
    return stage.attach


def store_root(state: State, stage: Stage) -> Result:
    _check_stores_box(stage)
    _compute_loop(stage)
    return without_conflict(state.updated(stage.with_(store=Root())), state, stage.name), None


PRIMITIVES = {
    # a stage may be placed before the other stages whose placement a cut needs
    "compute_at": Primitive(compute_at, keeps_loops=True),
    "compute_inline": Primitive(compute_inline, keeps_loops=True),
    "compute_root": Primitive(compute_root, keeps_loops=True),
    "store_at": Primitive(store_at),
    "store_root": Primitive(store_root),
}
