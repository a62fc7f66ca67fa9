"""The elements that each thread of some blocks reads and writes, to find the most of any thread."""

from __future__ import annotations

import numpy as np

from schedlang.gpu_lowering.counters import Counters


class ThreadAccesses:
    """Counts of elements for each block and thread, by scope and direction."""

    def __init__(self, blocks: int, threads: int) -> None:
        self._shape = (blocks, threads)
        self._counts: dict[tuple[str, bool], np.ndarray] = {}

    def add(self, scope: str, stores: bool, active: np.ndarray | None, elements: int) -> None:
        """Count ``elements`` for the threads that are ``active``, or for all of them."""
        key = scope, stores
        if key not in self._counts:
            self._counts[key] = np.zeros(self._shape, np.int64)
        self._counts[key] += elements if active is None else active * np.int64(elements)

    def note(self, counters: Counters) -> None:
        """Raise the counters of single threads to the most that were counted."""
        for (scope, stores), counts in self._counts.items():
            name = f"most_{scope}_{'writes' if stores else 'reads'}"
            most = int(counts.max(initial=0))
            setattr(counters, name, max(getattr(counters, name), most))


__all__ = ["ThreadAccesses"]
