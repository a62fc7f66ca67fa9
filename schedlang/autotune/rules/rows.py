"""Reductions along memory: partial results in the lanes of vectors, and by threads where that is
all the parallelism there is."""

from __future__ import annotations

import math

from schedlang.autotune.rules.nest import blocks, fused, in_threads, split_tile
from schedlang.autotune.rules.sketch import Home, Level, Sketch, Spot
from schedlang.compute.tensor import Tensor

VECTORS = (1, 2, 4, 8)
MOST_ROWS = 4
# parts a thread: enough to even out threads that others interrupt
PARTS = (1, 4)
# a reduction shorter than so many vectors is not worth partial results
LEAST = 2


def along_memory(sketch: Sketch, tensor: Tensor) -> bool:
    """Whether the innermost reduction axis goes through memory element by element."""
    op = sketch.op(tensor)
    if len(op.outputs) > 1 or not op.reduce_axis:
        return False
    axis = op.reduce_axis[-1]
    reads = sketch.reads(tensor)
    width = sketch.target.vector_width(tensor.dtype)
    fits = all(r.fixed(axis) or r.contiguous(axis) for r in reads)
    moving = any(r.contiguous(axis) for r in reads)
    return fits and moving and sketch.extents([axis])[0] >= LEAST * width


def rows(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> None:
    """Partial sums in lanes, computed where the sum is; ``spot`` is the loop that has it."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    width = sketch.target.vector_width(tensor.dtype)
    data = math.prod(sketch.extents(sketch.op(tensor).axis))
    many = [
        v for v in VECTORS if v * width <= sketch.extents(sketch.op(tensor).reduce_axis[-1:])[0]
    ]
    lanes = width * knobs.choice(f"{name}.vectors", many)
    if spot is None and (data < sketch.threads or not sketch.op(tensor).axis):
        _by_threads(sketch, tensor, lanes)
        return
    _, lane = s[tensor].split(s[tensor].op.reduce_axis[-1], factor=lanes)
    partial = s.rfactor(tensor, lane, factor_axis=len(s[tensor].op.axis))
    s[partial].set_scope("local")
    sketch.done |= {tensor, partial}
    if spot is not None:
        for stage in (partial, tensor):
            sketch.attach(stage, spot)
            sketch.home[stage] = Home(spot.nest, {}, spot.nest.levels.index(spot.level) + 1)
        _in_lanes(sketch, partial, None)
        return
    *_, last = s[tensor].op.axis
    together = [n for n in range(1, MOST_ROWS + 1) if sketch.extents([last])[0] % n == 0]
    strip = knobs.choice(f"{name}.rows", together)
    fits = strip * (lanes // width) < sketch.target.vector_registers
    knobs.require(fits, "more partial results than registers")
    at = len(s[tensor].op.axis) - 1
    outer, inner = split_tile(sketch, tensor, {at: strip} if strip > 1 else {})
    loops = blocks(sketch, tensor, outer)
    s[tensor].reorder(*(x.axis for x in loops), *inner.values())
    levels = in_threads(sketch, tensor, loops)
    nest = sketch.leads(tensor, levels)
    sketch.home[partial] = Home(nest, dict(enumerate(s[partial].op.axis[:-1])))
    if levels:
        s[partial].compute_at(s[tensor], levels[-1].loop)
    _in_lanes(sketch, partial, at if strip > 1 else None)


def _in_lanes(sketch: Sketch, partial: Tensor, row: int | None) -> None:
    """The last axis of partial results in lanes, one axis of rows written out."""
    s = sketch.s
    op = s[partial].op
    lane = op.axis[-1]
    written = [op.axis[row]] if row is not None else []
    rest = [a for a in op.axis if a is not lane and a not in written]
    s[partial].reorder(*rest, *s[partial].op.reduce_axis, *written, lane)
    for axis in written:
        s[partial].unroll(axis)
    s[partial].vectorize(lane)


def _by_threads(sketch: Sketch, tensor: Tensor, lanes: int) -> None:
    """Each thread sums a part of all, in lanes; what is left is one number a part."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    whole = fused(s, tensor, s[tensor].op.reduce_axis)
    parts = sketch.threads * knobs.choice(f"{name}.parts", list(PARTS))
    part, _ = s[tensor].split(whole, nparts=parts)
    partial = s.rfactor(tensor, part)
    _, lane = s[partial].split(s[partial].op.reduce_axis[-1], factor=lanes)
    in_lanes = s.rfactor(partial, lane, factor_axis=len(s[partial].op.axis))
    outer = s[partial].op.axis[0]
    s[partial].parallel(outer)
    s[in_lanes].set_scope("local")
    s[in_lanes].compute_at(s[partial], outer)
    sketch.done |= {tensor, partial, in_lanes}
    nest = sketch.leads(partial, [Level(outer, (0,), parts)])
    sketch.home[in_lanes] = Home(nest, dict(enumerate(s[in_lanes].op.axis[:-1])))
    _in_lanes(sketch, in_lanes, None)
