"""The choice of where a stage is computed: at root, or at a loop of the nest that reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.sketch import Home, OuterLoops, Sketch, Spot
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.expr.simplify import to_lin

# the most times that the same elements may be computed, as by each of a few threads
MOST_COPIES = 2


def spot_of(sketch: Sketch, tensor: Tensor) -> Spot | None:
    """Choose the loop at which ``tensor`` is computed; ``None`` is root.

    A loop is possible only if one nest has all readers.
    """
    readers = sketch.consumers(tensor)
    homes = [sketch.home[r] for r in readers if r in sketch.home]
    nests = {id(home.nest) for home in homes}
    given = any(t in sketch.s.outputs for t in sketch.s[tensor].outputs)
    if given or len(homes) < len(readers) or len(nests) != 1:
        return None
    if not homes[0].nest.levels:
        return None
    reads = [
        (read, home)
        for reader, home in zip(readers, homes) for read in sketch.reads(reader)
        if read.tensor in sketch.s[tensor].outputs
    ]  # fmt: skip
    return place(sketch, tensor, reads, homes[0].nest)


def place(
    sketch: Sketch, tensor: Tensor, reads: Sequence[tuple[Access, Home]], nest: OuterLoops
) -> Spot | None:
    """Choose a loop of ``nest``, which has the readers, for ``tensor``; ``None`` is root."""
    legal = set(range(len(nest.levels)))
    for read, home in reads:
        legal &= set(_legal_levels(read, home))
    more = {at: _recomputed(sketch, tensor, reads, nest, at) for at in legal}
    options = [at for at in sorted(legal) if sketch.worth_measuring(sketch.recomputed + more[at])]
    at = sketch.knobs.choice(f"{sketch.name(tensor)}.at", [-1, *options])
    sketch.recomputed += more.get(at, 0)
    return None if at < 0 else Spot(nest, nest.levels[at])


def _recomputed(
    sketch: Sketch, tensor: Tensor, reads: Sequence[tuple[Access, Home]], nest: OuterLoops, at: int
) -> float:
    """Return the operations repeated because neighbouring iterations of a level read the same.

    For example, if a reader of 100 rows is split into 10 iterations, and each of them also reads
    one row above and one below its own, then 10 * 12 rows are computed instead of 102.
    """
    iterations = nest.iterations(nest.levels[at])
    # the lengths of the readers' axes, and the part of each in one iteration
    lengths: dict[Axis, int] = {}
    shares: dict[Axis, int] = {}
    for read, home in reads:
        for axis in read.axes():
            lengths[axis] = shares[axis] = sketch.extents([axis])[0]
        for along, axis in home.along.items():
            lengths[axis] = sketch.extents([axis])[0]
            shares[axis] = -(-lengths[axis] // iterations.get(along, 1))
    # reads by several stages have different axes and count as no repetition here; the lowered
    # candidate shows all of its work
    read, home = reads[0]
    points = 1.0
    for dimension in range(tensor.ndim):
        each, total = (_box_extent(reads, dimension, known) for known in (shares, lengths))
        if each is not None and total is not None:
            count = prod(
                iterations.get(along, 1) for along, axis in home.along.items()
                if read.depends(dimension, [axis])
            )  # fmt: skip
            points *= max(1.0, count * each / total)
    return sketch.work(tensor, sketch.inlined) * (points - 1)


def _box_extent(
    reads: Sequence[tuple[Access, Home]], dimension: int, lengths: Mapping[Axis, int]
) -> int | None:
    """Return the extent of the box of all reads in a dimension.

    Returns ``None`` unless the indices differ only by constants.
    """
    found = [to_lin(read.indices[dimension]) for read, _ in reads]
    moving = [{p: n for p, n in lin.terms.items() if p} for lin in found]
    if any(m != moving[0] for m in moving):
        return None
    ends = [lin.terms.get((), 0) for lin in found]
    extent = max(ends) - min(ends) + 1
    for product, step in moving[0].items():
        axis = product[0]
        if len(product) != 1 or not isinstance(axis, Axis) or axis not in lengths:
            return None
        extent += abs(step) * (lengths[axis] - 1)
    return extent


def _legal_levels(read: Access, home: Home) -> list[int]:
    """Return the levels at which a read tensor can be computed without repeating most of it."""
    inside = home.nest.levels[: home.depth]
    if not home.along:
        # the axes are unknown: the lowered candidate shows its repeated work
        return list(range(len(inside)))
    found, copies = [], 1
    for at, level in enumerate(inside):
        axes = [home.along[p] for p in level.along if p in home.along]
        if all(read.fixed(axis) for axis in axes):
            copies *= level.extent
        if copies > MOST_COPIES:
            break
        found.append(at)
    return found
