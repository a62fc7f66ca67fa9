"""The last data axis of a stage in lanes."""

from __future__ import annotations

from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor


def in_lanes(sketch: Sketch, tensor: Tensor, lanes: int) -> None:
    """``lanes`` neighbours along the last data axis are the innermost loop."""
    s = sketch.s
    *others, lane = s[tensor].op.axis
    if lanes < sketch.extents([lane])[0] or not isinstance(lane.extent, int):
        over, lane = s[tensor].split(lane, factor=lanes)
        others.append(over)
    s[tensor].reorder(*others, *s[tensor].op.reduce_axis, lane)
    s[tensor].vectorize(lane)


def partial_in_lanes(sketch: Sketch, partial: Tensor, row: int | None) -> None:
    """The last axis of partial results in lanes, one axis of rows written out."""
    s = sketch.s
    op = s[partial].op
    lane = op.axis[-1]
    written = [op.axis[row]] if row is not None else []
    rest = [a for a in op.axis if a is not lane and a not in written]
    s[partial].reorder(*rest, *s[partial].op.reduce_axis, *written, lane)
    for axis in written:
        s[partial].unroll(axis)
    s[partial].vectorize(lane)
