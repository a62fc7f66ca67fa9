"""The rule for stages without a tile of sums: vector lanes if possible, blocks and threads."""

from __future__ import annotations

from math import prod

from schedlang.autotune.rules.lanes import in_lanes, lanes_along
from schedlang.autotune.rules.nest import blocks, in_order, in_threads, split_tile
from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.read import reads
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder

# the most vectors in a row that is vectorized as a whole
ROW = 4


def points(sketch: Sketch, tensor: Tensor, root: bool) -> None:
    """Schedule the loops of ``tensor``, with its contiguous data axis vectorized if possible.

    ``root`` says that the stage is computed at root.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    op = sketch.op(tensor)
    width = sketch.width(tensor)
    sketch.done.add(tensor)
    if len(op.axis) == sketch.time_axes(tensor):
        return
    last = sketch.last(tensor)
    joined = _joined_axes(sketch, tensor, last) if root else [last]
    length = prod(sketch.extents([op.axis[at] for at in joined]))
    lanes = 0
    if length > 1 and not scattered(sketch, tensor):
        whole = all(isinstance(op.axis[at].extent, int) for at in joined)
        # a mostly masked vector is slower than scalar code
        if whole or sketch.little_padding(tensor, length, width):
            lanes = knobs.choice(f"{name}.lanes", lanes_along(length, width, ROW, whole))
    if not root:
        if lanes:
            in_lanes(sketch, tensor, lanes)
        return
    outer, inner = split_tile(sketch, tensor, {last: lanes} if lanes else {}, joined)
    loops = blocks(sketch, tensor, outer)
    in_order(s, tensor, [*(x.axis for x in loops), *op.reduce_axis, *inner.values()])
    levels = in_threads(sketch, tensor, loops, sketch.evaluations(tensor)) if loops else []
    if lanes:
        s[tensor].vectorize(inner[last])
    sketch.set_nest(tensor, levels)


def _joined_axes(sketch: Sketch, tensor: Tensor, last: int) -> list[int]:
    """Return the data axes to fuse into one loop: usually only the ``last`` one.

    If that fills no vector, axes before it are added as long as all reads stay contiguous.
    """
    axes = sketch.op(tensor).axis
    short = isinstance(axes[last].extent, int) and axes[last].extent < sketch.width(tensor)
    first, found = last, sketch.reads(tensor)
    if not short or _uses_axis_value(sketch, tensor):
        return [last]
    while first > sketch.time_axes(tensor):
        row = axes[first - 1 : last + 1]
        if not all(r.element_by_element(row) or all(map(r.fixed, row)) for r in found):
            break
        first -= 1
    return list(range(first, last + 1))


def _uses_axis_value(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether the body uses the value of a data axis, not only as an index."""
    waiting = [tensor]
    for made in waiting:
        roots = sketch.op(made).roots
        found = list(reads(roots))
        rest = postorder(roots, {id(read) for read in found})
        if any(isinstance(node, Axis) and not node.is_reduce for node in rest):
            return True
        waiting += [r.tensor for r in found if r.tensor in sketch.inlined]
    return False


def scattered(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether adjacent lanes read elements that are far apart, in every read that moves."""
    op = sketch.op(tensor)
    axis, width = op.axis[sketch.last(tensor)], sketch.width(tensor)
    found = [r for r in sketch.reads(tensor) if not r.fixed(axis)]
    return bool(found) and not any(
        r.steps(axis)[r.innermost] or r.near(axis, width) for r in found if r.indices
    )
