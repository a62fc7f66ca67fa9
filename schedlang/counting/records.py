"""The counts of a kernel: of a line of its nest, a loop, a stage, or all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlang.counting.work import Work


@dataclass(frozen=True)
class Counts:
    """Loads, stores, arithmetic and lines moved.

    ``runs``
        how often the line runs; for a loop, its iterations
    ``evaluations``
        the elements that were computed. A reduction counts the start of each sum and each update.
    ``loads``, ``stores``
        elements read and written; a vector of 8 lanes reads 8
    ``load_requests``, ``store_requests``
        instructions that read and write; a vector is one, gathered or not. A function of yours
        counts none, and its ``loads`` and ``stores`` are the elements of its boxes.
    ``loaded_bytes``, ``stored_bytes``
        the bytes of those elements
    ``prefetches``
        elements whose cache line was prefetched
    ``operations``
        how often each operation ran, by its name and type. A vector's operation is one.
    ``allocated_bytes``, ``peak_bytes``
        bytes of scratch storage: of all allocations together, and at most at one time
    ``lines``
        cache lines of 64 bytes brought into each level, the first level first; empty if the caches
        were not simulated

    >>> Counts(loads=4, lines=(1, 1)) + Counts(loads=2, lines=(2, 0)) == Counts(
    ...     loads=6, lines=(3, 1))
    True
    """

    runs: int = 0
    evaluations: int = 0
    loads: int = 0
    stores: int = 0
    load_requests: int = 0
    store_requests: int = 0
    loaded_bytes: int = 0
    stored_bytes: int = 0
    prefetches: int = 0
    operations: Mapping[Work, int] = field(default_factory=dict)
    allocated_bytes: int = 0
    peak_bytes: int = 0
    lines: tuple[int, ...] = ()

    @property
    def scalar(self) -> int:
        """Operations on scalars."""
        return sum(n for work, n in self.operations.items() if not work.lanes)

    @property
    def vector(self) -> int:
        """Operations on vectors, each counted once for all its lanes."""
        return sum(n for work, n in self.operations.items() if work.lanes)

    @property
    def arithmetic(self) -> dict[str, int]:
        """Operations by type: ``float32`` of scalars, ``float32x8`` of vectors of 8 lanes."""
        by_type: Counter[str] = Counter()
        for work, times in self.operations.items():
            by_type[str(work.type)] += times
        return dict(sorted(by_type.items()))

    @property
    def calls(self) -> dict[str, int]:
        """Elements that each function was computed for, such as ``sin``; operators are none."""
        by_name: Counter[str] = Counter()
        for work, times in self.operations.items():
            if work.name.isidentifier():
                by_name[work.name] += times * max(work.lanes, 1)
        return dict(sorted(by_name.items()))

    def __add__(self, other: Counts) -> Counts:
        """Return the work of both; runs do not add up, and their storage lives at one time."""
        pair = self, other
        operations = Counter(self.operations)
        operations.update(other.operations)
        longer = max(self.lines, other.lines, key=len)
        lines = [c.lines or (0,) * len(longer) for c in pair]
        return Counts(
            evaluations=self.evaluations + other.evaluations,
            loads=self.loads + other.loads,
            stores=self.stores + other.stores,
            load_requests=self.load_requests + other.load_requests,
            store_requests=self.store_requests + other.store_requests,
            loaded_bytes=self.loaded_bytes + other.loaded_bytes,
            stored_bytes=self.stored_bytes + other.stored_bytes,
            prefetches=self.prefetches + other.prefetches,
            operations=dict(operations),
            allocated_bytes=self.allocated_bytes + other.allocated_bytes,
            peak_bytes=self.peak_bytes + other.peak_bytes,
            lines=tuple(a + b for a, b in zip(*lines)),
        )
