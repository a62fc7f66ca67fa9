"""Where a stage is computed: ahead of the nest that reads it, or in one of its loops."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.rules.access import Access
from schedlang.autotune.rules.sketch import Home, OuterLoops, Sketch, Spot
from schedlang.compute.tensor import Tensor

# a copy may be made this many times over, as by each of a few threads
MOST_COPIES = 2


def spot_of(sketch: Sketch, tensor: Tensor) -> Spot | None:
    """A loop of the one nest that reads ``tensor``, as a knob says; ``None`` is the root."""
    readers = sketch.consumers(tensor)
    homes = [sketch.home[r] for r in readers if r in sketch.home]
    nests = {id(home.nest) for home in homes}
    if tensor in sketch.s.outputs or len(homes) < len(readers) or len(nests) != 1:
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
    """A loop of ``nest``, in which the readers stand, as a knob says; ``None`` is ahead of it."""
    legal = set(range(len(nest.levels)))
    for read, home in reads:
        legal &= set(_places(read, home))
    at = sketch.knobs.choice(f"{sketch.name(tensor)}.at", [-1, *sorted(legal)])
    return None if at < 0 else Spot(nest, nest.levels[at])


def _places(read: Access, home: Home) -> list[int]:
    """The levels at which what is read can be made without making most of it many times."""
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
