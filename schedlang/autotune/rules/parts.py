"""Few results of a long reduction: each thread reduces parts of it, then these are combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.lanes import in_lanes, lanes_along, partial_in_lanes, vector_counts
from schedlang.autotune.rules.nest import LEAST_STEPS, fused
from schedlang.autotune.rules.sketch import Home, Level, OuterLoops, Sketch
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis

# parts a thread: enough to even out threads that others interrupt
PARTS = (1, 4)
# results are few if each thread has no more vectors of them than this
FEW_VECTORS = 4
# a run of steps shorter than so many vectors is not worth partial results
LEAST_RUN = 2
# rounds in which parts take their steps, where these are no multiple of all parts
ROUNDS = 128
# vectors of partial results side by side
MOST_VECTORS = 8


def few_results(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether threads may share the steps of a reduction better than its results."""
    return results(sketch, tensor) <= FEW_VECTORS * sketch.width(tensor) * sketch.threads


def too_few(sketch: Sketch, tensor: Tensor) -> bool:
    """Return whether there are fewer results than threads."""
    return results(sketch, tensor) < sketch.threads


def results(sketch: Sketch, tensor: Tensor) -> int:
    """Return how many results a reduction has."""
    return prod(sketch.extents(sketch.op(tensor).axis))


def part_counts(sketch: Sketch, tensor: Tensor) -> list[int]:
    """Return into how many parts for each thread the steps of a result can be cut.

    The list is empty where the steps are few, and for what a scan computes at each moment: threads
    would start at each.
    """
    if sketch.threads == 1 or sketch.held(tensor) or sketch.evaluations(tensor) < LEAST_STEPS:
        return []
    run = run_of(sketch, tensor)
    shared = _shared(sketch, tensor, run)
    steps, length = (prod(sketch.extents(a)) for a in (sketch.op(tensor).reduce_axis, shared))
    least = LEAST_RUN * sketch.width(tensor)
    each = least if shared == run else 1
    counts = {n: n * sketch.threads for n in PARTS}
    return [n for n, c in counts.items() if steps >= c * least and length >= c * each]


def parts(sketch: Sketch, tensor: Tensor) -> None:
    """Split the steps among threads; vectorize along a run of steps or along the last data axis."""
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
    whole = _whole(sketch, shared, count, lanes if shared == run else 1)
    part = _dealt(sketch, tensor, shared, count, whole)
    outside = len(sketch.op(tensor).reduce_axis) - len(run) if shared == run else 0
    partial = first(s.rfactor(tensor, part))
    sketch.done |= {tensor, partial}
    nest = sketch.leads(partial, [Level(s[partial].op.axis[0], (0,), count)])
    rounds = {outside: whole[0]} if whole else {}
    if lanes:
        # one loop is left of a run that is shared
        left = 1 if shared == run else len(run)
        _run_in_lanes(sketch, partial, left, lanes, nest, rounds)
        lanes = 0
    else:
        lanes = _results_in_lanes(sketch, tensor, partial, rounds)
    _combined(sketch, tensor, count, lanes)
    s[partial].parallel(nest.levels[0].loop)


def first(made: Tensor | list[Tensor]) -> Tensor:
    """Return the first output of what rfactor made of one or of several."""
    return made[0] if isinstance(made, list) else made


def _whole(sketch: Sketch, shared: list[Axis], count: int, lanes: int) -> tuple[int, int] | None:
    """Return how many full rounds share out the steps, and how many steps a part takes in each.

    ``None`` if parts of equal length, of whole vectors, cover all steps.
    """
    length = prod(sketch.extents(shared))
    fixed = all(isinstance(axis.extent, int) for axis in shared)
    if not fixed or length % (count * max(1, lanes)) == 0:
        return None
    unit = max(1, lanes)
    block = max(1, length // (count * ROUNDS * unit)) * unit
    rounds = length // (count * block)
    return (rounds, block) if rounds > 1 else None


def _dealt(
    sketch: Sketch, tensor: Tensor, shared: list[Axis], count: int, whole: tuple[int, int] | None
) -> Axis:
    """Return the loop over parts of the steps.

    A part is contiguous, or takes one block in each round. With rounds all parts have the same
    number of steps except in the last one. A contiguous last part would be shorter, so that every
    step of every part would need a test, with sums in memory.
    """
    view = sketch.s[tensor]
    steps = fused(sketch.s, tensor, shared)
    if whole is None:
        return view.split(steps, nparts=count)[0]
    blocks, _ = view.split(steps, factor=whole[1])
    return view.split(blocks, factor=count)[1]


def run_of(sketch: Sketch, tensor: Tensor) -> list[Axis]:
    """Return the last reduction axes that as one go through memory element by element; the most.

    Of the last one alone vectors may hold what is read in another way, see :func:`fills_lanes`.
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
    """Return the ``counts`` of vectors over which quotients and remainders read as over one.

    Longer lanes would gather what one vector loads at once. If no count qualifies, all are
    returned.
    """
    width, reads = sketch.width(tensor), sketch.reads(tensor)

    def kind(read: Access, lanes: int) -> tuple[bool, bool]:
        return read.fixed(axis, lanes), read.contiguous(axis, lanes)

    one = [kind(read, width) for read in reads]
    return [n for n in counts if [kind(r, n * width) for r in reads] == one] or list(counts)


def _shared(sketch: Sketch, tensor: Tensor, run: list[Axis]) -> list[Axis]:
    """Return the neighbouring reduction axes that threads share: the outermost, if these are
    enough."""
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
    """Vectorize partial results of the last ``left`` reduction axes, for one result at a time."""
    s = sketch.s
    run = fused(s, partial, s[partial].op.reduce_axis[-left:])
    over, lane = s[partial].split(run, factor=lanes)
    length = sketch.extents([run])[0]
    near = first(s.rfactor(partial, lane, factor_axis=len(s[partial].op.axis)))
    s[near].set_scope("local")
    part, *data = s[partial].op.axis
    s[near].compute_at(s[partial], next((a for a in reversed(data) if sketch.long(a)), part))
    sketch.done.add(near)
    sketch.home[near] = Home(nest, dict(enumerate(s[near].op.axis[:-1])))
    last = len(sketch.op(near).reduce_axis) - 1
    whole = {last: length // lanes} if isinstance(over.extent, int) else {}
    partial_in_lanes(sketch, near, whole={**whole, **rounds})


def _results_in_lanes(
    sketch: Sketch, tensor: Tensor, partial: Tensor, rounds: Mapping[int, int]
) -> int:
    """Return the last data axis of the partial results in so many lanes, 0 for none."""
    last = sketch.last(partial)
    axis = sketch.op(partial).axis[last]
    length = sketch.extents([axis])[0]
    if last == 0 or length == 1:
        return 0
    if not any(r.contiguous(axis) for r in sketch.reads(partial)):
        return 0
    fixed = isinstance(axis.extent, int)
    if not fixed and not sketch.fills(partial, length, sketch.width(tensor)):
        return 0
    many = lanes_along(length, sketch.width(tensor), MOST_VECTORS, fixed)
    lanes = sketch.knobs.choice(f"{sketch.name(tensor)}.lanes", many)
    in_lanes(sketch, partial, lanes, rounds)
    return lanes if fixed else 0


def _combined(sketch: Sketch, tensor: Tensor, count: int, lanes: int) -> None:
    """Schedule the sum of ``count`` parts: in lanes, and in threads where that is work."""
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
