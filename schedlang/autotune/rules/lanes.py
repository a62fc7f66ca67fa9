"""The last long data axis of a stage in lanes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from schedlang.autotune.rules.nest import in_order
from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis

# vectors side by side
VECTORS = (1, 2, 4, 8)
# no steps to be cut
NONE: Mapping[int, int] = MappingProxyType({})


def vector_counts(length: int, width: int) -> list[int]:
    """Return how many vectors side by side are no longer than ``length``."""
    return [n for n in VECTORS if n * width <= length]


def lanes_along(length: int, width: int, most: int, whole: bool) -> list[int]:
    """Return how many neighbours of ``length`` may be lanes: a few vectors, or all of them.

    All are if that is at most ``most`` vectors and a number known ahead, ``whole``.

    >>> lanes_along(40, 16, 4, True), lanes_along(3, 16, 4, True), lanes_along(3, 16, 4, False)
    ([16, 32, 40], [3], [16])
    """
    found = [n * width for n in VECTORS if n <= most and n * width < length]
    if whole and length <= most * width:
        found.append(length)
    return found or [width]


def whole_steps(sketch: Sketch, tensor: Tensor, whole: Mapping[int, int]) -> list[Axis]:
    """Return the reduction loops of a stage, of which some are cut behind their ``whole`` steps.

    ``whole`` has the number of these by the position of the axis. The step behind them is one that
    a test leaves points out of; in a loop of its own it keeps no sum out of registers before it.
    """
    axes = sketch.op(tensor).reduce_axis
    found: list[Axis] = []
    for at, (axis, extent) in enumerate(zip(axes, sketch.extents(axes))):
        if 1 < whole.get(at, 0) < extent:
            found += sketch.s[tensor].split(axis, factor=whole[at], tail="cut")
        else:
            found.append(axis)
    return found


def in_lanes(
    sketch: Sketch, tensor: Tensor, lanes: int, whole: Mapping[int, int] = NONE
) -> list[Axis]:
    """Make ``lanes`` neighbours along the last long data axis the innermost loop.

    ``whole`` as for :func:`whole_steps`. Returns the other loops over data, which are outermost.
    """
    s = sketch.s
    others = list(s[tensor].op.axis)
    lane = others.pop(sketch.last(tensor))
    if lanes < sketch.extents([lane])[0] or not isinstance(lane.extent, int):
        over, lane = s[tensor].split(lane, factor=lanes)
        others.insert(sketch.last(tensor), over)
    in_order(s, tensor, [*others, *whole_steps(sketch, tensor, whole), lane])
    s[tensor].vectorize(lane)
    return others


def partial_in_lanes(
    sketch: Sketch, partial: Tensor, row: int | None = None, whole: Mapping[int, int] = NONE
) -> None:
    """Vectorize the last axis of partial results and unroll one axis of rows.

    ``whole`` as for :func:`whole_steps`.
    """
    s = sketch.s
    op = s[partial].op
    lane = op.axis[-1]
    written = [op.axis[row]] if row is not None else []
    rest = [a for a in op.axis if a is not lane and a not in written]
    in_order(s, partial, [*rest, *whole_steps(sketch, partial, whole), *written, lane])
    for axis in written:
        s[partial].unroll(axis)
    s[partial].vectorize(lane)
