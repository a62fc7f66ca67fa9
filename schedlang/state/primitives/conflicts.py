"""Checks that a step does not break a request of an earlier step.

Lowering checks whatever depends on later attachments.
"""

from __future__ import annotations

from schedlang.arrays.shapes import is_one
from schedlang.errors import ScheduleError
from schedlang.expr.nodes import Axis, Expr
from schedlang.state.atomics import meets_across_threads, operation
from schedlang.state.cuts import broken_cut
from schedlang.state.placement import store_refusal
from schedlang.state.prefetches import concurrent_loop, fetches, is_inside
from schedlang.state.primitives.arguments import names
from schedlang.state.primitives.refusal import refuse
from schedlang.state.primitives.scan_loops import check_loops_of_scan
from schedlang.state.relations import position
from schedlang.state.scattered import apart, keeps_result, overwrites, scatters
from schedlang.state.serpentine import out_of_order
from schedlang.state.state import TENSORIZE, THREADS, At, Stage, State, participle


def without_conflict(state: State, before: State, name: str, axis: Axis | None = None) -> State:
    """Return ``state``; refuse the step if stage ``name`` breaks an earlier request in it.

    A request that the stage broke ``before`` as well is not reported. The message shows the nest
    before the step, with a mark at ``axis``.
    """
    stage = state.stages[name]
    _check_cuts(state, stage, before, axis)
    _check_lanes(state, stage, before, axis)
    _check_instructions(stage, before, axis)
    if scatters(stage.op):
        _check_updates(state, stage, before, axis)
    if stage.is_scan:
        check_loops_of_scan(state, stage, before, axis)
    _check_order(stage, before)
    _check_windows(state, before, axis)
    return with_prefetches(state, before)


def with_prefetches(state: State, before: State) -> State:
    """Return ``state``; refuse a step after which a loop no longer reads what it prefetches."""
    hints = ((s, hint) for s in state.stages.values() for hint in s.prefetches)
    for stage, hint in hints:
        old, tensor = before.stages[stage.name], hint.tensor
        asked = f"stage {stage.name} prefetches {tensor.name}"
        if not is_inside(stage, hint):
            refuse(
                f"{asked} at {hint.at.name}, which would no longer be inside of {hint.axis.name}",
                "Take this step before the prefetch.",
                before,
                hint.at,
            )
        loop = concurrent_loop(stage, hint)
        if loop is not None:
            refuse(
                f"{asked} at {hint.at.name}, but the iterations of {loop.name} would run at once, "
                "and could not take the lines in order",
                "Prefetch at a loop around it.",
                before,
                loop,
            )
        for axis in hint.loops:
            if fetches(state, stage, tensor, axis) or not fetches(before, old, tensor, axis):
                continue
            refuse(
                f"{asked}, but {axis.name} would no longer read {tensor.name} from outside the "
                "loop",
                f"Take this step before the prefetch, and prefetch at {axis.name} what it then "
                "reads.",
                before,
                axis,
            )
    return state


def _check_cuts(state: State, stage: Stage, before: State, axis: Axis | None) -> None:
    """Refuse a step after which a requested cut of a tail is impossible."""
    if isinstance(stage.attach, At):
        # whether its tails can be cut depends on its boxes; see schedule/attached_cuts.py
        return
    broken, old = broken_cut(stage), before.stages[stage.name]
    if broken is None or (not isinstance(old.attach, At) and broken_cut(old) is not None):
        return
    split, why, hint = broken
    call = f"split({split.parent.name}, ..., tail='cut')"
    if old.made_from(split.parent) is None:
        refuse(f"its tail cannot be cut: {why}", hint, before, axis)
    refuse(f"the tail of {call} could no longer be cut: {why}", hint, before, axis)


def _check_instructions(stage: Stage, before: State, axis: Axis | None) -> None:
    """Refuse a step after which an instruction no longer replaces the loops that it matched."""
    old = before.stages[stage.name]
    for at, instruction in old.instructions.items():
        inside, now = (
            [a for a in s.leaf[position(s.leaf, at) + 1 :] if not is_one(a.extent)]
            for s in (old, stage)
        )
        asked = f"the instruction {instruction} at {at.name}"
        if {*inside} != {*now}:
            refuse(
                f"{asked} would replace {names([at, *now])}, and it computes "
                f"{names([at, *inside])}",
                "Take this step before tensorize.",
                before,
                axis,
            )
        kind = next((stage.kinds[a] for a in now if a in stage.kinds), "")
        if kind:
            refuse(
                f"{asked} replaces all loops inside of it, so that none can be {participle(kind)}",
                "Annotate loops outside of the instruction alone.",
                before,
                axis,
            )


def _check_lanes(state: State, stage: Stage, before: State, axis: Axis | None) -> None:
    """Refuse a vectorized loop around another, an instruction, threads or an attached stage."""
    lanes = next((a for a in stage.leaf if stage.kinds.get(a) == "vectorize"), None)
    if lanes is None:
        return
    place = position(stage.leaf, lanes)
    for inner in stage.leaf[place + 1 :]:
        kind = stage.kinds.get(inner, "")
        single = is_one(lanes.extent) or is_one(inner.extent)
        if kind == "vectorize" and not single:
            refuse(
                f"{inner.name} and {lanes.name} would both be vectorized, and only one loop "
                "of a stage can be",
                "Vectorize one of them and unroll the other, or fuse them first.",
                before,
                axis,
            )
        if kind == TENSORIZE and not is_one(lanes.extent):
            refuse(
                f"the instruction at {inner.name} would be inside the vectorized loop "
                f"{lanes.name}, and it has vectors of its own",
                f"Unroll {lanes.name} instead, or reorder it inside of the instruction's loops.",
                before,
                axis,
            )
        if kind == "parallel" and not single:
            refuse(
                f"the parallel loop {inner.name} would be inside the vectorized loop "
                f"{lanes.name}, whose iterations are the lanes of one thread",
                f"Reorder first, so that {inner.name} is outside {lanes.name}.",
                before,
                axis,
            )
    for held in state.attached(stage):
        loop = held.attach
        if isinstance(loop, At) and loop.stage == stage.name:
            if position(stage.leaf, loop.axis) >= place:
                where = "" if loop.axis is lanes else f", inside the vectorized loop {lanes.name}"
                refuse(
                    f"stage {held.name} is computed at {loop.axis.name}{where}, and a stage "
                    "has no storage per lane",
                    f"Attach {held.name} outside {lanes.name}, or vectorize a loop of {held.name}.",
                    before,
                    axis,
                )


def _check_updates(state: State, stage: Stage, before: State, axis: Axis | None) -> None:
    """Refuse a step after which concurrent updates of a scatter meet, or the wrong one remains."""
    old, op = before.stages[stage.name], stage.op
    atomic = scatters(op) and op.reducer is not None and operation(op.reducer) is not None
    for loop in stage.reduce_leaves if stage.kinds == old.kinds else ():
        kind = stage.kinds.get(loop, "")
        meets = kind in ("vectorize", "parallel", "vthread") and not apart(stage, loop)
        if kind in THREADS and not atomic:
            meets = meets_across_threads(stage, loop)
        if meets:
            refuse(
                f"{loop.name} is {participle(kind)}, and its iterations could then update the same "
                "element at once",
                f"Keep the loops that it shares elements with outside of {loop.name}.",
                before,
                axis,
            )
    if overwrites(stage) and not keeps_result(stage) and keeps_result(old):
        refuse(
            "the last update in the order of the domain must remain, and this step changes that "
            "order",
            "Keep the loops over the domain in their order; split them as you like.",
            before,
            axis,
        )


def _check_order(stage: Stage, before: State) -> None:
    """Refuse a step after which a loop that goes back and forth needs its order."""
    conflict = out_of_order(stage)
    if conflict is not None and out_of_order(before.stages[stage.name]) is None:
        axis, why, hint = conflict
        refuse(why, hint, before, axis)


def _check_windows(state: State, before: State, axis: Axis | None) -> None:
    """Refuse concurrent writes to a stage that is stored outside the loop that computes it."""
    for name, stage in state.stages.items():
        if stage.store is None or not isinstance(stage.attach, At):
            continue
        why, old = store_refusal(state, stage), before.stages[name]
        if why is None or store_refusal(before, old) is not None:
            continue
        if old.store is stage.store:
            refuse("it would make an earlier store_at illegal", why, before, axis)
        raise ScheduleError(why)


def check_fixed_extents(stage: Stage, before: State) -> None:
    """Refuse to compute ``stage`` whole if a vectorized or unrolled loop has a symbolic extent."""
    for axis in stage.leaf:
        kind = stage.kinds.get(axis, "")
        if kind in ("vectorize", "unroll") and isinstance(axis.extent, Expr):
            refuse(
                f"{axis.name} is {participle(kind)}, but at root its extent is "
                f"{axis.extent}, which is known only at run time",
                f"Split {axis.name} by a constant before it is {participle(kind)}.",
                before,
                axis,
            )
