"""The bound on the arithmetic of a candidate."""

from __future__ import annotations

# a candidate with more than this many times the least arithmetic is not measured
MOST_WORK = 1.6
# so few operations that repeating them costs next to nothing
LITTLE = 1 << 16


def most_work(least: int) -> float:
    """Return the most operations that a candidate may have, where ``least`` are necessary.

    >>> most_work(1_000_000), most_work(1) > 100_000
    (1600000.0, True)
    """
    return MOST_WORK * max(least, LITTLE)
