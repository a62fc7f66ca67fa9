"""The rule of one GPU thread per element, or per few adjacent elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.autotune.rules.nest import fused
from schedlang.autotune.rules.parts import first
from schedlang.autotune.rules.scan_steps import data_axes
from schedlang.autotune.rules.shapes import THREADS
from schedlang.autotune.rules.sketch import Level, Sketch, Spot
from schedlang.autotune.rules.widths import lane_counts, lanes_of_rows
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis


def elements(sketch: Sketch, tensor: Tensor, spot: Spot | None) -> None:
    """Give each thread one element, or a few adjacent ones.

    If the stage reads a reduction of each row, as softmax does, a block may take one row.
    """
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
    # trailing axes of one element stay inside a thread
    at = sketch.last(tensor)
    axes = axes[: at + 1 - sketch.time_axes(tensor)]
    threads = knobs.choice(f"{name}.threads", _threads(sketch, tensor, axes))
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
        counts = sketch.extents(axes[:-1])
        sketch.set_nest(tensor, [Level(row, along, math.prod(counts), counts)], min(threads, last))
        return
    lanes = knobs.choice(f"{name}.lanes", _lanes(sketch, tensor))
    kept = None
    if lanes > 1 and sketch.op(tensor).reducer is not None:
        kept = _sums(sketch, tensor, at)
    lane = None
    if lanes > 1:
        axes[-1], lane = s[tensor].split(axes[-1], factor=lanes)
    block, thread = s[tensor].split(fused(s, tensor, axes), factor=threads)
    s[tensor].bind(block, "blockIdx.x")
    s[tensor].bind(thread, "threadIdx.x")
    if lane is not None:
        s[tensor].vectorize(lane)
    if kept is not None:
        s[kept].compute_at(s[tensor], thread)
    sketch.set_nest(tensor, ())


def _threads(sketch: Sketch, tensor: Tensor, axes: Sequence[Axis]) -> list[int]:
    """Return the block sizes that leave few threads idle, or one block of all elements."""
    length = math.prod(sketch.extents(axes))
    return [n for n in THREADS if sketch.little_padding(tensor, length, n)] or [length]


def _lanes(sketch: Sketch, tensor: Tensor) -> list[int]:
    """Return the numbers of adjacent elements that a thread can read and write in one access."""
    view, op = sketch.s[tensor], sketch.op(tensor)
    last = op.axis[sketch.last(tensor)]
    if not isinstance(last.extent, int):
        return [1]
    if op.reducer is not None and view.leaf_axes != [*op.axis, *op.reduce_axis]:
        # sums in lanes need cache_write, which a stage with steps does not allow
        return [1]
    rows = [r.tensor for r in sketch.reads(tensor) if r.contiguous(last)]
    others = [r.tensor.dtype for r in sketch.reads(tensor)]
    fits = {*lanes_of_rows([*op.outputs, *rows], long=True)} & {*lane_counts(others)}
    return sorted(n for n in fits if last.extent % n == 0)


def _sums(sketch: Sketch, tensor: Tensor, lane: int) -> Tensor:
    """Keep the sums of a thread's lanes in registers with cache_write; return their stage."""
    s = sketch.s
    kept = first(s.cache_write(tensor, "local"))
    op = sketch.op(kept)
    s[kept].reorder(*op.reduce_axis, *op.axis)
    s[kept].vectorize(op.axis[lane])
    sketch.done.add(kept)
    return kept


def _reads_rows(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether the stage reads one reduction result in all elements of a row."""
    axis = sketch.op(tensor).axis[sketch.last(tensor)]
    stages = sketch.stages()
    return any(
        r.tensor in stages and sketch.op(r.tensor).reducer is not None and r.fixed(axis)
        for r in sketch.reads(tensor)
    )
