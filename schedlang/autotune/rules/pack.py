"""Copies of operands in the order in which a register tile reads them."""

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

# steps along the rows that are transposed in registers at once
SQUARE = 16
# neighbouring panels that are filled together, so that a line of memory is read once, and the bytes
# of a row of them: the streams to more panels than that share a set of a cache
TOGETHER, ROW = 4, 256


def pack(
    sketch: Sketch, read: Access, reader: Tensor, axis: Axis, lanes: int,
    home: Home,
) -> Tensor:  # fmt: skip
    """Pack what ``read`` reads for ``reader``: panels of ``lanes`` neighbours along ``axis``.

    Dimensions that only data axes index come first, then the panel, then the dimensions of the
    reduction. The packed copy is made ahead, or at a loop of the nest of its reader if that reads
    it at one place only.
    """
    s, op = sketch.s, sketch.op(reader)
    once = sum(r.tensor is read.tensor for r in sketch.reads(reader)) == 1
    dimension = read.own_dimension(axis)
    assert dimension is not None
    others = [d for d in range(len(read.indices)) if d != dimension]
    inner = [d for d in others if read.depends(d, op.reduce_axis)]
    outer = [d for d in others if d not in inner]
    packed = read.tensor
    if not _copies(sketch, packed, reader):
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
    straight = _as_it_lies(sketch, packed, axes[dimension])
    if straight:
        along = [p for p, a in home.along.items() if a is axis]
        most = min(TOGETHER, ROW // (lanes * itemsize(packed.dtype)))
        count = _together(sketch, front, along, spot, most)
        if count > 1:
            front[-1], neighbour = s[packed].split(panel, factor=count)
            together = [neighbour]
    in_order(s, packed, [*front, *rows, *together, lane])
    fixed = all(isinstance(axis.extent, int) for axis in rows)
    turned = [] if straight else [a for a in rows if a.extent != 1]
    if turned and fixed and _as_it_lies(sketch, packed, turned[-1]):
        row = fused(s, packed, rows)
        _, step = s[packed].split(row, factor=SQUARE, tail="cut")
        s[packed].unroll(step)
    s[packed].vectorize(lane)
    if spot is None:
        s[packed].parallel(fused(s, packed, front))
    return packed


def _as_it_lies(sketch: Sketch, packed: Tensor, axis: Axis) -> bool:
    """Return whether what is copied is read as it stands in memory along ``axis``."""
    return any(read.contiguous(axis) for read in sketch.reads(packed))


def _together(
    sketch: Sketch, front: Sequence[Axis], along: Sequence[int], spot: Spot | None, most: int
) -> int:
    """Return how many neighbouring panels are filled together: a divisor of the panels of one copy.

    ``front``: the loops outside of a panel, that over panels last, which goes ``along`` root axes.
    """
    panels = front[-1].extent
    if not isinstance(panels, int):
        return 1
    if spot is None:
        # each thread has a part of what is copied ahead
        most = min(most, prod(sketch.extents(front)) // sketch.threads)
    else:
        counts = spot.nest.iterations(spot.level)
        panels, cut = divmod(panels, prod(counts.get(p, 1) for p in along))
        if cut:
            return 1
    return max(n for n in divisors(panels) if n <= max(1, most))


def _copies(sketch: Sketch, tensor: Tensor, reader: Tensor) -> bool:
    """Return whether what computes ``tensor`` is for ``reader`` alone and no more than a copy would
    be.

    A reduction is not: it has a tile of its own.
    """
    op = tensor.op
    if not isinstance(op, ComputeOp) or op.reducer is not None or len(op.outputs) > 1:
        return False
    return tensor not in sketch.s.outputs and sketch.consumers(tensor) == [reader]
