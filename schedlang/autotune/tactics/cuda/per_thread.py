"""One GPU thread per element, or per few adjacent elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.attach import attach
from schedlang.autotune.tactics.cuda.access_widths import (
    LANES,
    LANES_MOVE,
    lane_counts,
    lanes_of_rows,
)
from schedlang.autotune.tactics.cuda.occupancy import BLOCK_THREADS, THREADS
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, last
from schedlang.autotune.tactics.loops import first, fuse_loops, in_blocks
from schedlang.autotune.tactics.scheduled import (
    AttachPoint,
    Level,
    OuterLoops,
    Scheduled,
)
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

ACCESS_LANES = Knob(
    "C.lanes",
    LANES,
    "the number of neighbouring elements, or of reduction steps, in one access of a thread",
    LANES_MOVE,
)
ROWS = Knob("C.rows", (True, False), "give each block one row", Moves(rank=26, start=last))
KNOBS = (BLOCK_THREADS, ACCESS_LANES, ROWS)


def per_thread(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Give each thread one element, or a few adjacent ones.

    If the stage reads a reduction of each row, as softmax does, a block may take one row.
    """
    tensor, name = stage.tensor, stage.name
    axes = stage.data_axes
    scheduled = Scheduled(frozenset({tensor}))
    if stage.attached is not None:
        _inside_block(s, stage, stage.attached)
        return scheduled
    if not axes:
        s[tensor].bind(fuse_loops(s, tensor, axes), "threadIdx.x")
        return scheduled
    # trailing axes of one element stay inside a thread
    axes = axes[: stage.last + 1 - stage.time_axes]
    threads = knobs.choice(f"{name}.threads", _threads(stage, axes))
    if len(axes) > 1 and _reads_rows(stage) and knobs.choice(f"{name}.rows", [True, False]):
        nest = _row_per_block(s, stage, axes, threads)
    else:
        lanes = knobs.choice(f"{name}.lanes", _lanes(stage))
        scheduled = scheduled.join(_in_blocks(s, stage, axes, threads, lanes))
        nest = OuterLoops(tensor, ())
    return scheduled.join(stage.after(s).placed(nest))


def _inside_block(s: Schedule, stage: StageFacts, point: AttachPoint) -> None:
    """Share the elements among the threads of a block, in shared memory."""
    tensor = stage.tensor
    attach(s, stage, point)
    s[tensor].set_scope("shared")
    _, thread = s[tensor].split(fuse_loops(s, tensor, stage.data_axes), factor=point.nest.threads)
    s[tensor].bind(thread, "threadIdx.x")


def _row_per_block(
    s: Schedule, stage: StageFacts, axes: Sequence[Axis], threads: int
) -> OuterLoops:
    """Give each block one row, whose elements its threads share."""
    tensor = stage.tensor
    threads = min(threads, stage.extents(axes[-1:])[0])
    row = fuse_loops(s, tensor, axes[:-1])
    _, thread = s[tensor].split(axes[-1], factor=threads)
    s[tensor].bind(row, "blockIdx.x")
    s[tensor].bind(thread, "threadIdx.x")
    along = tuple(n for n, axis in enumerate(stage.op.axis) if axis in axes[:-1])
    counts = stage.extents(axes[:-1])
    return OuterLoops(tensor, (Level(row, along, math.prod(counts), counts),), threads)


def _in_blocks(
    s: Schedule, stage: StageFacts, axes: list[Axis], threads: int, lanes: int
) -> Scheduled:
    """Fuse the elements into one loop over blocks and threads; a thread has ``lanes`` of them."""
    tensor, last, lane = stage.tensor, axes[-1], None
    sums = _sums(s, stage) if lanes > 1 and stage.is_reduction else None
    if lanes > 1:
        last, lane = s[tensor].split(last, factor=lanes)
    thread = in_blocks(s, tensor, [*axes[:-1], last], threads)
    if lane is not None:
        s[tensor].vectorize(lane)
    if sums is None:
        return Scheduled()
    s[sums.tensor].compute_at(s[tensor], thread)
    return Scheduled(frozenset({sums.tensor}))


def _threads(stage: StageFacts, axes: Sequence[Axis]) -> list[int]:
    """Return the block sizes that leave few threads idle, or one block of all elements."""
    length = math.prod(stage.extents(axes))
    return [n for n in THREADS if stage.little_padding(length, n)] or [length]


def _lanes(stage: StageFacts) -> list[int]:
    """Return the numbers of adjacent elements that a thread can read and write in one access."""
    op, last = stage.op, stage.op.axis[stage.last]
    if not isinstance(last.extent, int):
        return [1]
    if stage.is_reduction and stage.stage.leaf != (*op.axis, *op.reduce_axis):
        # sums in lanes need cache_write, which a stage with steps does not allow
        return [1]
    rows = [r.tensor for r in stage.reads if r.contiguous(last)]
    others = [r.tensor.dtype for r in stage.reads]
    fits = {*lanes_of_rows([*op.outputs, *rows], long=True)} & {*lane_counts(others)}
    return sorted(n for n in fits if last.extent % n == 0)


def _sums(s: Schedule, stage: StageFacts) -> StageFacts:
    """Keep the sums of a thread's lanes in registers with cache_write; return their stage."""
    kept = stage.after(s, first(s.cache_write(stage.tensor, "local")))
    s[kept.tensor].reorder(*kept.op.reduce_axis, *kept.op.axis)
    s[kept.tensor].vectorize(kept.op.axis[stage.last])
    return kept


def _reads_rows(stage: StageFacts) -> bool:
    """Return whether the stage reads one reduction result in all elements of a row."""
    axis, flow = stage.op.axis[stage.last], stage.flow
    return any(
        r.tensor in flow.stages and flow.stage(r.tensor).is_reduction and r.fixed(axis)
        for r in stage.reads
    )
