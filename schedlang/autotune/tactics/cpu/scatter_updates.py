"""A scatter whose updates go to the result itself, in the lanes and threads of its rows if any."""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cpu.lanes import LANES, ROW, choose_lanes
from schedlang.autotune.tactics.cpu.nest import LEAST_STEPS
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import Knob
from schedlang.autotune.tactics.loops import fuse_loops, in_order, innermost
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

COLUMNS = Knob("C.columns", (True, False), "give each thread columns of the rows that it updates")


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the stage is a scatter."""
    return stage.is_scatter


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Vectorize rows, and share rows, or columns of them, among threads."""
    tensor, name, axes = stage.tensor, stage.name, stage.op.axis
    lanes = row_lanes(stage, knobs)
    before = _before(stage)
    much = stage.evaluations >= LEAST_STEPS and stage.problem.threads > 1
    if much and any(is_long(a) for a in before):
        if lanes:
            rows_in_lanes(s, stage, lanes)
        s[tensor].parallel(fuse_loops(s, tensor, before))
    elif much and lanes and stage.extents(axes[-1:])[0] >= lanes * stage.problem.threads and (
        knobs.choice(f"{name}.columns", [True, False])
    ):  # fmt: skip
        own, rest = s[tensor].split(axes[-1], nparts=stage.problem.threads)
        over, lane = s[tensor].split(rest, factor=lanes)
        inside = (a for a in s[tensor].leaf_axes if a not in (own, over, lane))
        in_order(s, tensor, [own, *inside, over, lane])
        s[tensor].vectorize(lane)
        s[tensor].parallel(own)
    elif lanes:
        rows_in_lanes(s, stage, lanes)
    return Scheduled(frozenset({tensor}))


def _before(stage: StageFacts) -> list[Axis]:
    """Return the data axes of the domain that are outside of all others."""
    scattered = stage.op.scattered
    axes = list(stage.op.axis)
    first = next((k for k, a in enumerate(axes) if a in scattered), len(axes))
    return axes[:first]


def row_lanes(stage: StageFacts, knobs: Knobs) -> int:
    """Choose the lanes along the last dimension, if the updates run along it; else return 0."""
    op = stage.op
    if not op.axis or op.axis[-1] in op.scattered or len(_before(stage)) == len(op.axis):
        return 0
    return choose_lanes(stage, op.axis[-1:], ROW, knobs)


def rows_in_lanes(s: Schedule, stage: StageFacts, lanes: int) -> None:
    """Vectorize the last dimension of a stage, inside of its other loops."""
    view = s[stage.tensor]
    over, lane = view.split(stage.op.axis[-1], factor=lanes)
    innermost(s, stage.tensor, over, lane)
    view.vectorize(lane)


TACTIC = Tactic(
    "updates", "update the elements of a scatter where they are", applies, apply,
    knobs=(LANES, COLUMNS), alone=True,
)  # fmt: skip
