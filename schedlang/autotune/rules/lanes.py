"""The last long data axis of a stage in lanes."""

from __future__ import annotations

from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis

# vectors side by side
VECTORS = (1, 2, 4, 8)


def vector_counts(length: int, width: int) -> list[int]:
    """How many vectors side by side are no longer than ``length``."""
    return [n for n in VECTORS if n * width <= length]


def lane_counts(length: int, width: int, most: int, whole: bool) -> list[int]:
    """How many neighbours of ``length`` may be lanes: a few vectors, or all of them.

    All are if that is at most ``most`` vectors and a number known ahead, ``whole``.

    >>> lane_counts(40, 16, 4, True), lane_counts(3, 16, 4, True), lane_counts(3, 16, 4, False)
    ([16, 32, 40], [3], [16])
    """
    found = [n * width for n in VECTORS if n <= most and n * width < length]
    if whole and length <= most * width:
        found.append(length)
    return found or [width]


def in_lanes(sketch: Sketch, tensor: Tensor, lanes: int) -> list[Axis]:
    """``lanes`` neighbours along the last long data axis are the innermost loop.

    Returns the other loops over data, which are the outermost.
    """
    s = sketch.s
    others = list(s[tensor].op.axis)
    lane = others.pop(sketch.last(tensor))
    if lanes < sketch.extents([lane])[0] or not isinstance(lane.extent, int):
        over, lane = s[tensor].split(lane, factor=lanes)
        others.insert(sketch.last(tensor), over)
    s[tensor].reorder(*others, *s[tensor].op.reduce_axis, lane)
    s[tensor].vectorize(lane)
    return others


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
