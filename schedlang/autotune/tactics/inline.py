"""The choice of stages that are computed inline."""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.choosing import choosing_axes
from schedlang.autotune.tactics.facts import Dataflow, StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.compute.read import Read
from schedlang.schedule.schedule import Schedule

# the most times that an inlined element is computed, without and with math functions
# nobody has measured these values
MOST, MOST_CALLS = 16, 4
KNOBS = (
    Knob(
        "C.inline",
        (False, True),
        "inline the stage into its readers",
        Moves(rank=0, structure=True),
    ),
)


def inline(s: Schedule, flow: Dataflow, knobs: Knobs) -> Scheduled:
    """Inline stages whose elements are each read once; of others, let a knob decide.

    A stage keeps its own loops if it is a reduction, if its elements are read too often for their
    cost, or if inlining it would exceed the work of a candidate worth measuring.
    """
    decided = Scheduled()
    for tensor in flow.stages:
        stage = flow.stage(tensor)
        often = _times(stage) if _inlinable(stage) else None
        if often is None:
            continue
        copy = isinstance(stage.op.body[0], Read)
        if not copy and often > (MOST_CALLS if stage.math_calls else MOST):
            continue
        more = _more(stage) if often > 1 else 0
        if not flow.problem.worth_measuring(flow.decided.recomputed + more):
            continue
        # the first option is what costs least in most cases
        options = [True, False] if _keeps_rows(stage) else [False, True]
        if often <= 1 or knobs.choice(f"{stage.name}.inline", options):
            s[tensor].compute_inline()
            inlined = Scheduled(inlined=frozenset({tensor}), recomputed=more)
            decided, flow = decided.join(inlined), flow.then(s, inlined)
    return decided


def _keeps_rows(stage: StageFacts) -> bool:
    """Return whether a stage is a copy whose neighbouring elements are neighbours in its source."""
    last = stage.op.axis[stage.last] if stage.op.axis else None
    return (
        last is not None
        and isinstance(stage.op.body[0], Read)
        and all(read.contiguous(last) for read in stage.reads)
    )


def _inlinable(stage: StageFacts) -> bool:
    """Return whether a stage can be inlined at all."""
    several = len(stage.op.outputs) > 1
    if choosing_axes(stage):
        # in its reader, no unrolled axis would settle the choice
        return False
    if stage.feeds_call:
        return False
    return not (stage.is_reduction or several or stage.is_output or stage.is_scan_step)


def _more(stage: StageFacts) -> int:
    """Return the additional operations of computing a stage inline."""
    before = stage.flow.decided.inlined
    after = before | {stage.tensor}
    readers = [stage.flow.stage(reader) for reader in stage.consumers]
    grown = sum(reader.work(after) - reader.work(before) for reader in readers)
    return grown - stage.work(before)


def _times(stage: StageFacts) -> float:
    """Return how often each element is read on average."""
    count = 0
    for reader in map(stage.flow.stage, stage.consumers):
        count += reader.evaluations * sum(a.tensor is stage.tensor for a in reader.reads)
    return count / stage.results
