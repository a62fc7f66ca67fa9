"""The most arithmetic of a candidate that is worth a measurement."""

from __future__ import annotations

# more arithmetic than this many times the least is not worth a measurement
MOST_WORK = 1.6
# operations that cost next to nothing, however often they are repeated
LITTLE = 1 << 16


def most_work(least: int) -> float:
    """Return the most operations of a candidate for what takes ``least`` of them.

    >>> most_work(1_000_000), most_work(1) > 100_000
    (1600000.0, True)
    """
    return MOST_WORK * max(least, LITTLE)
