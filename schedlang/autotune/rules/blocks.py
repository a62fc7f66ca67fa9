"""A reduction whose operands are read again, on a GPU: shared tiles, and sums in each thread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.autotune.rules.access import labels
from schedlang.autotune.rules.nest import fused
from schedlang.autotune.rules.scan_steps import data_axes
from schedlang.autotune.rules.shapes import Shape, asked, reused, shapes
from schedlang.autotune.rules.sketch import Sketch
from schedlang.autotune.rules.widths import lanes_of_rows
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis

DEPTHS = (4, 8, 16, 32)
# unrolled multiply-adds of a thread in one step of the outer reduction loop
MOST_WRITTEN = 1024


def blocked(sketch: Sketch, tensor: Tensor, head: Tensor, positions: Sequence[int]) -> None:
    """Compute ``tensor`` a tile a block inside ``head``, which reads it or is ``tensor`` itself."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    reads = sketch.reads(tensor)
    again = {r.tensor for r in reads if reused(sketch, tensor, r)}
    found = shapes(sketch, tensor, head, positions)
    knobs.require(bool(found), "no tile has the number of threads of a block")
    parts = asked(sketch, name, head, found)
    operands = list(dict.fromkeys(
        r.tensor for r in reads
        if r.tensor in again and r.tensor in sketch.op(tensor).input_tensors
    ))  # fmt: skip
    shared = []
    for operand, label in labels(operands).items():
        if knobs.choice(f"{name}.shared.{label}", [True, False]):
            shared.append(s.cache_read(operand, "shared", [tensor]))
    local = s.cache_write(tensor, "local") if head is tensor else tensor
    near = []
    if bool(shared) and knobs.choice(f"{name}.local", [True, False]):
        near = [s.cache_read(t, "local", [local]) for t in shared]
    thread, count = _loops(sketch, head, parts)
    if head is not tensor:
        s[local].set_scope("local")
    s[local].compute_at(s[head], thread)
    outer, inner = _reduction(sketch, local, parts)
    for copy in near:
        s[copy].compute_at(s[local], inner)
        for axis in s[copy].op.axis:
            s[copy].unroll(axis)
    for tile in shared:
        s[tile].compute_at(s[local], outer)
        _fetch(sketch, tile, count, sketch.extents([outer])[0] > 1)
    sketch.done |= {head, local, *near, *shared}
    sketch.leads(head, (), count)


def _loops(sketch: Sketch, head: Tensor, parts: Shape) -> tuple[Axis, int]:
    """Split ``head`` into blocks, virtual threads and threads; return the thread loop."""
    s = sketch.s
    moving = data_axes(sketch, head)
    blocks: dict[int, Axis] = {n: a for n, a in enumerate(s[head].op.axis) if a in moving}
    virtual, threads, each = [], [], []
    for part in parts:
        axis = blocks[part.at]
        blocks[part.at], inside = s[head].split(axis, factor=part.size)
        if part.virtual > 1:
            over, inside = s[head].split(inside, nparts=part.virtual)
            virtual.append(over)
        thread, mine = s[head].split(inside, factor=part.each)
        threads.append(thread)
        each.append(mine)
    s[head].reorder(*blocks.values(), *virtual, *threads, *each)
    block = fused(s, head, list(blocks.values()))
    thread = fused(s, head, threads)
    s[head].bind(block, "blockIdx.x")
    for axis in virtual:
        s[head].bind(axis, "vthread")
    s[head].bind(thread, "threadIdx.x")
    for axis in each:
        s[head].unroll(axis)
    return thread, math.prod(p.threads for p in parts)


def _reduction(sketch: Sketch, local: Tensor, parts: Shape) -> tuple[Axis, Axis]:
    """Return the longest reduction axis in steps.

    The loop over steps, and the innermost loop in one.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(local)
    op = s[local].op
    sizes = sketch.extents(op.reduce_axis)
    longest = sizes.index(max(sizes))
    depth = knobs.choice(
        f"{name}.depth", [d for d in DEPTHS if d <= sizes[longest]] or [sizes[longest]]
    )
    outer, inner = s[local].split(op.reduce_axis[longest], factor=depth)
    others = [a for n, a in enumerate(op.reduce_axis) if n != longest]
    s[local].reorder(outer, *others, inner, *op.axis)
    sums = math.prod(p.each * p.virtual for p in parts)
    for axis in op.axis:
        s[local].unroll(axis)
    if sums * depth <= MOST_WRITTEN and knobs.choice(f"{name}.unroll", [True, False]):
        s[local].unroll(inner)
    return outer, inner


def _fetch(sketch: Sketch, tile: Tensor, threads: int, again: bool) -> None:
    """Make all threads of a block fetch a shared tile together.

    ``again`` says that the tile is fetched repeatedly, so that double buffering may pay.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tile)
    op = s[tile].op
    if len(op.axis) > 1 and knobs.choice(f"{name}.transposed", [False, True]):
        s[tile].transform_layout(lambda *dims: (*dims[1:], dims[0]))
    if again and knobs.choice(f"{name}.double_buffer", [False, True]):
        s[tile].double_buffer()
    element = fused(s, tile, list(op.axis))
    lanes = knobs.choice(f"{name}.lanes", lanes_of_rows([tile]))
    if lanes > 1:
        element, lane = s[tile].split(element, factor=lanes)
        s[tile].vectorize(lane)
    _, thread = s[tile].split(element, factor=threads)
    s[tile].bind(thread, "threadIdx.x")


__all__ = ["blocked"]
