"""A scatter into few elements: each thread updates copies of its own, which are then combined."""

from __future__ import annotations

from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cpu.lanes import LANES
from schedlang.autotune.tactics.cpu.parallel_reduction import (
    PARTS_PER_THREAD,
    combine,
    parts_that_fit,
)
from schedlang.autotune.tactics.cpu.scatter_updates import row_lanes, rows_in_lanes
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob
from schedlang.autotune.tactics.loops import first, innermost
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.expr import dtypes
from schedlang.schedule.schedule import Schedule
from schedlang.state.scattered import overwrites

# copies that a thread updates in turn, so that an update seldom waits for the one before
# a search decides among them
COPIES = (1, 4, 8)
# the most bytes of these copies, which should stay in the first-level cache
# nobody has measured this value
MOST_BYTES = 1 << 15
# the fewest updates of each copy
# nobody has measured this value
LEAST_UPDATES = 16
COPIES_IN_TURN = Knob("C.copies", COPIES, "the number of copies that a thread updates in turn")


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the updates are many, and copies of the result for each thread are few."""
    here = stage.is_scatter and stage.attached is None
    return here and not overwrites(stage.stage) and bool(part_counts(stage))


def part_counts(stage: StageFacts) -> list[int]:
    """Return the possible numbers of parts per thread: copies must not outnumber updates."""
    steps = stage.extents(stage.op.reduce_axis[:1])
    return parts_that_fit(
        stage,
        lambda count: min(steps, default=0) >= count and stage.results * count <= stage.evaluations,
    )


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Split the domain into parts with rfactor, and these among copies that take turns."""
    tensor, name, axes = stage.tensor, stage.name, stage.op.reduce_axis
    count = stage.problem.threads * knobs.choice(f"{name}.parts", part_counts(stage))
    lanes = row_lanes(stage, knobs)
    copies = 1 if lanes else knobs.choice(f"{name}.copies", _copies(stage, count))
    part, inside = s[tensor].split(axes[0], nparts=count)
    if copies > 1:
        s[tensor].split(inside if len(axes) == 1 else axes[-1], factor=copies)
    partial = stage.after(s, first(s.rfactor(tensor, part)))
    scheduled = {tensor, partial.tensor}
    if copies > 1:
        turn = first(s.rfactor(partial.tensor, partial.op.reduce_axis[-1]))
        scheduled.add(turn)
        s[turn].compute_at(s[partial.tensor], s[partial.tensor].op.axis[0])
        copy = s[turn].op.axis[0]
        innermost(s, turn, copy)
        s[turn].unroll(copy)
    elif lanes:
        rows_in_lanes(s, partial, lanes)
    s[partial.tensor].parallel(s[partial.tensor].op.axis[0])
    combine(s, stage.after(s), count, 0)
    return Scheduled(frozenset(scheduled))


def _copies(stage: StageFacts, count: int) -> list[int]:
    """Return the numbers of copies that fit into the cache and have updates enough."""
    axes = stage.op.reduce_axis
    bytes_ = stage.results * sum(dtypes.itemsize(t.dtype) for t in stage.stage.outputs)
    each = prod(stage.extents(axes)) // count
    last = stage.extents(axes[-1:])[0] // (count if len(axes) == 1 else 1)
    fixed = all(isinstance(a.extent, int) for a in (*axes, *stage.op.axis))
    fits = [n for n in COPIES if n * bytes_ <= MOST_BYTES and n * LEAST_UPDATES <= each]
    return [n for n in fits if n <= last] if fixed and fits else [1]


TACTIC = Tactic(
    "copies", "let each thread update copies of the result, then combine them", applies, apply,
    knobs=(PARTS_PER_THREAD, COPIES_IN_TURN, LANES), alone=True,
)  # fmt: skip
