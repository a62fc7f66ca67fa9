"""Stages without a tile of sums: neighbours in lanes where that is possible, blocks in threads."""

from __future__ import annotations

from schedlang.autotune.rules.nest import blocks, in_threads, split_tile
from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis

VECTORS = (1, 2, 4)
# a row of at most so many vectors is one vector operation of emitted source
ROW = 4


def points(sketch: Sketch, tensor: Tensor, root: bool) -> None:
    """The loops of ``tensor``, the last data axis in lanes; ``root``: it stands alone."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    op = sketch.op(tensor)
    width = sketch.target.vector_width(tensor.dtype)
    sketch.done.add(tensor)
    if not op.axis:
        return
    last = len(op.axis) - 1
    length = sketch.extents(op.axis[-1:])[0]
    lanes = 0
    if length > 1 and not _scattered(sketch, tensor):
        wide = [v * width for v in VECTORS if v * width < length]
        if length <= ROW * width and isinstance(op.axis[-1].extent, int):
            wide.append(length)
        lanes = knobs.choice(f"{name}.lanes", wide or [width])
    reduce = list(s[tensor].op.reduce_axis)
    if not root:
        if lanes:
            _vectors(sketch, tensor, lanes, reduce)
        return
    outer, inner = split_tile(sketch, tensor, {last: lanes} if lanes else {})
    loops = blocks(sketch, tensor, outer)
    s[tensor].reorder(*(x.axis for x in loops), *reduce, *inner.values())
    levels = in_threads(sketch, tensor, loops) if loops else []
    if lanes:
        s[tensor].vectorize(inner[last])
    sketch.leads(tensor, levels)


def _vectors(sketch: Sketch, tensor: Tensor, lanes: int, reduce: list[Axis]) -> None:
    s = sketch.s
    *others, last = s[tensor].op.axis
    lane = last
    if lanes < sketch.extents([last])[0]:
        over, lane = s[tensor].split(last, factor=lanes)
        others.append(over)
    s[tensor].reorder(*others, *reduce, lane)
    s[tensor].vectorize(lane)


def _scattered(sketch: Sketch, tensor: Tensor) -> bool:
    """Whether each neighbour reads from far away in everything that is read."""
    op = sketch.op(tensor)
    axis = op.axis[-1]
    reads = [r for r in sketch.reads(tensor) if not r.fixed(axis)]
    return bool(reads) and not any(r.steps(axis)[-1] for r in reads if r.indices)
