"""Timing on a machine that others use too: samples that another process cut into do not count."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from schedlang.runtime.timing import SHORTEST, quantile

# undisturbed samples that a time waits for, while there is time
LEAST = 3
# calls that are tried for one that is short, and the least that one takes which is held up
TRIED, TICK = 3, 2.5e-3
# the part of a call that does not count
LITTLE = 0.02


class Time(NamedTuple):
    """Seconds of a call; ``quiet`` tells whether any of the samples was undisturbed."""

    seconds: float
    quiet: bool


def least_of_calls(
    call: Callable[[], object], enough: float, patience: float, interruptions: Callable[[], int]
) -> Time:
    """Return the seconds of the shortest of a few calls; one of at most ``enough`` will do.

    A parallel call that finds another process where its threads should run waits for a tick, and so
    do the next ones, until the system has put that process elsewhere. So calls that take a tick or
    more are tried for ``patience`` seconds.
    """
    start, tried, shortest, quiet = perf_counter(), 0, float("inf"), False
    while shortest > enough and (shortest > TICK or tried < TRIED):
        found = one_call(call, interruptions)
        shortest, tried = min(shortest, found.seconds), tried + 1
        quiet = quiet or found.quiet
        if perf_counter() - start > patience:
            break
    return Time(shortest, quiet)


def one_call(call: Callable[[], object], interruptions: Callable[[], int]) -> Time:
    """Return the seconds of one call; a tick for each interruption is too little of a long one."""
    before = interruptions()
    seconds = _timed(call, 1)
    return Time(seconds, (interruptions() - before) * TICK <= LITTLE * seconds)


def undisturbed_median(
    call: Callable[[], object], window: float, patience: float, interruptions: Callable[[], int]
) -> Time:
    """Return the median seconds of one call, over samples in which nobody took a core away.

    A parallel kernel waits for its last thread: one thread that is put aside makes a call take a
    tick of the system's scheduler, many times its own time. Samples last ``window`` seconds
    together, and up to ``patience`` while few are undisturbed; if none is, the least sample is the
    answer. ``interruptions`` counts how often this process lost a core so far.

    >>> found = undisturbed_median(lambda: None, 0.001, 0.002, lambda: 0)
    >>> found.seconds < 1e-3, found.quiet
    (True, True)
    """
    call()
    batch, seconds = 1, _timed(call, 1)
    while seconds < SHORTEST:
        batch = max(batch * 2, int(batch * SHORTEST / max(seconds, 1e-9)))
        seconds = _timed(call, batch)
    quiet: list[float] = []
    every: list[float] = []
    start = perf_counter()
    while True:
        before = interruptions()
        every.append(_timed(call, batch) / batch)
        if interruptions() == before:
            quiet.append(every[-1])
        spent = perf_counter() - start
        if (spent >= window and len(quiet) >= LEAST) or spent >= patience:
            return Time(quantile(quiet, 0.5) if quiet else min(every), bool(quiet))


def _timed(call: Callable[[], object], batch: int) -> float:
    start = perf_counter()
    for _ in range(batch):
        call()
    return perf_counter() - start


def lost_cores() -> int:
    """Return how often other processes took a core from this one.

    0 where the system does not count.
    """
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
