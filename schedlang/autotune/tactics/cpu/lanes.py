"""Vectorization of the contiguous data axis of a stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, first, second, third
from schedlang.autotune.tactics.loops import in_order
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule

# numbers of vectors side by side
# a search decides among them
VECTORS = (1, 2, 4, 8)
# the most vectors in a row that is vectorized as a whole
# nobody has measured this value
ROW = 4
LANES = Knob(
    "C.lanes",
    "whole vectors, or all elements",
    "the number of neighbouring elements in lanes",
    Moves(rank=25, start=second),
)
PARTIAL_VECTORS = Knob(
    "C.vectors",
    VECTORS,
    "the number of vectors of partial sums",
    # several vectors, so that one need not wait for the other; the rows of a block do not wait
    Moves(rank=10, start=third, inside=first),
)
# no reduction loop is cut
NONE: Mapping[int, int] = MappingProxyType({})


def vector_counts(length: int, width: int) -> list[int]:
    """Return the numbers of vectors side by side that fit into ``length``."""
    return [n for n in VECTORS if n * width <= length]


def lanes_along(length: int, width: int, most: int, whole: bool) -> list[int]:
    """Return the possible numbers of lanes along ``length`` elements: whole vectors, or all.

    All elements may be lanes if they are at most ``most`` vectors and if ``length`` is constant,
    as ``whole`` says.

    >>> lanes_along(40, 16, 4, True), lanes_along(3, 16, 4, True), lanes_along(3, 16, 4, False)
    ([16, 32, 40], [3], [16])
    """
    counts = [n * width for n in VECTORS if n <= most and n * width < length]
    if whole and length <= most * width:
        counts.append(length)
    return counts or [width]


def choose_lanes(
    stage: StageFacts, axes: Sequence[Axis], most: int, knobs: Knobs, name: str = ""
) -> int:
    """Choose the lanes along ``axes``, fused, of ``stage``: up to ``most`` whole vectors, or all.

    A single element has no lanes and no knob. Neither has a row that would mask most of a vector:
    that is slower than scalar code. ``name`` begins the name of the knob, by default the stage's
    name.
    """
    length = prod(stage.extents(axes))
    whole = all(isinstance(axis.extent, int) for axis in axes)
    if length == 1 or not (whole or stage.little_padding(length, stage.width)):
        return 0
    options = lanes_along(length, stage.width, most, whole)
    return knobs.choice(f"{name or stage.name}.lanes", options)


def partial_sums(s: Schedule, stage: StageFacts, along: Axis, lanes: int) -> StageFacts:
    """Add every ``lanes``-th step of a reduction axis in a lane of its own; return these sums.

    The lanes are the last data axis of the sums, which are local to their reader.
    """
    _, lane = s[stage.tensor].split(along, factor=lanes)
    partial = s.rfactor(stage.tensor, lane, factor_axis=len(stage.op.axis))
    sums = stage.after(s, partial[0] if isinstance(partial, list) else partial)
    s[sums.tensor].set_scope("local")
    return sums


def whole_steps(s: Schedule, stage: StageFacts, whole: Mapping[int, int]) -> list[Axis]:
    """Cut reduction loops of a stage after their ``whole`` steps, and return all of them in order.

    ``whole`` gives the number of full steps by the position of the axis. The last step has a test
    for missing points. In a loop of its own, it does not keep the sums of the others out of
    registers.
    """
    axes = stage.op.reduce_axis
    loops: list[Axis] = []
    for at, (axis, extent) in enumerate(zip(axes, stage.extents(axes))):
        if 1 < whole.get(at, 0) < extent:
            loops += s[stage.tensor].split(axis, factor=whole[at], tail="cut")
        else:
            loops.append(axis)
    return loops


def in_lanes(
    s: Schedule, stage: StageFacts, lanes: int, whole: Mapping[int, int] = NONE
) -> list[Axis]:
    """Vectorize ``lanes`` elements along the contiguous data axis, as the innermost loop.

    ``whole`` means the same as in :func:`whole_steps`. Return the other loops over data, which are
    outermost.
    """
    tensor = stage.tensor
    others = list(stage.op.axis)
    lane = others.pop(stage.last)
    if lanes < stage.extents([lane])[0] or not isinstance(lane.extent, int):
        over, lane = s[tensor].split(lane, factor=lanes)
        others.insert(stage.last, over)
    in_order(s, tensor, [*others, *whole_steps(s, stage, whole), lane])
    s[tensor].vectorize(lane)
    return others


def partial_in_lanes(
    s: Schedule, partial: StageFacts, row: int | None = None, whole: Mapping[int, int] = NONE,
    rows: int | None = None,
) -> None:  # fmt: skip
    """Vectorize the last axis of partial results, and unroll the data axis ``row`` if given.

    With ``rows``, that many rows of that axis are unrolled, in a loop over the others. ``whole`` is
    as for :func:`whole_steps`.
    """
    op, tensor = partial.op, partial.tensor
    lane = op.axis[-1]
    rest = [a for a in op.axis if a is not lane]
    unrolled = []
    if row is not None:
        axis = op.axis[row]
        if rows is None:
            rest.remove(axis)
            unrolled = [axis]
        elif rows > 1:
            rest[row], inner = s[tensor].split(axis, factor=rows)
            unrolled = [inner]
    in_order(s, tensor, [*rest, *whole_steps(s, partial, whole), *unrolled, lane])
    for axis in unrolled:
        s[tensor].unroll(axis)
    s[tensor].vectorize(lane)
