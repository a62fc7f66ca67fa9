"""A thread an element of a stage, or a few neighbours."""

from __future__ import annotations

import math

from schedlang.autotune.rules.blocks import THREADS
from schedlang.autotune.rules.moments import data_axes
from schedlang.autotune.rules.nest import fused
from schedlang.autotune.rules.sketch import Level, Sketch, Spot
from schedlang.autotune.rules.widths import lane_counts
from schedlang.compute.tensor import Tensor


def elements(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> None:
    """A thread an element, or a few neighbours; with a row a block where a row is reduced too."""
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    sketch.done.add(tensor)
    axes = data_axes(sketch, tensor)
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
        along = tuple(n for n, axis in enumerate(s[tensor].op.axis) if axis in axes[:-1])
        count = math.prod(sketch.extents(axes[:-1]))
        sketch.leads(tensor, [Level(row, along, count)], min(threads, last))
        return
    dtypes = [t.dtype for t in (*sketch.op(tensor).outputs, *_read(sketch, tensor))]
    lanes = knobs.choice(f"{name}.lanes", [n for n in lane_counts(dtypes) if last % n == 0])
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


def _read(sketch: Sketch, tensor: Tensor) -> list[Tensor]:
    return [read.tensor for read in sketch.reads(tensor)]


def _reads_rows(sketch: Sketch, tensor: Tensor) -> bool:
    """Whether a reduction is read that is the same all along a row."""
    axis = sketch.op(tensor).axis[-1]
    stages = sketch.stages()
    return any(
        r.tensor in stages and sketch.op(r.tensor).reducer is not None and r.fixed(axis)
        for r in sketch.reads(tensor)
    )
