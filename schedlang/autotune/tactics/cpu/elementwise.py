"""Each element on its own: neighbouring ones in vector lanes if possible, blocks and threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from schedlang.analysis.past_caches import bypasses_caches
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.attach import inherited_placement
from schedlang.autotune.tactics.choosing import choosing_axes, chosen_axes
from schedlang.autotune.tactics.cpu import nest as outer_loops
from schedlang.autotune.tactics.cpu import parallel_reduction
from schedlang.autotune.tactics.cpu.lanes import LANES, ROW, choose_lanes, in_lanes
from schedlang.autotune.tactics.cpu.nest import OuterLoops, nest_of
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.read import reads
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder
from schedlang.schedule.schedule import Schedule
from schedlang.state.state import NONTEMPORAL

# the bytes of a page; addresses that differ by pages share their lowest bits
# measured: doubling 4096 x 4096 elements past the caches in 4 rows at a time took 4 times as long
# as row by row, and 2304 x 2304 elements, whose rows are not whole pages, 0.8 of it (AVX2)
PAGE = 4096


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the stage has no reduction, or no earlier tactic is surely better.

    Parts may be worse if there are enough results for all threads. Lanes along reduction steps may
    be worse if they would read with a stride or a remainder, and lanes over results would not.
    """
    if stage.is_scan_step or not stage.is_reduction:
        return True
    known = others.before("points")
    if known == ["parts"]:
        return not parallel_reduction.too_few(stage)
    if known == ["rows"]:
        over_results = bool(stage.op.axis) and not _contiguous_steps(stage)
        return over_results and not _is_scattered(stage)
    return not known


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Schedule the loops of a stage, with its contiguous data axis vectorized if possible.

    An axis that chooses between values is unrolled. Elements that a producer makes by one choice
    are computed together.
    """
    tensor, op = stage.tensor, stage.op
    scheduled = Scheduled(frozenset({tensor}))
    if len(op.axis) == stage.time_axes:
        return scheduled
    last, root = stage.last, stage.attached is None
    joined = _joined_axes(stage, last) if root else [last]
    row = [op.axis[at] for at in joined]
    lanes = 0 if _is_scattered(stage) else choose_lanes(stage, row, ROW, knobs)
    choosing = [at for at in choosing_axes(stage) if at not in joined]
    if not root:
        if lanes:
            in_lanes(s, stage, lanes)
        for at in choosing:
            s[tensor].unroll(op.axis[at])
        place = inherited_placement(stage)
        return scheduled if place is None else scheduled.join(Scheduled(placements={tensor: place}))
    tile = {at: stage.extents([op.axis[at]])[0] for at in choosing}
    chosen = {at: n for at, n in chosen_axes(stage).items() if at not in tile and at not in joined}
    # rows of a tile, such as y % 4, are few and short
    choosing += [at for at, n in chosen.items() if n < stage.extents([op.axis[at]])[0]]
    tile |= chosen
    tile |= {last: lanes} if lanes else {}
    nest, inner = nest_of(s, stage, tile, op.reduce_axis, stage.evaluations, knobs, joined)
    for at in choosing:
        s[tensor].unroll(inner[at])
    if lanes:
        s[tensor].vectorize(inner[last])
    streams = lanes and lanes % stage.width == 0 and _stores_past_caches(stage)
    if nest.levels and streams and not _meet(stage, _in_turns(nest, inner, joined)):
        s[tensor].pragma(nest.levels[0].loop, NONTEMPORAL)
    return stage.placed(nest)


def _stores_past_caches(stage: StageFacts) -> bool:
    """Return whether the stage stores results that had better bypass the caches."""
    if not stage.is_output or stage.is_reduction or stage.is_scatter:
        return False
    read = [read.tensor for read in stage.reads]
    problem = stage.problem
    return bypasses_caches(stage.stage.outputs, read, problem.target, problem.threads)


def _in_turns(nest: OuterLoops, inner: Mapping[int, Axis], joined: Sequence[int]) -> set[int]:
    """Return the axes along which a core stores rows in turns: inside a loop along rows."""
    at_row = [n for n, level in enumerate(nest.levels) if not {*level.along}.isdisjoint(joined)]
    within = nest.levels[at_row[0] + 1 :] if at_row else ()
    return {at for level in within for at in level.along} - {*joined} | {*inner} - {*joined}


def _meet(stage: StageFacts, tiled: Iterable[int]) -> bool:
    """Return whether rows of a tile, along the axes ``tiled``, are whole pages apart.

    Their stores would meet in the few lines in which a core gathers what bypasses the caches.
    """
    sizes = [itemsize(tensor.dtype) for tensor in stage.stage.outputs]
    apart = [prod(stage.extents(stage.op.axis[at + 1 :])) for at in tiled]
    return any(rows * size % PAGE == 0 for rows in apart for size in sizes)


def _joined_axes(stage: StageFacts, last: int) -> list[int]:
    """Return the data axes to fuse into one loop: usually only the ``last`` one.

    If that fills no vector, axes before it are added as long as all reads stay contiguous.
    """
    axes = stage.op.axis
    short = isinstance(axes[last].extent, int) and axes[last].extent < stage.width
    first, reads = last, stage.reads
    if not short or _uses_axis_value(stage):
        return [last]
    while first > stage.time_axes:
        row = axes[first - 1 : last + 1]
        if not all(r.element_by_element(row) or all(map(r.fixed, row)) for r in reads):
            break
        first -= 1
    return list(range(first, last + 1))


def _uses_axis_value(stage: StageFacts) -> bool:
    """Return whether the body uses the value of a data axis, not only as an index."""
    waiting = [stage.tensor]
    # each stage once: a chain of ``x + x`` has a power of two of paths
    seen = {stage.tensor}
    for reader in waiting:
        roots = stage.flow.stage(reader).op.roots
        own = list(reads(roots))
        rest = postorder(roots, {id(read) for read in own})
        if any(isinstance(node, Axis) and not node.is_reduce for node in rest):
            return True
        more = {r.tensor: None for r in own if r.tensor in stage.flow.decided.inlined}
        waiting += [tensor for tensor in more if tensor not in seen]
        seen |= more.keys()
    return False


def _contiguous_steps(stage: StageFacts) -> bool:
    """Return whether steps of the last reduction axis read adjacent elements or the same one."""
    axis = stage.op.reduce_axis[-1]
    return all(r.fixed(axis) or r.contiguous(axis) for r in stage.reads)


def _is_scattered(stage: StageFacts) -> bool:
    """Return whether adjacent lanes read elements that are far apart, in every read that moves."""
    axis, width = stage.op.axis[stage.last], stage.width
    moving = [r for r in stage.reads if not r.fixed(axis)]
    return bool(moving) and not any(
        r.steps(axis)[r.innermost] or r.near(axis, width) for r in moving if r.indices
    )


TACTIC = Tactic(
    "points",
    "compute each element on its own, with neighbouring elements in lanes",
    applies,
    apply,
    knobs=(LANES, *outer_loops.KNOBS),
)
