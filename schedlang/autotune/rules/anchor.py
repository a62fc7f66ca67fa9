"""A reduction and what reads it, element by element: one nest for both."""

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
    """Return a reduction that ``head`` alone reads, one element a point: computed a tile at a time.

    With it the dimension of it that each axis of ``head`` goes along. ``fits`` says whether a
    reduction has a tile, given the dimension that is stored side by side.
    """
    axes, last = sketch.op(head).axis, sketch.last(head)
    reads = sketch.reads(head)
    for tensor in dict.fromkeys(r.tensor for r in reads):
        if tensor not in sketch.stages() or tensor in sketch.done or tensor in sketch.s.outputs:
            continue
        op = sketch.op(tensor)
        if op.reducer is None or len(op.outputs) > 1 or sketch.consumers(tensor) != [head]:
            continue
        # read at several points, as with its transpose, it has no tile that is the reader's
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
    """Return for each axis of the reader the dimension that it alone indexes, or -1 for none.

    The ``last`` long axis must index one, and each dimension that is long must be indexed by one.
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
