"""The model that the probe ``caches`` works on, and what it found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schedlang.counting.probes import layout
from schedlang.host import LINE, Cache

# at most one line in this many neighbouring lines is simulated
MOST_LEFT_OUT = 32


@dataclass(frozen=True)
class Moved:
    """The result of a simulation: lines by level.

    ``into`` has a row for each level and a column for each site; ``written`` are the changed lines
    that each level wrote to the next; ``streamed`` are the bytes of stores that bypass the caches.
    One line in ``sampled`` was simulated, and the numbers are multiplied by that.
    """

    into: tuple[tuple[int, ...], ...]
    written: tuple[int, ...]
    streamed: int
    sampled: int


def cache_model(caches: Sequence[Cache], sites: int, sampled: int = 1) -> np.ndarray:
    """Return the model of empty caches for ``sites`` accesses, an int64 array.

    One line in ``sampled``, a power of two, is simulated, in caches with as many sets less.

    >>> cache_model((Cache(128, 1),), sites=1)[:10].tolist()
    [1, 0, 0, 0, 2, 1, 1, 10, 12, 0]
    """
    fields = layout.FIRST + layout.FIELDS * len(caches)
    sizes = [max(1, c.sets // sampled) * c.ways for c in caches]
    model = np.zeros(fields + sum(sizes) + sites * len(caches), np.int64)
    model[layout.LEVELS] = len(caches)
    model[layout.SHIFT] = sampled.bit_length() - 1
    lines, misses = fields, fields + sum(sizes)
    for level, (cache, size) in enumerate(zip(caches, sizes)):
        at = layout.FIRST + layout.FIELDS * level
        sets = size // cache.ways
        bits = sets - 1 if sets & (sets - 1) == 0 else -1
        model[at : at + 5] = sets, bits, cache.ways, lines, misses
        model[lines : lines + size] = -1
        lines, misses = lines + size, misses + sites
    return model


def moved_lines(model: np.ndarray, sites: int) -> Moved:
    """Return what a simulation left in ``model``."""
    each = 1 << int(model[layout.SHIFT])
    into, written_back = [], []
    for level in range(int(model[layout.LEVELS])):
        at = layout.FIRST + layout.FIELDS * level
        first = int(model[at + layout.MISSES])
        into.append(tuple((model[first : first + sites] * each).tolist()))
        written_back.append(int(model[at + layout.WRITTEN]) * each)
    return Moved(tuple(into), tuple(written_back), int(model[layout.STREAMED]), each)


def share(requests: int, most: int) -> int:
    """Return of how many lines one is simulated, so that about ``most`` accesses are.

    >>> share(1000, most=1000), share(1001, most=1000), share(10**12, most=1000)
    (1, 2, 32)
    """
    every = 1
    while requests > most * every and every < MOST_LEFT_OUT:
        every *= 2
    return every


def addresses(sizes: Sequence[tuple[int, bool]]) -> list[int]:
    """Return an address for each array, from its bytes and whether it is an argument.

    An argument begins a page of 4 KiB, scratch storage a cache line. No two arrays share a line.

    >>> [at - addresses([(1, True)])[0] for at in addresses([(100, True), (4, True), (8, False)])]
    [0, 4096, 4160]
    """
    # well above 0, so that a prefetch before an array has an address, too
    places, free = [], 1 << 40
    for size, argument in sizes:
        step = 4096 if argument else LINE
        free = -(-free // step) * step
        places.append(free)
        free += max(size, 1)
    return places
