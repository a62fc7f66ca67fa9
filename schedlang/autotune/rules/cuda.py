"""The space of GPU schedules of a computation, as a template: rules over its stages.

Every stage that stands alone becomes a kernel: its blocks are all tiles in one ``blockIdx.x``, its
threads one ``threadIdx.x``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.rules.anchor import anchor
from schedlang.autotune.rules.blocks import THREADS, blocked, reused
from schedlang.autotune.rules.inline import inline
from schedlang.autotune.rules.nest import fused
from schedlang.autotune.rules.sketch import Level, Sketch, Spot
from schedlang.autotune.rules.spot import spot_of
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Var
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

# neighbours that a thread takes at once
LANES = (1, 2, 4)
# threads that take part in a sum at least
WARP = 32
# results fewer than this do not fill a GPU with a thread each
FEW = 1 << 14


def schedule_cuda(
    s: Schedule, knobs: Knobs, target: Target, sizes: Mapping[Var, int] | None = None
) -> None:
    """Steps on ``s`` for a GPU, each choice asked of ``knobs``."""
    sketch = Sketch(s, knobs, target, 1, sizes or {})
    inline(sketch)
    for tensor in reversed(sketch.stages()):
        if tensor in sketch.inlined or tensor in sketch.done:
            continue
        if sketch.steps_of_scan(tensor):
            _step_of_scan(sketch, tensor)
        else:
            _stage(sketch, tensor)


def _stage(sketch: Sketch, tensor: Tensor) -> None:
    op = sketch.op(tensor)
    spot = spot_of(sketch, tensor)
    if op.reducer is None:
        inner = anchor(sketch, tensor, _tileable) if spot is None else None
        if inner is not None:
            blocked(sketch, inner[0], tensor, inner[1])
        else:
            _points(sketch, tensor, spot)
        return
    ways = []
    if len(op.outputs) == 1 and op.axis and _tileable(sketch, tensor, 0) and spot is None:
        ways.append("tile")
    if (
        len(op.outputs) == 1
        and sketch.extents(op.reduce_axis[-1:])[0] >= WARP
        and (spot is not None or not ways or math.prod(sketch.extents(op.axis)) < FEW)
    ):
        ways.append("across")
    if not ways or (ways == ["across"] and spot is None):
        ways.append("threads")
    way = sketch.knobs.choice(f"{sketch.name(tensor)}.how", ways)
    if way == "tile":
        blocked(sketch, tensor, tensor, range(len(op.axis)))
    elif way == "across":
        _across(sketch, tensor, spot)
    else:
        _points(sketch, tensor, spot)


def _step_of_scan(sketch: Sketch, tensor: Tensor) -> None:
    """A kernel for each moment, a thread an element."""
    s = sketch.s
    _, *rest = s[tensor].op.axis
    threads = sketch.knobs.choice(f"{sketch.name(tensor)}.threads", list(THREADS))
    block, thread = s[tensor].split(fused(s, tensor, rest), factor=threads)
    s[tensor].bind(block, "blockIdx.x")
    s[tensor].bind(thread, "threadIdx.x")


def _tileable(sketch: Sketch, tensor: Tensor, last: int) -> bool:
    return any(reused(sketch, tensor, read) for read in sketch.reads(tensor))


def _points(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> None:
    """A thread an element, or a few neighbours; with a row a block where a row is reduced too."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    sketch.done.add(tensor)
    axes = list(s[tensor].op.axis)
    if spot is not None:
        sketch.attach(tensor, spot)
        s[tensor].set_scope("shared")
        _, thread = s[tensor].split(fused(s, tensor, axes), factor=spot.nest.threads)
        s[tensor].bind(thread, "threadIdx.x")
        return
    if not axes:
        s[tensor].bind(fused(s, tensor, axes), "threadIdx.x")
        return
    threads = knobs.choice(f"{name}.threads", list(THREADS))
    last = sketch.extents(axes[-1:])[0]
    if (
        len(axes) > 1
        and _reads_rows(sketch, tensor)
        and knobs.choice(f"{name}.rows", [True, False])
    ):
        row = fused(s, tensor, axes[:-1])
        _, thread = s[tensor].split(axes[-1], factor=min(threads, last))
        s[tensor].bind(row, "blockIdx.x")
        s[tensor].bind(thread, "threadIdx.x")
        along = tuple(range(len(axes) - 1))
        count = math.prod(sketch.extents(axes[:-1]))
        sketch.leads(tensor, [Level(row, along, count)], min(threads, last))
        return
    lanes = knobs.choice(f"{name}.lanes", [n for n in LANES if last % n == 0])
    lane = None
    if lanes > 1:
        axes[-1], lane = s[tensor].split(axes[-1], factor=lanes)
        s[tensor].reorder(*axes, *s[tensor].op.reduce_axis, lane)
    block, thread = s[tensor].split(fused(s, tensor, axes), factor=threads)
    s[tensor].bind(block, "blockIdx.x")
    s[tensor].bind(thread, "threadIdx.x")
    if lane is not None:
        s[tensor].vectorize(lane)
    sketch.leads(tensor, ())


def _reads_rows(sketch: Sketch, tensor: Tensor) -> bool:
    """Whether a reduction is read that is the same all along a row."""
    axis = sketch.op(tensor).axis[-1]
    stages = sketch.stages()
    return any(
        r.tensor in stages and sketch.op(r.tensor).reducer is not None and r.fixed(axis)
        for r in sketch.reads(tensor)
    )


def _across(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> None:
    """The last reduction axis across the threads of a block."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    sketch.done.add(tensor)
    op = s[tensor].op
    length = sketch.extents(op.reduce_axis[-1:])[0]
    if spot is not None:
        sketch.attach(tensor, spot)
        threads = spot.nest.threads
    else:
        threads = knobs.choice(f"{name}.threads", [t for t in THREADS if t <= length] or [WARP])
    lanes = [n for n in LANES if n * threads <= length]
    count = knobs.choice(f"{name}.lanes", lanes or [1])
    rest = op.reduce_axis[-1]
    four = None
    if count > 1:
        rest, four = s[tensor].split(rest, factor=count)
    outer, inner = s[tensor].split(rest, factor=threads)
    s[tensor].bind(inner, "threadIdx.x")
    if four is not None:
        s[tensor].reorder(outer, inner, four)
        s[tensor].unroll(four)
    if spot is None:
        axes = list(s[tensor].op.axis)
        if axes:
            s[tensor].bind(fused(s, tensor, axes), "blockIdx.x")
        sketch.leads(tensor, ())
