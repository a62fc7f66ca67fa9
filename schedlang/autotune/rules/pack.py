"""Copies of operands in the order in which a register tile reads them."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.nest import fused
from schedlang.autotune.rules.sketch import Home, Nest, Sketch, Spot
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis

# steps along the rows that are transposed in registers at once
SQUARE = 16
# a copy may be made this many times over, as by each of a few threads
MOST_COPIES = 2


def pack(
    sketch: Sketch, read: Access, reader: Tensor, axis: Axis, lanes: int,
    home: Home,
) -> Tensor:  # fmt: skip
    """A copy of what ``read`` reads for ``reader``: panels of ``lanes`` neighbours along ``axis``.

    Dimensions that only data axes index come first, then the panel, then what the reduction goes
    through. It is made ahead, or in a loop of the nest that the reader stands in.
    """
    s, op = sketch.s, sketch.op(reader)
    dimension = read.own_dimension(axis)
    assert dimension is not None
    others = [d for d in range(len(read.indices)) if d != dimension]
    inner = [d for d in others if read.depends(d, op.reduce_axis)]
    outer = [d for d in others if d not in inner]
    own = isinstance(read.tensor.op, ComputeOp) and sketch.consumers(read.tensor) == [reader]
    packed = read.tensor if own else s.cache_read(read.tensor, "global", [reader])
    if dimension != len(read.indices) - 1 or lanes < sketch.extents([axis])[0]:
        s[packed].transform_layout(
            lambda *dims: (
                *(dims[d] for d in outer), dims[dimension] // lanes, *(dims[d] for d in inner),
                dims[dimension] % lanes,
            )
        )  # fmt: skip
    spot = place(sketch, packed, [(read, home)], home.nest)
    sketch.attach(packed, spot)
    sketch.done.add(packed)
    axes = s[packed].op.axis
    panel, lane = s[packed].split(axes[dimension], factor=lanes)
    rows = [axes[d] for d in inner]
    front = [*(axes[d] for d in outer), panel]
    s[packed].reorder(*front, *rows, lane)
    if dimension != len(read.indices) - 1 and rows:
        row = fused(s, packed, rows)
        _, step = s[packed].split(row, factor=SQUARE, tail="cut")
        s[packed].unroll(step)
    s[packed].vectorize(lane)
    if spot is None:
        s[packed].parallel(fused(s, packed, front))
    return packed


def place(
    sketch: Sketch, tensor: Tensor, reads: Sequence[tuple[Access, Home]], nest: Nest
) -> Spot | None:
    """A loop of ``nest``, in which the readers stand, as a knob says; ``None`` is ahead of it."""
    legal = set(range(len(nest.levels)))
    for read, home in reads:
        legal &= set(places(read, home))
    at = sketch.knobs.choice(f"{sketch.name(tensor)}.at", [-1, *sorted(legal)])
    return None if at < 0 else Spot(nest, nest.levels[at])


def places(read: Access, home: Home) -> list[int]:
    """The levels at which what is read can be made without making most of it many times."""
    found, copies = [], 1
    for at, level in enumerate(home.nest.levels):
        axes = [home.along[p] for p in level.along if p in home.along]
        if all(read.fixed(axis) for axis in axes):
            copies *= level.extent
        if copies > MOST_COPIES:
            break
        found.append(at)
    return found
