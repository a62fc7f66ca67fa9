"""Stages without a tile of sums: neighbours in lanes where that is possible, blocks in threads."""

from __future__ import annotations

from schedlang.autotune.rules.lanes import in_lanes
from schedlang.autotune.rules.nest import blocks, in_threads, split_tile
from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor

VECTORS = (1, 2, 4)
# a row of at most so many vectors is one vector operation of emitted source
ROW = 4


def points(sketch: Sketch, tensor: Tensor, root: bool) -> None:
    """The loops of ``tensor``, the last data axis in lanes; ``root``: it stands alone."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    op = sketch.op(tensor)
    width = sketch.width(tensor)
    sketch.done.add(tensor)
    if len(op.axis) == sketch.held(tensor):
        return
    last = len(op.axis) - 1
    length = sketch.extents(op.axis[-1:])[0]
    lanes = 0
    if length > 1 and not _scattered(sketch, tensor):
        wide = [v * width for v in VECTORS if v * width < length]
        if length <= ROW * width and isinstance(op.axis[-1].extent, int):
            wide.append(length)
        lanes = knobs.choice(f"{name}.lanes", wide or [width])
    if not root:
        if lanes:
            in_lanes(sketch, tensor, lanes)
        return
    outer, inner = split_tile(sketch, tensor, {last: lanes} if lanes else {})
    loops = blocks(sketch, tensor, outer)
    s[tensor].reorder(*(x.axis for x in loops), *op.reduce_axis, *inner.values())
    levels = in_threads(sketch, tensor, loops) if loops else []
    if lanes:
        s[tensor].vectorize(inner[last])
    sketch.leads(tensor, levels)


def _scattered(sketch: Sketch, tensor: Tensor) -> bool:
    """Whether each neighbour reads from far away in everything that is read."""
    op = sketch.op(tensor)
    axis = op.axis[-1]
    reads = [r for r in sketch.reads(tensor) if not r.fixed(axis)]
    return bool(reads) and not any(r.steps(axis)[-1] for r in reads if r.indices)
