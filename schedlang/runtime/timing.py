"""Repeated timing of a call, statistics of the samples, and times as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

# the clock's resolution and cost distort shorter samples
SHORTEST = 2e-4
# the seconds of a tick of the system's scheduler
TICK = 2.5e-3


def samples(run: Callable[[], object], repeat: int = 5, min_time: float = 0.2) -> list[float]:
    """Return the seconds of calls: at least ``repeat`` of them, for at least ``min_time`` seconds.

    A call too short for the clock is timed in batches. The first call warms up and does not count.

    >>> len(samples(lambda: None, repeat=3, min_time=0.0))
    3
    """
    run()
    batch, seconds = 1, _once(run, 1)
    while seconds < SHORTEST:
        batch = max(batch * 2, int(batch * SHORTEST / max(seconds, 1e-9)))
        seconds = _once(run, batch)
    seconds_of_calls: list[float] = []
    start = perf_counter()
    while len(seconds_of_calls) < repeat or perf_counter() - start < min_time:
        seconds_of_calls.append(_once(run, batch) / batch)
    return seconds_of_calls


def _once(run: Callable[[], object], batch: int) -> float:
    start = perf_counter()
    for _ in range(batch):
        run()
    return perf_counter() - start


def quantile(values: Sequence[float], part: float) -> float:
    """Return the quantile ``part`` (0..1) of ``values``, interpolated between neighbours.

    >>> quantile([3.0, 1.0, 2.0, 5.0], 0.5)
    2.5
    """
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the median, and the interquartile range divided by it.

    >>> median_and_spread([1.0, 2.0, 3.0])
    (2.0, 0.5)
    """
    median = quantile(values, 0.5)
    width = quantile(values, 0.75) - quantile(values, 0.25)
    return median, width / median if median else 0.0


def lost_cores() -> int:
    """Return how often this process has been preempted; 0 if the system does not count it."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def number(value: float, digits: int = 3) -> str:
    """Return a number as text with ``digits`` digits, or with all digits before the point.

    Only very large and very small numbers get an exponent.

    >>> number(3.14159), number(1234.5), number(49999.6, 4), number(2.0), number(1e-7)
    ('3.14', '1234', '50000', '2', '1e-07')
    """
    if not 10.0 ** (digits - 1) <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    return f"{value:.0f}"


def duration(seconds: float) -> str:
    """Return a time as text, in a suitable unit.

    >>> duration(0.00123), duration(4.5e-7), duration(2.0), duration(1234.0)
    ('1.23 ms', '450 ns', '2 s', '1234 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds * 1e9)} ns"
