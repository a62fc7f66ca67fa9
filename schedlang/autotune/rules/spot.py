"""Where a stage is computed: ahead of the nest that reads it, or in one of its loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.sketch import Home, OuterLoops, Sketch, Spot
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.expr.simplify import to_lin

# a copy may be made this many times over, as by each of a few threads
MOST_COPIES = 2


def spot_of(sketch: Sketch, tensor: Tensor) -> Spot | None:
    """Return a loop of the one nest that reads ``tensor``, as a knob says; ``None`` is the root."""
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
    """Return a loop of ``nest``, in which the readers stand, as a knob says.

    ``None`` is ahead of it.
    """
    legal = set(range(len(nest.levels)))
    for read, home in reads:
        legal &= set(_places(read, home))
    more = {at: _again(sketch, tensor, reads, nest, at) for at in legal}
    little = [at for at in sorted(legal) if sketch.affords(sketch.again + more[at])]
    at = sketch.knobs.choice(f"{sketch.name(tensor)}.at", [-1, *little])
    sketch.again += more.get(at, 0)
    return None if at < 0 else Spot(nest, nest.levels[at])


def _again(
    sketch: Sketch, tensor: Tensor, reads: Sequence[tuple[Access, Home]], nest: OuterLoops, at: int
) -> float:
    """Return the operations repeated because neighbouring iterations of a level read the same.

    Where a stage is computed in a loop of 10 iterations over the 100 rows of its reader, and each
    reads from one row above its own 10 to one below them, 10 * 12 rows are computed of 102.
    """
    iterations = nest.iterations(nest.levels[at])
    # the lengths of the readers' axes, and what one iteration has of each
    lengths: dict[Axis, int] = {}
    shares: dict[Axis, int] = {}
    for read, home in reads:
        for axis in read.axes():
            lengths[axis] = shares[axis] = sketch.extents([axis])[0]
        for along, axis in home.along.items():
            lengths[axis] = sketch.extents([axis])[0]
            shares[axis] = -(-lengths[axis] // iterations.get(along, 1))
    # reads of several stages go by axes of their own: they move apart, and count as no repetition
    # here; what a candidate does in all is counted once it is lowered
    read, home = reads[0]
    points = 1.0
    for dimension in range(tensor.ndim):
        each, total = (_reach(reads, dimension, known) for known in (shares, lengths))
        if each is not None and total is not None:
            count = prod(
                iterations.get(along, 1) for along, axis in home.along.items()
                if read.depends(dimension, [axis])
            )  # fmt: skip
            points *= max(1.0, count * each / total)
    return sketch.work(tensor, sketch.inlined) * (points - 1)


def _reach(
    reads: Sequence[tuple[Access, Home]], dimension: int, lengths: Mapping[Axis, int]
) -> int | None:
    """Return how many indices of a dimension all reads reach together; ``None``: they move
    apart."""
    found = [to_lin(read.indices[dimension]) for read, _ in reads]
    moving = [{p: n for p, n in lin.terms.items() if p} for lin in found]
    if any(m != moving[0] for m in moving):
        return None
    ends = [lin.terms.get((), 0) for lin in found]
    reach = max(ends) - min(ends) + 1
    for product, step in moving[0].items():
        axis = product[0]
        if len(product) != 1 or not isinstance(axis, Axis) or axis not in lengths:
            return None
        reach += abs(step) * (lengths[axis] - 1)
    return reach


def _places(read: Access, home: Home) -> list[int]:
    """Return the levels at which what is read can be made without making most of it many times."""
    inside = home.nest.levels[: home.depth]
    if not home.along:
        # nothing is known of the axes: what is computed again shows when candidates are counted
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
