"""The choice of where a stage is computed: at root, or at a loop of the nest that reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.access import Access
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves, second
from schedlang.autotune.tactics.scheduled import AttachPoint, OuterLoops, Placement, Scheduled
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin, Mod
from schedlang.index.simplify import to_lin
from schedlang.schedule.schedule import Schedule

# the most times that the same elements may be computed, for example by each of a few threads nobody
# has measured this value
MOST_COPIES = 2
KNOBS = (
    Knob(
        "C.at",
        "loops, from 0; −1",
        "the loop of its reader at which the stage is computed; −1 is root",
        Moves(rank=8, inside=second, places=True),
    ),
)


def attach_point(stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Choose the loop at which a stage is computed, or root.

    A loop is possible only if one nest has all readers.
    """
    readers, placed = stage.consumers, stage.flow.decided.placements
    places = [placed[r] for r in readers if r in placed]
    nests = {id(place.nest) for place in places}
    if stage.stays or len(places) < len(readers) or len(nests) != 1:
        return Scheduled()
    if not places[0].nest.levels:
        return Scheduled()
    reads = _reads_of(stage, readers, places)
    return attach_inside(stage, reads, places[0].nest, knobs)


def _reads_of(
    stage: StageFacts, readers: Sequence[Tensor], places: Sequence[Placement]
) -> list[tuple[Access, Placement]]:
    """Return the reads of a stage, each with the place of its reader."""
    return [
        (read, place)
        for reader, place in zip(readers, places)
        for read in stage.flow.stage(reader).reads
        if read.tensor in stage.stage.outputs
    ]


def call_point(stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Choose the loop at which a user's function computes the boxes of a stage, or root.

    A loop is possible only if one nest has all readers, and if no element is computed twice there:
    nobody knows what that costs.
    """
    readers, placed = stage.consumers, stage.flow.decided.placements
    places = [placed[r] for r in readers if r in placed]
    nests = {id(place.nest) for place in places}
    if stage.is_output or len(places) < len(readers) or len(nests) != 1:
        return Scheduled()
    nest, reads = places[0].nest, _reads_of(stage, readers, places)
    legal = set(range(len(nest.levels)))
    for read, place in reads:
        legal &= set(_legal_levels(read, place))
    options = [at for at in sorted(legal) if not _repetition(stage, reads, nest, at)]
    if not options:
        return Scheduled()
    at = knobs.choice(f"{stage.name}.at", [-1, *options])
    if at < 0:
        return Scheduled()
    return Scheduled(attached={stage.tensor: AttachPoint(nest, nest.levels[at])})


def attach_inside(
    stage: StageFacts, reads: Sequence[tuple[Access, Placement]], nest: OuterLoops, knobs: Knobs,
    recomputed: float = 0,
) -> Scheduled:  # fmt: skip
    """Choose a loop of ``nest``, which has the readers, for a stage, or root.

    ``recomputed`` counts operations that are repeated beside those that the decisions so far
    repeat.
    """
    legal = set(range(len(nest.levels)))
    for read, place in reads:
        legal &= set(_legal_levels(read, place))
    before = stage.flow.decided.recomputed + recomputed
    more = {at: _repeated_operations(stage, reads, nest, at) for at in legal}
    options = [at for at in sorted(legal) if stage.problem.worth_measuring(before + more[at])]
    at = knobs.choice(f"{stage.name}.at", [-1, *options])
    if at < 0:
        return Scheduled()
    point = AttachPoint(nest, nest.levels[at])
    return Scheduled(attached={stage.tensor: point}, recomputed=more[at])


def attach(s: Schedule, stage: StageFacts, point: AttachPoint | None) -> None:
    """Compute a stage at a loop, if one is given."""
    if point is not None:
        s[stage.tensor].compute_at(s[point.nest.head], point.level.loop)


def inside(s: Schedule, tensor: Tensor, nest: OuterLoops) -> None:
    """Compute a stage in the innermost loop of a nest, if it has one."""
    if nest.levels:
        s[tensor].compute_at(s[nest.head], nest.levels[-1].loop)


def inherited_placement(stage: StageFacts) -> Placement | None:
    """Return the place of a stage that is attached to the nest of all its readers.

    At loops around it, its producers may be computed, too.
    """
    point, placed = stage.attached, stage.flow.decided.placements
    places = [placed.get(reader) for reader in stage.consumers]
    if point is None or not places:
        return None
    # the axis of the stage that each data axis of the head moves; None where readers disagree
    moved: dict[int, Axis | None] = {}
    for reader, place in zip(stage.consumers, places):
        if place is None or place.nest is not point.nest:
            return None
        for read in stage.flow.stage(reader).reads:
            if read.tensor not in stage.stage.outputs:
                continue
            indices = [to_lin(index) for index in read.indices]
            for position, axis in place.along.items():
                dims = [d for d, index in enumerate(indices) if _moves(index, axis)]
                own = stage.op.axis[dims[0]] if len(dims) == 1 else None
                if moved.setdefault(position, own) is not own:
                    moved[position] = None
    along = {position: axis for position, axis in moved.items() if axis is not None}
    return Placement(point.nest, along, point.nest.levels.index(point.level) + 1)


def _moves(index: Lin, axis: Axis) -> bool:
    """Return whether an index moves with whole tiles of an axis: ``y // 4``, not ``y % 4``."""
    return any(
        Lin.of(atom).depends_on({axis}) for atom in index.atoms() if not isinstance(atom, Mod)
    )


def _repeated_operations(
    stage: StageFacts, reads: Sequence[tuple[Access, Placement]], nest: OuterLoops, at: int
) -> float:
    """Return the operations repeated because neighbouring iterations of a level read the same.

    For example, if a reader of 100 rows is split into 10 iterations, and each of them also reads
    one row above and one below its own, then 10 * 12 rows are computed instead of 102.
    """
    return stage.work(stage.flow.decided.inlined) * _repetition(stage, reads, nest, at)


def _repetition(
    stage: StageFacts, reads: Sequence[tuple[Access, Placement]], nest: OuterLoops, at: int
) -> float:
    """Return how many elements are computed again at a level, as a part of all of them."""
    iterations = nest.iterations(nest.levels[at])
    # the lengths of the readers' axes, and the part of each in one iteration
    lengths: dict[Axis, int] = {}
    shares: dict[Axis, int] = {}
    for read, place in reads:
        for axis in read.axes():
            lengths[axis] = shares[axis] = stage.extents([axis])[0]
        for along, axis in place.along.items():
            lengths[axis] = stage.extents([axis])[0]
            shares[axis] = -(-lengths[axis] // iterations.get(along, 1))
    # reads by several stages have different axes and count as no repetition here; the lowered
    # candidate shows all of its work
    read, place = reads[0]
    points = 1.0
    for dimension in range(stage.tensor.ndim):
        each, total = (_box_extent(reads, dimension, known) for known in (shares, lengths))
        if each is not None and total is not None:
            count = prod(
                iterations.get(along, 1)
                for along, axis in place.along.items()
                if read.depends(dimension, [axis])
            )
            points *= max(1.0, count * each / total)
    return points - 1


def _box_extent(
    reads: Sequence[tuple[Access, Placement]], dimension: int, lengths: Mapping[Axis, int]
) -> int | None:
    """Return the extent of the box of all reads in a dimension.

    Return ``None`` unless the indices differ only by constants.
    """
    indices = [to_lin(read.indices[dimension]) for read, _ in reads]
    moving = [{p: n for p, n in lin.terms.items() if p} for lin in indices]
    if any(m != moving[0] for m in moving):
        return None
    ends = [lin.terms.get((), 0) for lin in indices]
    extent = max(ends) - min(ends) + 1
    for product, step in moving[0].items():
        axis = product[0]
        if len(product) != 1 or not isinstance(axis, Axis) or axis not in lengths:
            return None
        extent += abs(step) * (lengths[axis] - 1)
    return extent


def _legal_levels(read: Access, place: Placement) -> list[int]:
    """Return the levels at which a read tensor can be computed without repeating most of it."""
    inside = place.nest.levels[: place.depth]
    if not place.along:
        # the axes are unknown: the lowered candidate shows its repeated work
        return list(range(len(inside)))
    legal, copies = [], 1
    for at, level in enumerate(inside):
        axes = [place.along[p] for p in level.along if p in place.along]
        if all(read.fixed(axis) for axis in axes):
            copies *= level.extent
        if copies > MOST_COPIES:
            break
        legal.append(at)
    return legal
