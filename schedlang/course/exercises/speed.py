"""The speed-up of one call over another, timed in turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedlang.runtime.timing import duration, number, samples

# turns of each call, the seconds of a turn, and how often a race that fails is run again
TURNS, SECONDS, RACES = 3, 0.02, 3


@dataclass(frozen=True)
class Race:
    """The fastest times of two calls, in seconds."""

    ours: float
    theirs: float

    @property
    def speedup(self) -> float:
        """The time of the other call over ours."""
        return self.theirs / self.ours

    def __str__(self) -> str:
        """Return the speedup and both times as text.

        >>> print(Race(1e-3, 0.112))
        112 times as fast (1 ms, not 112 ms)
        """
        times = f"{duration(self.ours)}, not {duration(self.theirs)}"
        return f"{number(self.speedup, 2)} times as fast ({times})"


def race(ours: Callable[[], object], theirs: Callable[[], object], wanted: float) -> Race:
    """Return the times of two calls, in turns; again, at most three times, below ``wanted``.

    The fastest sample of each counts, which other work on the machine disturbs least.

    >>> race(lambda: None, lambda: sum(range(10_000)), 2.0).speedup > 2
    True
    """
    fastest = Race(float("inf"), float("inf"))
    for _ in range(RACES):
        for _ in range(TURNS):
            fastest = Race(
                min(fastest.ours, *samples(ours, 3, SECONDS)),
                min(fastest.theirs, *samples(theirs, 3, SECONDS)),
            )
        if fastest.speedup >= wanted:
            break
    return fastest
