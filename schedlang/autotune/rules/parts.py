"""A long reduction with few results: threads reduce parts of it, which are then combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.lanes import in_lanes, lanes_along, partial_in_lanes, vector_counts
from schedlang.autotune.rules.nest import LEAST_STEPS, fused
from schedlang.autotune.rules.sketch import Home, Level, OuterLoops, Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis

# parts per thread: several balance the load if other processes interrupt a thread
PARTS = (1, 4)
# results are few if each thread has at most so many vectors of them
FEW_VECTORS = 4
# the fewest vectors of a contiguous run that are worth partial results in lanes
LEAST_RUN = 2
# parts take their steps in about so many rounds, if the steps do not divide evenly
ROUNDS = 128
# the most vectors of partial results side by side
MOST_VECTORS = 8


def few_results(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether a reduction has so few results that threads may better share its steps."""
    return results(sketch, tensor) <= FEW_VECTORS * sketch.width(tensor) * sketch.threads


def too_few(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether there are fewer results than threads."""
    return results(sketch, tensor) < sketch.threads


def results(sketch: Sketch, tensor: Tensor) -> int:
    """Return the number of results of a reduction."""
    return prod(sketch.extents(sketch.op(tensor).axis))


def part_counts(sketch: Sketch, tensor: Tensor) -> list[int]:
    """Return the possible numbers of parts per thread into which a reduction can be split.

    The list is empty if there are few steps. It is empty in a scan, where threads would have to
    start in each time step.
    """
    if sketch.threads == 1 or sketch.time_axes(tensor) or sketch.evaluations(tensor) < LEAST_STEPS:
        return []
    run = run_of(sketch, tensor)
    shared = _shared(sketch, tensor, run)
    steps, length = (prod(sketch.extents(a)) for a in (sketch.op(tensor).reduce_axis, shared))
    least = LEAST_RUN * sketch.width(tensor)
    each = least if shared == run else 1
    counts = {n: n * sketch.threads for n in PARTS}
    return [n for n, c in counts.items() if steps >= c * least and length >= c * each]


def parts(sketch: Sketch, tensor: Tensor) -> None:
    """Split a reduction among threads with rfactor, and vectorize each part.

    The lanes go along a contiguous run of reduction axes, or else along the last data axis.
    """
    s, knobs, name = sketch.s, sketch.knobs, sketch.name(tensor)
    width = sketch.width(tensor)
    run = run_of(sketch, tensor)
    length = prod(sketch.extents(run))
    short = length < LEAST_RUN * width
    lanes = 0
    if not short:
        counts = vector_counts(length, width)
        if len(run) == 1:
            counts = whole_vectors(sketch, tensor, run[0], counts)
        lanes = width * knobs.choice(f"{name}.vectors", counts)
    count = sketch.threads * knobs.choice(f"{name}.parts", part_counts(sketch, tensor))
    shared = _shared(sketch, tensor, run)
    whole = _rounds(sketch, shared, count, lanes if shared == run else 1)
    part = _split_parts(sketch, tensor, shared, count, whole)
    outside = len(sketch.op(tensor).reduce_axis) - len(run) if shared == run else 0
    partial = first(s.rfactor(tensor, part))
    sketch.done |= {tensor, partial}
    nest = sketch.set_nest(partial, [Level(s[partial].op.axis[0], (0,), count)])
    rounds = {outside: whole[0]} if whole else {}
    if lanes:
        # splitting a run into parts fuses it into one loop
        left = 1 if shared == run else len(run)
        _run_in_lanes(sketch, partial, left, lanes, nest, rounds)
        lanes = 0
    else:
        lanes = _results_in_lanes(sketch, tensor, partial, rounds)
    _combine(sketch, tensor, count, lanes)
    s[partial].parallel(nest.levels[0].loop)


def first(made: Tensor | list[Tensor]) -> Tensor:
    """Return the first output of a stage made by rfactor or cache_write."""
    return made[0] if isinstance(made, list) else made


def _rounds(sketch: Sketch, shared: list[Axis], count: int, lanes: int) -> tuple[int, int] | None:
    """Return the number of full rounds, and the steps that each part takes in one.

    Returns ``None`` if the steps divide into equal parts of whole vectors.
    """
    length = prod(sketch.extents(shared))
    fixed = all(isinstance(axis.extent, int) for axis in shared)
    if not fixed or length % (count * max(1, lanes)) == 0:
        return None
    unit = max(1, lanes)
    block = max(1, length // (count * ROUNDS * unit)) * unit
    rounds = length // (count * block)
    return (rounds, block) if rounds > 1 else None


def _split_parts(
    sketch: Sketch, tensor: Tensor, shared: list[Axis], count: int, whole: tuple[int, int] | None
) -> Axis:
    """Split the ``shared`` axes into parts, and return the loop over parts.

    A part is contiguous, or takes one block in each round. With rounds, only the last round needs a
    test for missing steps. With contiguous parts of unequal length, every step of every part would
    need one, and sums would stay in memory.
    """
    view = sketch.s[tensor]
    steps = fused(sketch.s, tensor, shared)
    if whole is None:
        return view.split(steps, nparts=count)[0]
    blocks, _ = view.split(steps, factor=whole[1])
    return view.split(blocks, factor=count)[1]


def run_of(sketch: Sketch, tensor: Tensor) -> list[Axis]:
    """Return the longest run of last reduction axes that, fused, read memory contiguously.

    If there is none, the last axis alone may do if vectors hold what it reads, see
    :func:`fills_lanes`.
    """
    axes, reads = sketch.op(tensor).reduce_axis, sketch.reads(tensor)
    for start in range(len(axes)):
        last = axes[start:]
        moving = [r for r in reads if not all(r.fixed(a) for a in last)]
        if moving and all(r.element_by_element(last) for r in moving):
            return list(last)
        if len(last) == 1 and fills_lanes(sketch, tensor, last[0]):
            return list(last)
    return []


def fills_lanes(sketch: Sketch, tensor: Tensor, axis: Axis) -> bool:
    """Return whether vector loads serve lanes along a reduction axis.

    Reads must be contiguous, close in memory, or of one element for all lanes; some may be gathered
    if others are loaded as vectors.
    """
    width, found = sketch.width(tensor), sketch.reads(tensor)
    moving = [r for r in found if not r.fixed(axis)]
    vectors = [r for r in moving if r.contiguous(axis, width) or r.near(axis, width)]
    return bool(vectors) and all(r in vectors or r.gathered(axis) for r in moving)


def whole_vectors(
    sketch: Sketch, tensor: Tensor, axis: Axis, counts: Sequence[int]
) -> list[int]:  # fmt: skip
    """Return the ``counts`` of vectors whose lanes are loaded in the same way as those of one.

    Indices with a quotient or a remainder may be contiguous over one vector and not over several.
    If no count qualifies, all are returned.
    """
    width, reads = sketch.width(tensor), sketch.reads(tensor)

    def kind(read: Access, lanes: int) -> tuple[bool, bool]:
        return read.fixed(axis, lanes), read.contiguous(axis, lanes)

    one = [kind(read, width) for read in reads]
    return [n for n in counts if [kind(r, n * width) for r in reads] == one] or list(counts)


def _shared(sketch: Sketch, tensor: Tensor, run: list[Axis]) -> list[Axis]:
    """Return the adjacent reduction axes to split among threads: the outermost that suffice."""
    axes = list(sketch.op(tensor).reduce_axis)
    outside = axes[: len(axes) - len(run)]
    groups = [outside[:n] for n in range(1, len(outside) + 1)] + ([run] if run else [])
    lengths = [prod(sketch.extents(group)) for group in groups]
    enough = sketch.threads * max(PARTS)
    return next((g for g, n in zip(groups, lengths) if n >= enough),
                groups[lengths.index(max(lengths))])  # fmt: skip


def _run_in_lanes(
    sketch: Sketch, partial: Tensor, left: int, lanes: int, nest: OuterLoops,
    rounds: Mapping[int, int],
) -> None:  # fmt: skip
    """Vectorize the last ``left`` reduction axes, with partial results of each result in lanes."""
    s = sketch.s
    run = fused(s, partial, s[partial].op.reduce_axis[-left:])
    over, lane = s[partial].split(run, factor=lanes)
    length = sketch.extents([run])[0]
    lane_sums = first(s.rfactor(partial, lane, factor_axis=len(s[partial].op.axis)))
    s[lane_sums].set_scope("local")
    part, *data = s[partial].op.axis
    s[lane_sums].compute_at(s[partial], next((a for a in reversed(data) if sketch.long(a)), part))
    sketch.done.add(lane_sums)
    sketch.home[lane_sums] = Home(nest, dict(enumerate(s[lane_sums].op.axis[:-1])))
    last = len(sketch.op(lane_sums).reduce_axis) - 1
    whole = {last: length // lanes} if isinstance(over.extent, int) else {}
    partial_in_lanes(sketch, lane_sums, whole={**whole, **rounds})


def _results_in_lanes(
    sketch: Sketch, tensor: Tensor, partial: Tensor, rounds: Mapping[int, int]
) -> int:
    """Vectorize the last data axis of the partial results; return its lanes, 0 for none."""
    last = sketch.last(partial)
    axis = sketch.op(partial).axis[last]
    length = sketch.extents([axis])[0]
    if last == 0 or length == 1:
        return 0
    if not any(r.contiguous(axis) for r in sketch.reads(partial)):
        return 0
    fixed = isinstance(axis.extent, int)
    if not fixed and not sketch.little_padding(partial, length, sketch.width(tensor)):
        return 0
    many = lanes_along(length, sketch.width(tensor), MOST_VECTORS, fixed)
    lanes = sketch.knobs.choice(f"{sketch.name(tensor)}.lanes", many)
    in_lanes(sketch, partial, lanes, rounds)
    return lanes if fixed else 0


def _combine(sketch: Sketch, tensor: Tensor, count: int, lanes: int) -> None:
    """Schedule the sum of ``count`` parts: in lanes, and in threads if it is much work."""
    much = results(sketch, tensor) * count >= LEAST_STEPS
    axes = sketch.op(tensor).axis
    if much and not lanes:
        length = sketch.extents(axes[sketch.last(tensor) :])[:1]
        lanes = min(sketch.width(tensor), *length) if length else 0
    outer = in_lanes(sketch, tensor, lanes) if lanes > 1 else list(axes)
    if much and outer:
        sketch.s[tensor].parallel(fused(sketch.s, tensor, outer))


__all__ = [
    "LEAST_RUN",
    "few_results",
    "fills_lanes",
    "first",
    "part_counts",
    "parts",
    "run_of",
    "too_few",
    "whole_vectors",
]
