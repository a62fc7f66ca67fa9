"""The shares of a ``timeout`` for the trials, the race and the untuned schedule."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import monotonic

from schedlang.autotune.record import Trial
from schedlang.autotune.runner.candidate_runner import PATIENCE, SLOW, WINDOW
from schedlang.autotune.runner.noise import LEAST
from schedlang.autotune.state import BASELINE, Search

# parts of a timeout: the most for the untuned schedule, the most for the race, and the most by
# which the end of a search may exceed it
UNTUNED_PART, RACE_PART, GRACE = 0.1, 0.2, 0.05
# the part of a timeout that the trials which every race compares may take
COMPARED_PART = 0.5
# the most trials in a race
FINALISTS = 4
# seconds in which a process starts again after a measurement that took too long
RESTART = 2.0
# rounds of a race that has little time
FEWEST_ROUNDS = 2
# assumed seconds to build and check a candidate where no trial tells
UNKNOWN = 2.0


def for_the_end(search: Search) -> float:
    """Return the seconds of a timeout to reserve for the race and the untuned schedule."""
    timeout = search.timeout or 0.0
    untuned = UNTUNED_PART * timeout if search.times_untuned and search.untuned is None else 0.0
    most = RACE_PART * timeout
    if not search.task.timed:
        # for the emulator's check of a GPU kernel, whose duration is unknown
        return untuned + most * bool(search.task.target.facts.emulated)
    good = search.first_good(FINALISTS)
    if not good:
        return untuned + most
    cost = race_cost(good[: max(_fitting(good, most), len(search.compared()))])
    # a race that would take most of the time is not begun
    return untuned + (cost if cost <= COMPARED_PART * timeout else 0.0)


def finalists(search: Search) -> list[Trial]:
    """Return the fastest trials, as many as there is time to race.

    The trials that every race compares are always among them, unless the time is over.
    """
    good = search.first_good(FINALISTS)
    left = _seconds_left(search)
    if left is None or not search.task.timed:
        return good
    if left <= 0:
        return []
    if search.times_untuned and search.untuned is None:
        left -= UNTUNED_PART * (search.timeout or 0.0)
    elif untuned_fits(search):
        left -= race_cost(_untuned_trials(search))
    return good[: max(_fitting(good, left), len(search.compared()))]


def untuned_fits(search: Search) -> bool:
    """Return whether the race holds the untuned schedule.

    It does once that schedule has a time, unless a timeout leaves too little time to race it beside
    the trials that every race compares.
    """
    untuned, left = _untuned_trials(search), _seconds_left(search)
    if not untuned or left is None:
        return bool(untuned)
    return race_cost([*search.compared(), *untuned]) <= left


def _untuned_trials(search: Search) -> list[Trial]:
    """Return the untuned schedule as a trial, or an empty list if it has no time."""
    untuned = search.untuned
    if untuned is None or untuned.seconds is None:
        return []
    return [Trial(BASELINE, "ok", "", seconds=untuned.seconds, took=untuned.took)]


def _seconds_left(search: Search) -> float | None:
    """Return the seconds that a race may still take; ``None`` without a timeout."""
    if search.end is None or search.timeout is None:
        return None
    return search.end + GRACE * search.timeout - monotonic()


def untuned_races(search: Search) -> bool:
    """Return whether there is time to time the untuned schedule before the race, and race it."""
    if search.end is None or search.timeout is None:
        return True
    needed = race_cost(search.compared()) + UNTUNED_PART * search.timeout + RESTART
    return monotonic() + needed <= search.end


def untuned_until(search: Search) -> float | None:
    """Return when the measurement of the untuned schedule ends; ``None`` without a timeout."""
    if search.end is None or search.timeout is None:
        return None
    now = monotonic()
    return min(now + UNTUNED_PART * search.timeout, search.end + GRACE * search.timeout)


def race_cost(trials: Sequence[Trial]) -> float:
    """Return the expected seconds of a short race: to build and check each trial, then to time it.

    >>> round(race_cost([Trial(0, "ok", "", seconds=1.0, took=4.0)]))
    5
    """
    known = [t.took for t in trials if t.took]
    usual = median(known) if known else UNKNOWN
    total = 0.0
    for trial in trials:
        took, call = trial.took or usual, trial.seconds or 0.0
        build = max(took / 2, took - _timing(call, WINDOW, PATIENCE))
        total += build + FEWEST_ROUNDS * _timing(call, WINDOW / 2, PATIENCE / 2)
    return total


def _fitting(trials: Sequence[Trial], seconds: float) -> int:
    """Return how many of ``trials``, from the first on, can race in ``seconds``."""
    return max((n for n in range(len(trials) + 1) if race_cost(trials[:n]) <= seconds), default=0)


def _timing(call: float, window: float, patience: float) -> float:
    """Return the seconds that timing a call takes.

    A slow call is timed once. Others run twice first, to warm up and to find how many calls make a
    sample, and then in samples until the window is full.
    """
    if call > SLOW:
        return call
    return 2 * call + min(max(window, LEAST * call), patience + call)
