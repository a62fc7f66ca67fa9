"""How the seconds of a ``timeout`` are shared: by the search, the race, the untuned schedule."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import monotonic

from schedlang.autotune.record import Trial
from schedlang.autotune.runner.noise import LEAST
from schedlang.autotune.runner.workbench import PATIENCE, SLOW, WINDOW
from schedlang.autotune.state import Search

# parts of a timeout: the most for the untuned schedule, the most that is kept for the race, and
# what may be spent on top
UNTUNED_PART, RACE_PART, GRACE = 0.1, 0.2, 0.05
# how many of the fastest are measured again in turns, and the fewest that make a race
FINALISTS, LEAST_FINALISTS = 4, 2
# rounds of a race that has little time
FEWEST_ROUNDS = 2
# seconds to build and check what nobody has built yet
UNKNOWN = 2.0


def for_the_end(search: Search) -> float:
    """Return the seconds of a timeout that are kept for what comes after the last trial."""
    timeout = search.timeout or 0.0
    untuned = UNTUNED_PART * timeout if search.times_plain and search.untuned is None else 0.0
    most = RACE_PART * timeout
    if not search.task.timed:
        # the emulator's check of a kernel for a GPU; what it takes is not known
        return untuned + most * search.task.target.is_gpu
    good = search.good()[:FINALISTS]
    if not good:
        return untuned + most
    # where two do not fit nothing is gained by waiting for them
    fit = _fitting(good, most)
    return untuned + (race_seconds(good[:fit]) if fit >= LEAST_FINALISTS else 0.0)


def finalists(search: Search) -> list[Trial]:
    """Return the fastest, as many as there is time to race."""
    good = search.good()[:FINALISTS]
    if search.end is None or search.timeout is None or not search.task.timed:
        return good
    left = search.end + GRACE * search.timeout - monotonic()
    if search.times_plain and search.untuned is None:
        left -= UNTUNED_PART * search.timeout
    fit = _fitting(good, left)
    return good[:fit] if fit >= min(LEAST_FINALISTS, len(good)) else []


def untuned_until(search: Search) -> float | None:
    """Return when the untuned schedule is given up; ``None`` where there is no timeout."""
    if search.end is None or search.timeout is None:
        return None
    now = monotonic()
    return min(now + UNTUNED_PART * search.timeout, search.end + GRACE * search.timeout)


def race_seconds(trials: Sequence[Trial]) -> float:
    """Return how long a short race should take: each is built and checked, then timed in turns.

    >>> round(race_seconds([Trial(0, "ok", "", seconds=1.0, took=4.0)]))
    5
    """
    known = [t.took for t in trials if t.took]
    usual = median(known) if known else UNKNOWN
    total = 0.0
    for trial in trials:
        took, call = trial.took or usual, trial.seconds or 0.0
        prepared = max(took / 2, took - _timing(call, WINDOW, PATIENCE))
        total += prepared + FEWEST_ROUNDS * _timing(call, WINDOW / 2, PATIENCE / 2)
    return total


def _fitting(trials: Sequence[Trial], seconds: float) -> int:
    """Return how many of the first trials can race in so many seconds."""
    return max(
        (n for n in range(len(trials) + 1) if race_seconds(trials[:n]) <= seconds), default=0
    )


def _timing(call: float, window: float, patience: float) -> float:
    """Return the seconds in which a call is timed: one that is slow once, others after a warm one
    and one that says how many make a sample, in samples that last for the window."""
    if call > SLOW:
        return call
    return 2 * call + min(max(window, LEAST * call), patience + call)


__all__ = ["FINALISTS", "GRACE", "finalists", "for_the_end", "race_seconds", "untuned_until"]
