"""Packing: copies of operands in the order in which a register tile reads them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedlang.autotune.knobs import divisors
from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.nest import fused, in_order
from schedlang.autotune.rules.sketch import Home, Sketch, Spot
from schedlang.autotune.rules.spot import place
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis

# rows that are transposed in registers at once
SQUARE = 16
# the most adjacent panels that are filled together, to read each cache line once, and the most
# bytes of a row of them: the streams to more panels would share cache sets
MOST_PANELS, ROW_BYTES = 4, 256


def pack(
    sketch: Sketch, read: Access, reader: Tensor, axis: Axis, lanes: int,
    home: Home,
) -> Tensor:  # fmt: skip
    """Pack the operand of ``read`` for ``reader``, in panels of ``lanes`` elements along ``axis``.

    The dimensions that only data axes index come first, then the panels, then the dimensions that
    reduction axes index, then the lanes. The copy is computed at root. It may also be computed at a
    loop of its reader's nest, if the reader reads the tensor only once. Returns the copy.
    """
    s, op = sketch.s, sketch.op(reader)
    once = sum(r.tensor is read.tensor for r in sketch.reads(reader)) == 1
    dimension = read.own_dimension(axis)
    assert dimension is not None
    others = [d for d in range(len(read.indices)) if d != dimension]
    inner = [d for d in others if read.depends(d, op.reduce_axis)]
    outer = [d for d in others if d not in inner]
    packed = read.tensor
    if not _is_own_copy(sketch, packed, reader):
        packed = s.cache_read(packed, "global", [reader])
    if dimension != len(read.indices) - 1 or lanes < sketch.extents([axis])[0]:
        s[packed].transform_layout(
            lambda *dims: (
                *(dims[d] for d in outer), dims[dimension] // lanes, *(dims[d] for d in inner),
                dims[dimension] % lanes,
            )
        )  # fmt: skip
    spot = place(sketch, packed, [(read, home)], home.nest) if once else None
    sketch.attach(packed, spot)
    sketch.done.add(packed)
    axes = s[packed].op.axis
    panel, lane = s[packed].split(axes[dimension], factor=lanes)
    rows, front = [axes[d] for d in inner], [*(axes[d] for d in outer), panel]
    together = []
    contiguous = _contiguous(sketch, packed, axes[dimension])
    if contiguous:
        along = [p for p, a in home.along.items() if a is axis]
        most = min(MOST_PANELS, ROW_BYTES // (lanes * itemsize(packed.dtype)))
        count = _panels_together(sketch, front, along, spot, most)
        if count > 1:
            front[-1], neighbour = s[packed].split(panel, factor=count)
            together = [neighbour]
    in_order(s, packed, [*front, *rows, *together, lane])
    fixed = all(isinstance(axis.extent, int) for axis in rows)
    transposed = [] if contiguous else [a for a in rows if a.extent != 1]
    if transposed and fixed and _contiguous(sketch, packed, transposed[-1]):
        row = fused(s, packed, rows)
        _, step = s[packed].split(row, factor=SQUARE, tail="cut")
        s[packed].unroll(step)
    s[packed].vectorize(lane)
    if spot is None:
        s[packed].parallel(fused(s, packed, front))
    return packed


def _contiguous(sketch: Sketch, packed: Tensor, axis: Axis) -> bool:
    """Return whether the source of a copy is contiguous along ``axis``."""
    return any(read.contiguous(axis) for read in sketch.reads(packed))


def _panels_together(
    sketch: Sketch, front: Sequence[Axis], along: Sequence[int], spot: Spot | None, most: int
) -> int:
    """Return how many adjacent panels are filled together: a divisor of the panels of one copy.

    ``front`` are the loops outside a panel; the last one, over panels, goes ``along`` these data
    axes of the nest's head.
    """
    panels = front[-1].extent
    if not isinstance(panels, int):
        return 1
    if spot is None:
        # leave work for each thread that copies
        most = min(most, prod(sketch.extents(front)) // sketch.threads)
    else:
        counts = spot.nest.iterations(spot.level)
        panels, cut = divmod(panels, prod(counts.get(p, 1) for p in along))
        if cut:
            return 1
    return max(n for n in divisors(panels) if n <= max(1, most))


def _is_own_copy(sketch: Sketch, tensor: Tensor, reader: Tensor) -> bool:
    """Return whether ``tensor`` can serve as the packed copy itself.

    It must be an elementwise stage that only ``reader`` reads. A reduction has its own tile.
    """
    op = tensor.op
    if not isinstance(op, ComputeOp) or op.reducer is not None or len(op.outputs) > 1:
        return False
    return tensor not in sketch.s.outputs and sketch.consumers(tensor) == [reader]
