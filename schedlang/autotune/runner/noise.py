"""Timing on a shared machine: samples that other processes disturbed do not count."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from schedlang.runtime.timing import SHORTEST, TICK, quantile

# undisturbed samples to wait for, while there is time
LEAST = 3
# the fewest calls, unless one is short enough
FEWEST_CALLS = 3
# interruptions that take at most this part of a call are ignored
LITTLE = 0.02


class Time(NamedTuple):
    """The seconds of a call; ``quiet`` is True if any of its samples was undisturbed."""

    seconds: float
    quiet: bool


def least_of_calls(
    call: Callable[[], object], enough: float, patience: float, interruptions: Callable[[], int]
) -> Time:
    """Return the seconds of the shortest of a few calls, stopping at one of at most ``enough``.

    If another process runs on a core that a parallel call needs, the call waits for a tick, and so
    do the next ones, until the system moves that process. So while all calls take a tick or more,
    they are repeated for ``patience`` seconds.
    """
    start, calls, shortest, quiet = perf_counter(), 0, float("inf"), False
    while shortest > enough and (shortest > TICK or calls < FEWEST_CALLS):
        found = one_call(call, interruptions)
        shortest, calls = min(shortest, found.seconds), calls + 1
        quiet = quiet or found.quiet
        if perf_counter() - start > patience:
            break
    return Time(shortest, quiet)


def one_call(call: Callable[[], object], interruptions: Callable[[], int]) -> Time:
    """Return the seconds of one call, quiet if a tick per interruption is little of its time."""
    before = interruptions()
    seconds = _timed(call, 1)
    return Time(seconds, (interruptions() - before) * TICK <= LITTLE * seconds)


def undisturbed_median(
    call: Callable[[], object], window: float, patience: float, interruptions: Callable[[], int]
) -> Time:
    """Return the median seconds of one call, over samples without an interruption.

    A parallel kernel waits for its last thread, so one preempted thread makes a call take a tick of
    the system's scheduler, many times its own time. The samples last ``window`` seconds together,
    and up to ``patience`` seconds while few are undisturbed. If none is, the result is the shortest
    sample. ``interruptions`` returns how often this process has been preempted so far.

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
