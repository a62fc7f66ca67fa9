"""Checks that a step does not break a request of an earlier step.

Lowering checks whatever depends on later attachments.
"""

from __future__ import annotations

from schedlang.errors import ScheduleError
from schedlang.expr.nodes import Axis, Expr
from schedlang.ir.nodes import Note
from schedlang.lowering.lower import lower_state
from schedlang.lowering.placement import store_refusal
from schedlang.lowering.tails import broken_cut
from schedlang.schedule.refuse import refuse
from schedlang.stage.relations import Split, position
from schedlang.stage.state import At, Stage, State, participle


def keep(state: State, before: State, name: str, asked: str, axis: Axis | None = None) -> State:
    """Return ``state``; refuse the step if stage ``name`` breaks an earlier request in it.

    A request that the stage broke ``before`` as well is not reported. The message shows the nest
    before the step, with a mark at ``axis``.
    """
    stage = state.stages[name]
    _check_cuts(state, stage, before, asked, axis)
    _check_lanes(state, stage, before, asked, axis)
    _check_windows(state, before, asked, axis)
    return state


def _check_cuts(
    state: State, stage: Stage, before: State, asked: str, axis: Axis | None
) -> None:  # fmt: skip
    """Refuse a step after which a requested cut of a tail is impossible."""
    if isinstance(stage.attach, At):
        _check_attached_cuts(state, stage, before, asked, axis)
        return
    found, old = broken_cut(stage), before.stages[stage.name]
    if found is None or (not isinstance(old.attach, At) and broken_cut(old) is not None):
        return
    split, why, hint = found
    call = f"split({split.parent.name}, ..., tail='cut')"
    if old.made_from(split.parent) is None:
        refuse(asked, f"its tail cannot be cut: {why}", hint, before, axis)
    refuse(asked, f"the tail of {call} could no longer be cut: {why}", hint, before, axis)


def _check_attached_cuts(
    state: State, stage: Stage, before: State, asked: str, axis: Axis | None
) -> None:  # fmt: skip
    """Refuse such a step for a stage that is attached at a loop.

    The stage is lowered to find the size of its boxes.
    """
    if not any(isinstance(r, Split) and r.tail == "cut" for r in stage.relations):
        return
    problem = _lost_cut(state, stage)
    if problem is not None and _lost_cut(before, stage) is None:
        refuse(asked, "an earlier tail='cut' could no longer be done", problem, before, axis)


def _lost_cut(state: State, stage: Stage) -> str | None:
    """Return why a requested cut of ``stage`` is impossible, given the present attachments."""
    text = f"tail='cut') on stage {stage.name}:"
    notes = (s.text for s in lower_state(state, strict=False).body.stmts if isinstance(s, Note))
    return next((note for note in notes if text in note), None)


def _check_lanes(state: State, stage: Stage, before: State, asked: str, axis: Axis | None) -> None:
    """Refuse a second vectorized loop, and one around a parallel loop or an attached stage."""
    lanes = next((a for a in stage.leaf if stage.kinds.get(a) == "vectorize"), None)
    if lanes is None:
        return
    place = position(stage.leaf, lanes)
    for inner in stage.leaf[place + 1 :]:
        kind = stage.kinds.get(inner, "")
        if kind == "vectorize" and 1 not in (lanes.extent, inner.extent):
            refuse(
                asked, f"{inner.name} and {lanes.name} would both be vectorized, and only one loop "
                "of a stage can be", "Vectorize one of them and unroll the other, or fuse "
                "them first.", before, axis,
            )  # fmt: skip
        if kind == "parallel" and 1 not in (lanes.extent, inner.extent):
            refuse(
                asked, f"the parallel loop {inner.name} would be inside the vectorized loop "
                f"{lanes.name}, whose iterations are the lanes of one thread",
                f"Reorder first, so that {inner.name} is outside {lanes.name}.", before, axis,
            )  # fmt: skip
    for held in state.attached(stage):
        spot = held.attach
        if isinstance(spot, At) and spot.stage == stage.name:
            if position(stage.leaf, spot.axis) >= place:
                where = "" if spot.axis is lanes else f", inside the vectorized loop {lanes.name}"
                refuse(
                    asked, f"stage {held.name} is computed at {spot.axis.name}{where}, and a stage "
                    "has no storage per lane",
                    f"Attach {held.name} outside {lanes.name}, or vectorize a loop of "
                    f"{held.name}.", before, axis,
                )  # fmt: skip


def _check_windows(state: State, before: State, asked: str, axis: Axis | None) -> None:
    """Refuse concurrent writes to a stage that is stored outside the loop that computes it."""
    for name, stage in state.stages.items():
        if stage.store is None or not isinstance(stage.attach, At):
            continue
        why, old = store_refusal(state, stage), before.stages[name]
        if why is None or store_refusal(before, old) is not None:
            continue
        if old.store is stage.store:
            refuse(asked, "it would make an earlier store_at illegal", why, before, axis)
        raise ScheduleError(why)


def fixed(stage: Stage, before: State, asked: str) -> None:
    """Refuse to compute ``stage`` whole if a vectorized or unrolled loop has a symbolic extent."""
    for axis in stage.leaf:
        kind = stage.kinds.get(axis, "")
        if kind in ("vectorize", "unroll") and isinstance(axis.extent, Expr):
            refuse(
                asked, f"{axis.name} is {participle(kind)}, but at root its extent is "
                f"{axis.extent}, which is known only at run time",
                f"Split {axis.name} by a constant before it is {participle(kind)}.", before, axis,
            )  # fmt: skip


__all__ = ["fixed", "keep"]
