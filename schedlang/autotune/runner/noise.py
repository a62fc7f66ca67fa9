"""Timing on a shared machine: samples that other processes disturbed do not count.

A call on one thread also has its thread's processor time, which other processes do not lengthen.
That counts where every sample is disturbed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import get_clock_info, perf_counter, thread_time
from typing import NamedTuple

from schedlang.runtime.timing import SHORTEST, TICK, quantile

# undisturbed samples to wait for, while there is time
LEAST = 3
# the fewest calls, unless one is short enough
FEWEST_CALLS = 3
# interruptions that take at most this part of a call are ignored
LITTLE = 0.02
# seconds of samples, several ticks, that show a call to be slow by itself
BRIEF = 4 * TICK


class Time(NamedTuple):
    """The seconds of a call; ``quiet`` is True if any of its samples was undisturbed."""

    seconds: float
    quiet: bool


class ProcessorTime(Time):
    """The processor time of the thread that made a call; no other work lengthens it."""

    __slots__ = ()


class Sample(NamedTuple):
    """The seconds of calls by the clock, and the processor time of the thread that made them."""

    seconds: float
    processor: float


@dataclass(frozen=True)
class OneThread:
    """A call that computes on the thread that makes it."""

    call: Callable[[], object]

    def __call__(self) -> object:
        return self.call()


def has_thread_clock() -> bool:
    """Return whether the system measures a thread's processor time finely enough for a sample."""
    return get_clock_info("thread_time").resolution <= LITTLE * SHORTEST


def least_of_calls(
    call: Callable[[], object], enough: float, patience: float, interruptions: Callable[[], int]
) -> Time:
    """Return the seconds of the shortest of a few calls, stopping at one of at most ``enough``.

    If another process runs on a core that a parallel call needs, the call waits for a tick, and so
    do the next ones, until the system moves that process. So while all calls take a tick or more,
    they are repeated for ``patience`` seconds.
    """
    start, calls, shortest, quiet = perf_counter(), 0, Time(float("inf"), False), False
    while shortest.seconds > enough and (shortest.seconds > TICK or calls < FEWEST_CALLS):
        latest = one_call(call, interruptions)
        shortest, calls = min(shortest, latest, key=lambda time: time.seconds), calls + 1
        quiet = quiet or latest.quiet
        if perf_counter() - start > patience:
            break
    return shortest._replace(quiet=quiet)


def one_call(call: Callable[[], object], interruptions: Callable[[], int]) -> Time:
    """Return the seconds of one call, quiet if a tick per interruption is little of its time.

    A disturbed call on one thread has its processor time.
    """
    before = interruptions()
    processor = _time_calls(call, 1)
    quiet = (interruptions() - before) * TICK <= LITTLE * processor.seconds
    if not quiet and isinstance(call, OneThread):
        return ProcessorTime(processor.processor, True)
    return Time(processor.seconds, quiet)


def undisturbed_median(
    call: Callable[[], object], window: float, patience: float,
    interruptions: Callable[[], int], behind: float = float("inf"),
) -> Time:  # fmt: skip
    """Return the median seconds of one call, over samples without an interruption.

    A parallel kernel waits for its last thread, so one preempted thread makes a call take a tick of
    the system's scheduler, many times its own time. The samples last ``window`` seconds together,
    and up to ``patience`` seconds while few are undisturbed. If none is, the result is the shortest
    sample, or of a call on one thread the median processor time. ``interruptions`` returns how
    often this process has been preempted so far. The samples end after :data:`BRIEF` seconds if
    each undisturbed one is longer than ``behind``, a time that is of no more interest.

    >>> found = undisturbed_median(lambda: None, 0.001, 0.002, lambda: 0)
    >>> found.seconds < 1e-3, found.quiet
    (True, True)
    """
    call()
    batch, seconds = 1, _time_calls(call, 1).seconds
    while seconds < SHORTEST:
        batch = max(batch * 2, int(batch * SHORTEST / max(seconds, 1e-9)))
        seconds = _time_calls(call, batch).seconds
    quiet: list[float] = []
    every: list[Sample] = []
    start = perf_counter()
    while True:
        before = interruptions()
        every.append(_time_calls(call, batch))
        if interruptions() == before:
            quiet.append(every[-1].seconds / batch)
        spent = perf_counter() - start
        far = spent >= BRIEF and len(quiet) >= LEAST and min(quiet) > behind
        if not far and (spent < window or len(quiet) < LEAST) and spent < patience:
            continue
        if quiet:
            return Time(quantile(quiet, 0.5), True)
        if isinstance(call, OneThread):
            return ProcessorTime(quantile([s.processor / batch for s in every], 0.5), True)
        return Time(min(s.seconds for s in every) / batch, False)


def _time_calls(call: Callable[[], object], batch: int) -> Sample:
    function = call.call if isinstance(call, OneThread) else call
    start, processor = perf_counter(), thread_time()
    for _ in range(batch):
        function()
    return Sample(perf_counter() - start, thread_time() - processor)
