"""The level of simulated caches that serves each access, and the distances of reuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from schedlang.counting.caches import cache_model
from schedlang.counting.trace import Trace
from schedlang.host import LINE, Cache
from schedlang.runtime.counted import probe_module


def serving_levels(trace: Trace, caches: Sequence[Cache]) -> np.ndarray:
    """Return the level that serves each access, int8: 0 for the first, ``len(caches)`` for memory.

    The caches are as in :meth:`~schedlang.runtime.kernel.Kernel.counters`, empty at first. An
    access of two lines is served by the farther one.
    """
    report = probe_module("caches").report
    model = cache_model(caches, sites=1)
    # the misses of each level are the last entries, one for each
    misses = model[len(model) - len(caches) :]
    levels = np.zeros(len(trace), np.int8)
    for at, (line, kind) in _lines(trace):
        before = int(misses.sum())
        report(model, line * LINE, LINE, kind, 0)
        levels[at] = max(levels[at], int(misses.sum()) - before)
    levels[trace.kind == 3] = len(caches)
    return levels


def reuse_distances(trace: Trace) -> np.ndarray:
    """Return for each access the distinct lines since the last access to its line, int64.

    It is -1 for the first access to a line. A cache of n lines that drops the least recently used
    one, in one set, serves the accesses with less than n. Source: Mattson et al., "Evaluation
    techniques for storage hierarchies", IBM Systems Journal 1970; with the binary indexed tree of
    Bennett and Kruskal, "LRU stack processing", IBM Journal of Research and Development 1975.
    """
    lines = (trace.address // LINE).tolist()
    count = len(lines)
    tree, last, distances = [0] * (count + 1), dict[int, int](), []

    def add(at: int, amount: int) -> None:
        at += 1
        while at <= count:
            tree[at] += amount
            at += at & -at

    def before(at: int) -> int:
        total = 0
        while at > 0:
            total += tree[at]
            at -= at & -at
        return total

    for now, line in enumerate(lines):
        then = last.get(line)
        distances.append(-1 if then is None else before(now) - before(then + 1))
        if then is not None:
            add(then, -1)
        add(now, 1)
        last[line] = now
    return np.array(distances, np.int64)


def _lines(trace: Trace) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the number of each access with each line that it touches, and its kind."""
    first = trace.address // LINE
    last = (trace.address + trace.size - 1) // LINE
    for at, (one, other, kind) in enumerate(
        zip(first.tolist(), last.tolist(), trace.kind.tolist())
    ):
        for line in range(one, other + 1):
            yield at, (line, kind)
