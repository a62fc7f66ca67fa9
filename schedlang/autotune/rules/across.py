"""The rules for GPU reductions across the threads of a block, or across many blocks."""

from __future__ import annotations

import math

from schedlang.autotune.rules.elements import elements
from schedlang.autotune.rules.nest import fused
from schedlang.autotune.rules.parts import first
from schedlang.autotune.rules.scan_steps import data_axes
from schedlang.autotune.rules.shapes import THREADS, reused
from schedlang.autotune.rules.sketch import Sketch, Spot
from schedlang.autotune.rules.widths import lane_counts
from schedlang.compute.tensor import Tensor

# the fewest threads that share a reduction
WARP = 32
# fewer results than this do not fill a GPU with one thread each
FEW = 1 << 14
# numbers of partial results per result
COUNTS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
# the fewest and the most partial results in all, and the fewest steps of each: with a block per
# partial result, and with a thread per partial result
BLOCKS = (128, 1 << 12, 256)
COLUMNS = (1 << 13, 1 << 18, 16)


def across(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> None:
    """Reduce the last reduction axis across the threads of a block, or all axes if it is short."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    sketch.done.add(tensor)
    reads = sketch.reads(tensor)
    rest = s[tensor].op.reduce_axis[-1]
    length = sketch.extents([rest])[0]
    if length < WARP:
        length = steps(sketch, tensor)
        rest = fused(s, tensor, s[tensor].op.reduce_axis)
    if spot is not None:
        sketch.attach(tensor, spot)
        threads = spot.nest.threads
    else:
        threads = knobs.choice(f"{name}.threads", [t for t in THREADS if t <= length] or [WARP])
    lanes = [n for n in lane_counts(r.tensor.dtype for r in reads) if n * threads <= length]
    count = knobs.choice(f"{name}.lanes", lanes or [1])
    lane = None
    if count > 1:
        rest, lane = s[tensor].split(rest, factor=count)
    outer, inner = s[tensor].split(rest, factor=threads)
    s[tensor].bind(inner, "threadIdx.x")
    if lane is not None:
        s[tensor].reorder(outer, inner, lane)
        s[tensor].unroll(lane)
    if spot is None:
        s[tensor].bind(fused(s, tensor, data_axes(sketch, tensor)), "blockIdx.x")
        sketch.set_nest(tensor, ())


def partial_results(sketch: Sketch, tensor: Tensor) -> None:
    """Split a long reduction with few results by rfactor; a small second kernel combines the parts.

    Each block computes one partial result. If adjacent elements belong to different results, each
    thread does.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    reduce = elements if _columns(sketch, tensor) else across
    count = knobs.choice(f"{name}.count", partial_counts(sketch, tensor))
    part, _ = s[tensor].split(fused(s, tensor, s[tensor].op.reduce_axis), nparts=count)
    partial = first(s.rfactor(tensor, part))
    reduce(sketch, partial, None)
    combine = elements if count < WARP else across
    combine(sketch, tensor, None)


def partial_counts(sketch: Sketch, tensor: Tensor) -> list[int]:
    """Return the numbers of partial results per result that fill a GPU, none if it is full."""
    results = math.prod(sketch.extents(sketch.op(tensor).axis))
    least, most, each = COLUMNS if _columns(sketch, tensor) else BLOCKS
    return [
        n for n in COUNTS
        if least <= n * results <= most and n * each <= steps(sketch, tensor)
    ]  # fmt: skip


def coalesced(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether threads that share a result read elements without reuse contiguously."""
    last = sketch.op(tensor).reduce_axis[-1]
    reads = sketch.reads(tensor)
    return any(read.contiguous(last) for read in reads if not reused(sketch, tensor, read))


def steps(sketch: Sketch, tensor: Tensor) -> int:
    """Return the number of reduction steps of one result."""
    return math.prod(sketch.extents(sketch.op(tensor).reduce_axis))


def _columns(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether adjacent elements in memory belong to different results."""
    op = sketch.op(tensor)
    if not op.axis:
        return False
    last = op.axis[sketch.last(tensor)]
    if sketch.extents([last])[0] < WARP:
        return False
    return any(
        read.contiguous(last) and not all(map(read.fixed, op.reduce_axis))
        for read in sketch.reads(tensor)
    )
