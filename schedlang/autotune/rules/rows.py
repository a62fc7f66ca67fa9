"""The rule for a reduction along contiguous memory: partial results in vector lanes."""

from __future__ import annotations

from math import prod

from schedlang.autotune.rules.lanes import partial_in_lanes, vector_counts
from schedlang.autotune.rules.nest import Loop, blocks, fused, in_order, in_threads, split_tile
from schedlang.autotune.rules.parts import (
    LEAST_RUN,
    fills_lanes,
    first,
    run_of,
    whole_vectors,
)  # fmt: skip
from schedlang.autotune.rules.sketch import Home, Sketch, Spot
from schedlang.compute.tensor import Tensor

MOST_ROWS = 4


def along_memory(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether the innermost reduction axis is long and vector loads serve its reads."""
    op = sketch.op(tensor)
    if not op.reduce_axis:
        return False
    axis, width = op.reduce_axis[-1], sketch.width(tensor)
    return fills_lanes(sketch, tensor, axis) and sketch.extents([axis])[0] >= LEAST_RUN * width


def along_run(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether the last reduction axes, fused, are a long contiguous run."""
    length = prod(sketch.extents(run_of(sketch, tensor)))
    return length >= LEAST_RUN * sketch.width(tensor)


def rows(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> None:
    """Factor the reduction into vector lanes with rfactor, and compute the partial results nearby.

    ``spot`` is the loop at which the reduction is computed, if not at root.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    width = sketch.width(tensor)
    work = sketch.evaluations(tensor)
    *_, along = sketch.op(tensor).reduce_axis
    least_steps = 1
    if not along_memory(sketch, tensor):
        # a fused run: each lane needs several steps to be worth the step that combines it
        along, least_steps = fused(s, tensor, run_of(sketch, tensor)), LEAST_RUN
    length, fixed = sketch.extents([along])[0], isinstance(along.extent, int)
    counts = whole_vectors(sketch, tensor, along, vector_counts(length // least_steps, width))
    lanes = width * knobs.choice(f"{name}.vectors", counts)
    _, lane = s[tensor].split(along, factor=lanes)
    partial = first(s.rfactor(tensor, lane, factor_axis=len(s[tensor].op.axis)))
    s[partial].set_scope("local")
    sketch.done |= {tensor, partial}
    whole = {len(sketch.op(partial).reduce_axis) - 1: length // lanes} if fixed else {}
    if spot is not None:
        for stage in (partial, tensor):
            sketch.attach(stage, spot)
            sketch.home[stage] = Home(spot.nest, {}, spot.nest.levels.index(spot.level) + 1)
        partial_in_lanes(sketch, partial, whole=whole)
        return
    at = sketch.last(tensor)
    points = sketch.sizes_of(tensor)[at:][:1] or (1,)
    together = [n for n in range(1, MOST_ROWS + 1) if points[0] % n == 0]
    strip = knobs.choice(f"{name}.rows", together)
    fits = strip * (lanes // width) < sketch.target.vector_registers
    knobs.require(fits, "more partial results than registers")
    outer, inner = split_tile(sketch, tensor, {at: strip} if strip > 1 else {})
    # a single result has no loop: make one, at which partial results are computed
    loops = blocks(sketch, tensor, outer) or [Loop(fused(s, tensor, []), at, 1)]
    in_order(s, tensor, [*(x.axis for x in loops), *inner.values()])
    levels = in_threads(sketch, tensor, loops, work)
    nest = sketch.set_nest(tensor, levels)
    sketch.home[partial] = Home(nest, dict(enumerate(s[partial].op.axis[:-1])))
    if levels:
        s[partial].compute_at(s[tensor], levels[-1].loop)
    partial_in_lanes(sketch, partial, at if strip > 1 else None, whole)
