"""The driver of the search space: for each stage, one of the tactics that apply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics import attach, epilogue, inline
from schedlang.autotune.tactics.facts import Dataflow, Problem, StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.moves import KnobMoves
from schedlang.autotune.tactics.outcomes import Outcomes
from schedlang.autotune.tactics.scan_stages import scan_stages
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Fusion, Registry
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


# the knobs that are asked for on all targets, in the order of docs/reference/knobs.md
SHARED = (*inline.KNOBS, *attach.KNOBS, *epilogue.KNOBS, *KNOBS)


def moves_of(registry: Registry) -> KnobMoves:
    """Return how the knobs of candidates from the tactics of a registry move."""
    return KnobMoves((*SHARED, *registry.knobs))


# a way to compute a stage: a tactic, or a fusion with a reduction
Way = Callable[[Schedule, StageFacts, Knobs], Scheduled]
# returns what a function decides, which depends on some facts and the answers of knobs
Once = Callable[[tuple[object, ...], Callable[[], Any]], Any]


def schedule_stages(registry: Registry, s: Schedule, problem: Problem, knobs: Knobs) -> Scheduled:
    """Schedule all stages, consumers before producers, and return what was decided."""
    flow = Dataflow(problem, s.state)
    return _schedule_all(registry, s, flow, knobs, lambda facts, decide: decide())


def schedule_again(registry: Registry, s: MemoSchedule, known: Outcomes, knobs: Knobs) -> Scheduled:
    """Schedule all stages as :func:`schedule_stages` does, with what is ``known`` about them."""

    def once(facts: tuple[object, ...], decide: Callable[[], Any]) -> Any:
        return known.once(facts, s, knobs, decide)

    return _schedule_all(registry, s, known.flow, knobs, once)


def _schedule_all(
    registry: Registry, s: Schedule, flow: Dataflow, knobs: Knobs, once: Once
) -> Scheduled:
    flow = once((flow,), partial(_inline_stages, s, flow, knobs))
    for tensor in reversed(flow.in_order):
        if tensor in flow.decided.inlined or tensor in flow.decided.stages:
            continue
        if tensor not in flow.stages:
            flow = once((flow, tensor), partial(_place_call, s, flow, tensor, knobs))
            continue
        flow = once((flow, tensor), partial(_choose_attach_point, s, flow, tensor, knobs))
        stage = flow.stage(tensor)
        way = once((flow, stage), partial(_way, registry, stage, knobs))
        flow = once((flow, stage, way), partial(_compute_stage, s, stage, way, knobs))
    return flow.decided


def _inline_stages(s: Schedule, flow: Dataflow, knobs: Knobs) -> Dataflow:
    """Return the dataflow after the choice of stages that are computed inline."""
    flow = flow.then(s, inline.inline(s, flow, knobs))
    return replace(flow, scan_stages=scan_stages(flow))


def _choose_attach_point(s: Schedule, flow: Dataflow, tensor: Tensor, knobs: Knobs) -> Dataflow:
    """Return the dataflow after the choice of the loop at which a stage is computed."""
    return flow.then(s, attach.attach_point(flow.stage(tensor), knobs))


def _place_call(s: Schedule, flow: Dataflow, tensor: Tensor, knobs: Knobs) -> Dataflow:
    """Return the dataflow after the choice of the loop at which a user's function is called."""
    flow = flow.then(s, attach.call_point(flow.stage(tensor), knobs))
    _attach(s, flow.stage(tensor))
    return flow.then(s)


def _way(registry: Registry, stage: StageFacts, knobs: Knobs) -> Way:
    """Return how the stage is computed.

    A reduction is computed inside the stage, its reader, if there is one and its knob says so.
    Otherwise the stage is computed by one of the tactics that apply.
    """
    if (fusion := registry.fusion) is not None:
        for reduction, positions in epilogue.fusible(stage, fusion.fits):
            if knobs.choice(f"{reduction.name}.fuse", [True, False]):
                return partial(_fuse, fusion, reduction, positions)
    options = registry.options(stage)
    knobs.require(bool(options), f"no tactic for {registry.kind} applies to {stage.name}")
    if len(options) > 1 or not options[0].implied:
        by_name = {tactic.name: tactic for tactic in options}
        return by_name[knobs.choice(f"{stage.name}.how", [t.name for t in options])].apply
    return options[0].apply


def _fuse(
    fusion: Fusion, reduction: StageFacts, positions: Sequence[int], s: Schedule,
    stage: StageFacts, knobs: Knobs,
) -> Scheduled:  # fmt: skip
    """Compute a reduction inside the stage, its reader."""
    return fusion.apply(s, stage, reduction, positions, knobs)


def _compute_stage(s: Schedule, stage: StageFacts, way: Way, knobs: Knobs) -> Dataflow:
    """Return the dataflow after the steps that compute a stage in some way."""
    decided = way(s, stage, knobs)
    _attach(s, stage)
    return stage.flow.then(s, decided)


def _attach(s: Schedule, stage: StageFacts) -> None:
    """Compute the stage at its loop, unless its tactic did that in between its own steps."""
    if not isinstance(s.state.stages[stage.name].attach, At):
        attach.attach(s, stage, stage.attached)
