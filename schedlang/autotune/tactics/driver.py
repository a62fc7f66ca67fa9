"""The driver of the search space: for each stage, one of the tactics that apply."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics import attach, epilogue, inline
from schedlang.autotune.tactics.facts import Dataflow, Problem, StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.moves import KnobMoves
from schedlang.autotune.tactics.outcomes import Outcomes
from schedlang.autotune.tactics.scan_stages import scan_stages
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Registry
from schedlang.compute.tensor import Tensor
from schedlang.schedule.schedule import Schedule
from schedlang.schedule.step_memo import MemoSchedule
from schedlang.state.state import At

KNOBS = (
    Knob(
        "C.how",
        "tactics",
        "the tactic that computes the stage: see the tables below",
        Moves(rank=2, structure=True),
    ),
)


# the knobs that are asked for on all targets, in the order of docs/knobs.md
SHARED = (*inline.KNOBS, *attach.KNOBS, *epilogue.KNOBS, *KNOBS)


def moves_of(registry: Registry) -> KnobMoves:
    """Return how the knobs of candidates from the tactics of a registry move."""
    return KnobMoves((*SHARED, *registry.knobs))


def schedule_stages(registry: Registry, s: Schedule, problem: Problem, knobs: Knobs) -> Scheduled:
    """Schedule all stages, consumers before producers, and return what was decided."""
    flow = _inline(s, Dataflow(problem, s.state), knobs)
    for tensor in reversed(flow.stages):
        if _waits(flow, tensor):
            flow = _schedule(registry, s, flow, tensor, knobs)
    return flow.decided


def schedule_again(registry: Registry, s: MemoSchedule, known: Outcomes, knobs: Knobs) -> None:
    """Schedule all stages as :func:`schedule_stages` does, with what is ``known`` of them."""
    flow = known.after(known.flow, None, s, knobs, partial(_inline, s, known.flow, knobs))
    for tensor in reversed(flow.stages):
        if _waits(flow, tensor):
            decide = partial(_schedule, registry, s, flow, tensor, knobs)
            flow = known.after(flow, tensor, s, knobs, decide)


def _inline(s: Schedule, flow: Dataflow, knobs: Knobs) -> Dataflow:
    """Return the dataflow after the choice of stages that are computed inline."""
    flow = flow.then(s, inline.inline(s, flow, knobs))
    return replace(flow, scan_stages=scan_stages(flow))


def _waits(flow: Dataflow, tensor: Tensor) -> bool:
    """Return whether the stage of ``tensor`` is not scheduled yet."""
    return tensor not in flow.decided.inlined and tensor not in flow.decided.stages


def _schedule(
    registry: Registry, s: Schedule, flow: Dataflow, tensor: Tensor, knobs: Knobs
) -> Dataflow:
    """Schedule one stage, and return the dataflow after that."""
    flow = flow.then(s, attach.attach_point(flow.stage(tensor), knobs))
    stage = flow.stage(tensor)
    decided = _fuse_reduction(registry, s, stage, knobs) or _apply_chosen(registry, s, stage, knobs)
    _attach(s, stage)
    return flow.then(s, decided)


def _fuse_reduction(
    registry: Registry, s: Schedule, stage: StageFacts, knobs: Knobs
) -> Scheduled | None:
    """Compute a reduction inside the stage, its reader, if there is one and its knob says so."""
    if registry.fusion is None:
        return None
    for reduction, positions in epilogue.fusible(stage, registry.fusion.fits):
        if knobs.choice(f"{reduction.name}.fuse", [True, False]):
            return registry.fusion.apply(s, stage, reduction, positions, knobs)
    return None


def _apply_chosen(registry: Registry, s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Compute the stage by one of the tactics that apply."""
    options = registry.options(stage)
    knobs.require(bool(options), f"no tactic for {registry.kind} applies to {stage.name}")
    if len(options) > 1 or not options[0].implied:
        by_name = {tactic.name: tactic for tactic in options}
        chosen = by_name[knobs.choice(f"{stage.name}.how", [t.name for t in options])]
    else:
        chosen = options[0]
    return chosen.apply(s, stage, knobs)


def _attach(s: Schedule, stage: StageFacts) -> None:
    """Compute the stage at its loop, unless its tactic did that in between its own steps."""
    if not isinstance(s.state.stages[stage.name].attach, At):
        attach.attach(s, stage, stage.attached)
