"""A reduction across the threads of a block."""

from __future__ import annotations

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.attach import attach
from schedlang.autotune.tactics.cuda.access_widths import lane_counts
from schedlang.autotune.tactics.cuda.occupancy import (
    BLOCK_THREADS,
    FEW,
    THREADS,
    needs_parts,
    results,
)
from schedlang.autotune.tactics.cuda.per_thread import ACCESS_LANES
from schedlang.autotune.tactics.cuda.tile_shapes import is_reused
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.loops import fuse_loops
from schedlang.autotune.tactics.scheduled import OuterLoops, Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.gpu_lowering.counters import WARP
from schedlang.schedule.schedule import Schedule


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether the threads of a block may share each result.

    Beside a tile, they may if the last reduction axis is long, and if there are few results or the
    threads read contiguously.
    """
    if not stage.is_reduction:
        return False
    if stage.attached is None and "tile" in others:
        long = stage.extents(stage.op.reduce_axis[-1:])[0] >= WARP
        worth = long and (results(stage) < FEW or _is_coalesced(stage))
    else:
        worth = stage.reduction_steps >= WARP
    return worth and not needs_parts(stage, others)


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Reduce the last reduction axis across the threads of a block, or all axes if it is short."""
    tensor, name, point = stage.tensor, stage.name, stage.attached
    rest = stage.op.reduce_axis[-1]
    length = stage.extents([rest])[0]
    if length < WARP:
        length = stage.reduction_steps
        rest = fuse_loops(s, tensor, stage.op.reduce_axis)
    if point is not None:
        attach(s, stage, point)
        threads = point.nest.threads
    else:
        threads = knobs.choice(f"{name}.threads", [t for t in THREADS if t <= length] or [WARP])
    known = lane_counts(read.tensor.dtype for read in stage.reads)
    count = knobs.choice(f"{name}.lanes", [n for n in known if n * threads <= length] or [1])
    lane = None
    if count > 1:
        rest, lane = s[tensor].split(rest, factor=count)
    outer, inner = s[tensor].split(rest, factor=threads)
    s[tensor].bind(inner, "threadIdx.x")
    if lane is not None:
        s[tensor].reorder(outer, inner, lane)
        s[tensor].unroll(lane)
    if point is not None:
        return Scheduled(frozenset({tensor}))
    s[tensor].bind(fuse_loops(s, tensor, stage.data_axes), "blockIdx.x")
    return stage.placed(OuterLoops(tensor, ()))


def _is_coalesced(stage: StageFacts) -> bool:
    """Return whether threads that share a result read elements without reuse contiguously."""
    last = stage.op.reduce_axis[-1]
    return any(read.contiguous(last) for read in stage.reads if not is_reused(stage, read))


TACTIC = Tactic(
    "across", "the threads of a block reduce each result together", applies, apply,
    knobs=(BLOCK_THREADS, ACCESS_LANES),
)  # fmt: skip
