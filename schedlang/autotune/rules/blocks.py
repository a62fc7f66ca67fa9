"""The rule for a GPU reduction with reused operands: shared tiles, and sums in each thread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.autotune.rules.access import labels
from schedlang.autotune.rules.nest import fused
from schedlang.autotune.rules.scan_steps import data_axes
from schedlang.autotune.rules.shapes import Shape, choose_shape, reused, shapes
from schedlang.autotune.rules.sketch import Sketch
from schedlang.autotune.rules.widths import lanes_of_rows
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis

DEPTHS = (4, 8, 16, 32)
# the most unrolled multiply-adds of a thread in one step of the outer reduction loop
MOST_UNROLLED = 1024


def blocked(sketch: Sketch, tensor: Tensor, head: Tensor, positions: Sequence[int]) -> None:
    """Compute one tile of ``tensor`` per block, inside ``head``: its reader, or ``tensor`` itself.

    ``positions`` gives for each data axis of ``head`` the corresponding axis of ``tensor``, or -1.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    reads = sketch.reads(tensor)
    reread = {r.tensor for r in reads if reused(sketch, tensor, r)}
    found = shapes(sketch, tensor, head, positions)
    knobs.require(bool(found), "no tile has the number of threads of a block")
    parts = choose_shape(sketch, name, head, found)
    operands = list(dict.fromkeys(
        r.tensor for r in reads
        if r.tensor in reread and r.tensor in sketch.op(tensor).input_tensors
    ))  # fmt: skip
    shared = []
    for operand, label in labels(operands).items():
        if knobs.choice(f"{name}.shared.{label}", [True, False]):
            shared.append(s.cache_read(operand, "shared", [tensor]))
    local = s.cache_write(tensor, "local") if head is tensor else tensor
    local_copies = []
    if bool(shared) and knobs.choice(f"{name}.local", [True, False]):
        local_copies = [s.cache_read(t, "local", [local]) for t in shared]
    thread, count = _loops(sketch, head, parts)
    if head is not tensor:
        s[local].set_scope("local")
    s[local].compute_at(s[head], thread)
    outer, inner = _reduction(sketch, local, parts)
    for copy in local_copies:
        s[copy].compute_at(s[local], inner)
        for axis in s[copy].op.axis:
            s[copy].unroll(axis)
    for tile in shared:
        s[tile].compute_at(s[local], outer)
        _fetch(sketch, tile, count, sketch.extents([outer])[0] > 1)
    sketch.done |= {head, local, *local_copies, *shared}
    sketch.set_nest(head, (), count)


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
    """Split the longest reduction axis; return the outer loop and the inner loop.

    Shared tiles are computed at the outer loop, local copies at the inner one.
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
    if sums * depth <= MOST_UNROLLED and knobs.choice(f"{name}.unroll", [True, False]):
        s[local].unroll(inner)
    return outer, inner


def _fetch(sketch: Sketch, tile: Tensor, threads: int, repeated: bool) -> None:
    """Make all threads of a block fetch a shared tile together.

    A ``repeated`` fetch may gain from double buffering.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tile)
    op = s[tile].op
    if len(op.axis) > 1 and knobs.choice(f"{name}.transposed", [False, True]):
        s[tile].transform_layout(lambda *dims: (*dims[1:], dims[0]))
    if repeated and knobs.choice(f"{name}.double_buffer", [False, True]):
        s[tile].double_buffer()
    element = fused(s, tile, list(op.axis))
    lanes = knobs.choice(f"{name}.lanes", lanes_of_rows([tile]))
    if lanes > 1:
        element, lane = s[tile].split(element, factor=lanes)
        s[tile].vectorize(lane)
    _, thread = s[tile].split(element, factor=threads)
    s[tile].bind(thread, "threadIdx.x")


__all__ = ["blocked"]
