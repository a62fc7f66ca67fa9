"""A reduction along contiguous memory: partial results in vector lanes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.attach import attach, inherited_placement, inside
from schedlang.autotune.tactics.cpu import nest as outer_loops
from schedlang.autotune.tactics.cpu import parallel_reduction, row_dots
from schedlang.autotune.tactics.cpu.lanes import (
    PARTIAL_VECTORS,
    partial_in_lanes,
    partial_sums,
    vector_counts,
)
from schedlang.autotune.tactics.cpu.nest import Loop, blocks, in_threads, split_tile
from schedlang.autotune.tactics.cpu.row_dots import RowDot
from schedlang.autotune.tactics.cpu.runs import LEAST_RUN, fills_lanes, run_of, whole_vectors
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, last
from schedlang.autotune.tactics.loops import fuse_loops, in_order
from schedlang.autotune.tactics.scheduled import AttachPoint, OuterLoops, Placement, Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.schedule.schedule import Schedule

# the most results computed together
# nobody has measured this value
MOST_ROWS = 4


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the lanes may go along reduction steps.

    Short runs of several axes are worth it only if no other tactic has lanes.
    """
    if not stage.is_reduction or stage.is_scan_step:
        return False
    if _along_memory(stage):
        return True
    lanes = "tile" in others or "steps" in others
    return not lanes and not _among_threads(stage) and _along_run(stage)


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Factor the reduction into vector lanes with rfactor, and compute the partial results nearby.

    With fewer results than threads, these share the reduction too.
    """
    if _among_threads(stage):
        return parallel_reduction.apply(s, stage, knobs)
    dot = row_dots.choose(stage, knobs)
    if dot is not None:
        return _by_instruction(s, stage, dot, knobs)
    tensor, name, width = stage.tensor, stage.name, stage.width
    *_, along = stage.op.reduce_axis
    least_steps = 1
    if not _along_memory(stage):
        # a fused run: each lane needs several steps to be worth the step that combines it
        along, least_steps = fuse_loops(s, tensor, run_of(stage)), LEAST_RUN
    length, fixed = stage.extents([along])[0], isinstance(along.extent, int)
    counts = whole_vectors(stage, along, vector_counts(length // least_steps, width))
    lanes = width * knobs.choice(f"{name}.vectors", counts)
    partial = partial_sums(s, stage, along, lanes)
    combined = stage.after(s)
    whole = {len(partial.op.reduce_axis) - 1: length // lanes} if fixed else {}
    if stage.attached is not None:
        return _compute_inside(s, partial, combined, stage.attached, whole, lanes // width, knobs)
    at = combined.last
    points = combined.lengths[at:][:1] or (1,)
    strip = knobs.choice(f"{name}.rows", _together(stage, points[0], lanes // width))
    scheduled = _combine(s, combined, partial, strip, stage.evaluations, knobs)
    partial_in_lanes(s, partial, at if strip > 1 else None, whole)
    return scheduled


def _combine(
    s: Schedule, combined: StageFacts, partial: StageFacts, strip: int, work: int, knobs: Knobs
) -> Scheduled:
    """Compute partial results for a ``strip`` of results at a time, and combine them.

    ``work`` is as for :func:`in_threads`.
    """
    tensor, at = combined.tensor, combined.last
    outer, inner = split_tile(s, combined, {at: strip} if strip > 1 else {})
    # a single result has no loop: make one, at which partial results are computed
    loops = blocks(s, combined, outer, knobs) or [Loop(fuse_loops(s, tensor, []), at, 1)]
    in_order(s, tensor, [*(x.axis for x in loops), *inner.values()])
    levels = in_threads(s, combined, loops, work, knobs)
    nest = OuterLoops(tensor, tuple(levels))
    inside(s, partial.tensor, nest)
    return combined.placed(nest).join(partial.placed(nest, partial.op.axis[:-1]))


def _by_instruction(s: Schedule, stage: StageFacts, dot: RowDot, knobs: Knobs) -> Scheduled:
    """Compute the partial sums of a result at a time by an instruction of the processor."""
    (along,), scheduled, shifted = stage.op.reduce_axis, Scheduled(), None
    if dot.shift:
        shifted, starts = s.shift_operand(stage.tensor, dot.operand, dot.shift)
        scheduled = apply(s, stage.after(s, starts), knobs)
    work, stage = stage.evaluations, stage.after(s)
    partial = row_dots.partial_sums(s, stage, dot, knobs)
    # one row, as several at once compete for sets of the cache, and its sums need not wait
    scheduled = scheduled.join(_combine(s, stage.after(s), partial, 1, work, knobs))
    row_dots.tensorize(s, partial, dot, shifted, stage.extents([along])[0])
    own = frozenset() if shifted is None else frozenset({shifted})
    return scheduled.join(Scheduled(own))


def _compute_inside(
    s: Schedule, partial: StageFacts, combined: StageFacts, point: AttachPoint,
    whole: dict[int, int], vectors: int, knobs: Knobs,
) -> Scheduled:  # fmt: skip
    """Compute the partial results and their combination at a loop of their reader."""
    for stage in (partial, combined):
        attach(s, stage, point)
    depth = point.nest.levels.index(point.level) + 1
    place = inherited_placement(combined) or Placement(point.nest, {}, depth)
    at = {position: combined.op.axis.index(axis) for position, axis in place.along.items()}
    row = combined.last if combined.last in at.values() else None
    if row is not None:
        counts = point.nest.iterations(point.level)
        pieces = prod(counts.get(position, 1) for position, n in at.items() if n == row)
        rows = -(-combined.lengths[row] // pieces)
        together = _together(combined, rows, vectors)
        strip = knobs.choice(f"{combined.name}.rows", together) if len(together) > 1 else 1
        partial_in_lanes(s, partial, row, whole, strip)
    else:
        partial_in_lanes(s, partial, whole=whole)
    along = {position: partial.op.axis[n] for position, n in at.items()}
    both = (partial.tensor, combined.tensor)
    return Scheduled(
        frozenset(both),
        placements={combined.tensor: place, partial.tensor: replace(place, along=along)},
    )


def _together(stage: StageFacts, rows: int, vectors: int) -> list[int]:
    """Return the numbers of results whose partial ones, in some vectors each, fit the registers."""
    most = max(1, (stage.problem.target.vector_registers - 1) // vectors)
    return [n for n in range(1, min(MOST_ROWS, most) + 1) if rows % n == 0]


def _among_threads(stage: StageFacts) -> bool:
    """Return whether threads share the steps, as there are fewer results than threads."""
    return parallel_reduction.too_few(stage) and parallel_reduction.splits(stage)


def _along_memory(stage: StageFacts) -> bool:
    """Return whether the innermost reduction axis is long and vector loads serve its reads."""
    if not stage.op.reduce_axis:
        return False
    axis = stage.op.reduce_axis[-1]
    return fills_lanes(stage, axis) and stage.extents([axis])[0] >= LEAST_RUN * stage.width


def _along_run(stage: StageFacts) -> bool:
    """Return whether the last reduction axes, fused, are a long contiguous run."""
    return prod(stage.extents(run_of(stage))) >= LEAST_RUN * stage.width


TACTIC = Tactic(
    "rows",
    "vectorize the reduction along contiguous memory, with partial sums in the lanes; with fewer "
    "results than threads, split the reduction among threads too",
    applies, apply,
    knobs=(
        row_dots.KNOB,
        PARTIAL_VECTORS,
        Knob(
            "C.rows", tuple(range(1, MOST_ROWS + 1)), "the number of results computed together",
            # several rows at once, as one row is too few bytes in flight
            Moves(rank=26, start=last),
        ),
        parallel_reduction.PARTS_PER_THREAD,
        *outer_loops.KNOBS,
    ),
)  # fmt: skip
