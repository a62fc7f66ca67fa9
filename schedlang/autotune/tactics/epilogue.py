"""Reductions to fuse with their epilogue: the elementwise stage that alone reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.facts import StageFacts, is_long
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin

KNOBS = (
    Knob(
        "C.fuse",
        (True, False),
        "compute the reduction inside its reader, tile by tile",
        Moves(rank=1, structure=True),
    ),
)


def fusible(
    reader: StageFacts, fits: Callable[[StageFacts, StageFacts, int], bool]
) -> Iterator[tuple[StageFacts, list[int]]]:
    """Yield the reductions that can be computed a tile at a time inside ``reader``.

    The reader must read one element of the reduction per point. Each reduction comes with the
    dimension that each axis of the reader indexes, or -1. ``fits`` says whether a reduction has a
    tile inside the reader, given its contiguous dimension.
    """
    if reader.is_reduction:
        return
    flow = reader.flow
    for tensor in dict.fromkeys(r.tensor for r in reader.reads):
        if tensor not in flow.stages or tensor in flow.decided.stages:
            continue
        stage = flow.stage(tensor)
        if not stage.is_reduction or stage.stays or len(stage.op.outputs) > 1:
            continue
        if stage.consumers != [reader.tensor]:
            continue
        # a reader of several points, such as a matrix plus its transpose, has no common tile
        ways = [_positions(reader, r, stage.op.axis) for r in reader.reads if r.tensor is tensor]
        positions = ways[0] if all(p == ways[0] for p in ways) else None
        if positions is not None and fits(reader, stage, positions[reader.last]):
            yield stage, positions


def _positions(reader: StageFacts, read: Access, own: tuple[Axis, ...]) -> list[int] | None:
    """Return for each axis of the reader the dimension that it alone indexes, or -1.

    Return ``None`` unless the contiguous axis indexes one, and each dimension longer than 1 is
    indexed by one axis.
    """
    axes = reader.op.axis
    dimensions = [-1] * len(axes)
    for dimension, index in enumerate(read.indices):
        lin = to_lin(index)
        at = next((n for n, axis in enumerate(axes) if lin == Lin.of(axis)), None)
        if at is None:
            if not is_long(own[dimension]):
                continue
            return None
        same = reader.extents([axes[at]]) == reader.extents([own[dimension]])
        if dimensions[at] >= 0 or not same:
            return None
        dimensions[at] = dimension
    return dimensions if dimensions and dimensions[reader.last] >= 0 else None
