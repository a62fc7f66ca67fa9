"""The template of GPU schedules, which applies the rules to each stage of a computation.

Every stage at root becomes a kernel, with all of its tiles in one ``blockIdx.x`` and its threads in
one ``threadIdx.x``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.rules.across import (
    FEW,
    WARP,
    across,
    coalesced,
    partial_counts,
    partial_results,
    steps,
)
from schedlang.autotune.rules.anchor import anchor
from schedlang.autotune.rules.blocks import blocked
from schedlang.autotune.rules.elements import elements
from schedlang.autotune.rules.inline import inline
from schedlang.autotune.rules.scan_steps import data_axes, scan_stages
from schedlang.autotune.rules.shapes import reused, shapes
from schedlang.autotune.rules.sketch import Sketch, Spot
from schedlang.autotune.rules.spot import spot_of
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Var
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

# fewer results than this leave multiprocessors idle with one block each
FEW_BLOCKS = 128
# how many times a tile is among the options if all operands are reused
TILE_WEIGHT = 3


def schedule_cuda(
    s: Schedule, knobs: Knobs, target: Target, sizes: Mapping[Var, int] | None = None
) -> None:
    """Schedule ``s`` for a GPU, with each choice a knob."""
    sketch = Sketch(s, knobs, target, 1, sizes or {})
    inline(sketch)
    sketch.scan_stages |= scan_stages(sketch)
    for tensor in reversed(sketch.stages()):
        if tensor in sketch.inlined or tensor in sketch.done:
            continue
        _stage(sketch, tensor)


def _stage(sketch: Sketch, tensor: Tensor) -> None:
    op = sketch.op(tensor)
    spot = spot_of(sketch, tensor)
    if op.reducer is None:
        inner = None if spot is not None else anchor(sketch, tensor, _tiles)
        if inner is not None:
            blocked(sketch, inner[0], tensor, inner[1])
        else:
            elements(sketch, tensor, spot)
        return
    way = sketch.knobs.choice(f"{sketch.name(tensor)}.how", _ways(sketch, tensor, spot))
    if way == "tile":
        blocked(sketch, tensor, tensor, range(len(op.axis)))
    elif way == "parts":
        partial_results(sketch, tensor)
    elif way == "across":
        across(sketch, tensor, spot)
    else:
        elements(sketch, tensor, spot)


def _ways(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> list[str]:
    """Return the ways to share a reduction among threads.

    A way that is listed several times is drawn more often.
    """
    op = sketch.op(tensor)
    if spot is not None:
        return ["across" if steps(sketch, tensor) >= WARP else "threads"]
    axes = data_axes(sketch, tensor)
    results = math.prod(sketch.extents(axes))
    # a second kernel in each time step of a scan costs more than it gains
    whole = results >= FEW or len(axes) < len(op.axis)
    parts = ["parts"] if not whole and partial_counts(sketch, tensor) else []
    tile = ["tile"] if _tiles(sketch, tensor) else []
    if parts and results < FEW_BLOCKS:
        return tile + parts
    if not tile:
        return [*(["across"] if steps(sketch, tensor) >= WARP else []), "threads", *parts]
    long = sketch.extents(op.reduce_axis[-1:])[0] >= WARP
    shared = ["across"] if long and (results < FEW or coalesced(sketch, tensor)) else []
    if all(reused(sketch, tensor, read) for read in sketch.reads(tensor)):
        return [*tile * TILE_WEIGHT, *shared, "threads"]
    return [*tile, *shared, "threads", *parts]


def _tiles(sketch: Sketch, tensor: Tensor, last: int = -1) -> bool:
    """Return whether a reduction has a tile, whatever its contiguous dimension ``last``."""
    op = sketch.op(tensor)
    return len(op.outputs) == 1 and bool(shapes(sketch, tensor, tensor, range(len(op.axis))))
