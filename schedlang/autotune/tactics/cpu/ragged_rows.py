"""A reduction whose ranges are read from a tensor, such as the rows of a sparse matrix.

Each range has a loop of its own. So results of several ranges are never computed together, as their
loops would run over the whole box. Lanes go along other results, or along the steps of long ranges.
"""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.attach import inside
from schedlang.autotune.tactics.cpu import nest as outer_loops
from schedlang.autotune.tactics.cpu.lanes import (
    LANES,
    ROW,
    choose_lanes,
    in_lanes,
    partial_in_lanes,
    partial_sums,
)
from schedlang.autotune.tactics.cpu.nest import nest_of
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.read import Read
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.schedule.schedule import Schedule

STEPS = Knob(
    "C.row_vectors",
    (0, 1, 2, 4),
    "the number of vectors of partial sums of a range; 0 adds one step after the other",
)


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether elements are the ends of a range."""
    if not stage.is_reduction or stage.is_scatter or stage.is_scan_step:
        return False
    return has_read_ends(stage)


def has_read_ends(stage: StageFacts) -> bool:
    """Return whether elements are ends of the ranges of reduction axes."""
    return any(isinstance(node, Read) for node in postorder(_ends(stage)))


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Compute each range by loops of its own, in threads and with lanes if possible."""
    tensor, op = stage.tensor, stage.op
    scheduled = Scheduled(frozenset({tensor}))
    if len(op.axis) == stage.time_axes:
        return scheduled
    work = min(stage.evaluations, stage.problem.least)
    last = stage.last
    ends = set(postorder(_ends(stage)))
    lanes = 0 if op.axis[last] in ends else choose_lanes(stage, [op.axis[last]], ROW, knobs)
    if stage.attached is not None:
        if lanes:
            in_lanes(s, stage, lanes)
        return scheduled
    partial = None if lanes else _partial(s, stage, knobs)
    combined = stage if partial is None else stage.after(s)
    tile = {last: lanes} if lanes else {}
    nest, inner = nest_of(s, combined, tile, combined.op.reduce_axis, work, knobs)
    if lanes:
        s[tensor].vectorize(inner[last])
    if partial is None:
        return combined.placed(nest)
    inside(s, partial.tensor, nest)
    partial_in_lanes(s, partial)
    return combined.placed(nest).join(partial.placed(nest, partial.op.axis[:-1]))


def _partial(s: Schedule, stage: StageFacts, knobs: Knobs) -> StageFacts | None:
    """Factor the last reduction axis into lanes, if a knob asks for it."""
    vectors = knobs.choice(f"{stage.name}.row_vectors", [0, 1, 2, 4])
    if not vectors:
        return None
    return partial_sums(s, stage, stage.op.reduce_axis[-1], vectors * stage.width)


def _ends(stage: StageFacts) -> list[Expr]:
    """Return the ends of the ranges of the reduction axes."""
    bounds = [end for axis in stage.op.reduce_axis for end in axis.bounds or ()]
    return [end for end in bounds if isinstance(end, Expr) and not isinstance(end, Axis)]


TACTIC = Tactic(
    "ragged",
    "compute each range that is read from a tensor by a loop of its own, with other results or "
    "partial sums in lanes",
    applies,
    apply,
    knobs=(LANES, STEPS, *outer_loops.KNOBS),
    alone=True,
)
