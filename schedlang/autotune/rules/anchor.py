"""The anchor of a nest: a reduction that is computed inside the loops of its elementwise reader."""

from __future__ import annotations

from collections.abc import Callable

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis
from schedlang.expr.simplify import to_lin


def anchor(
    sketch: Sketch, head: Tensor, fits: Callable[[Sketch, Tensor, int], bool]
) -> tuple[Tensor, list[int]] | None:
    """Return a reduction to compute a tile at a time inside ``head``, its only reader.

    ``head`` must read one element of it per point. Also returned is, for each axis of ``head``, the
    dimension of the reduction that it indexes, or -1. ``fits`` says whether a reduction has a tile,
    given its contiguous dimension.
    """
    axes, last = sketch.op(head).axis, sketch.last(head)
    reads = sketch.reads(head)
    for tensor in dict.fromkeys(r.tensor for r in reads):
        if tensor not in sketch.stages() or tensor in sketch.done or tensor in sketch.s.outputs:
            continue
        op = sketch.op(tensor)
        if op.reducer is None or len(op.outputs) > 1 or sketch.consumers(tensor) != [head]:
            continue
        # a reader of several points, as of a matrix and its transpose, has no common tile
        found = [_positions(sketch, r, axes, last, op.axis) for r in reads if r.tensor is tensor]
        positions = found[0] if all(p == found[0] for p in found) else None
        if positions is None or not fits(sketch, tensor, positions[last]):
            continue
        if sketch.knobs.choice(f"{sketch.name(tensor)}.fuse", [True, False]):
            return tensor, positions
    return None


def _positions(
    sketch: Sketch, read: Access, axes: tuple[Axis, ...], last: int, own: tuple[Axis, ...]
) -> list[int] | None:
    """Return for each axis of the reader the dimension that it alone indexes, or -1.

    Returns ``None`` unless the ``last`` axis indexes one, and each dimension longer than 1 is
    indexed by one axis.
    """
    found = [-1] * len(axes)
    for dimension, index in enumerate(read.indices):
        lin = to_lin(index)
        at = next((n for n, axis in enumerate(axes) if lin == Lin.of(axis)), None)
        if at is None:
            if not sketch.long(own[dimension]):
                continue
            return None
        same = sketch.extents([axes[at]]) == sketch.extents([own[dimension]])
        if found[at] >= 0 or not same:
            return None
        found[at] = dimension
    return found if found and found[last] >= 0 else None
