"""Comparison of times from trials with times from a race.

The least of many noisy times is too low, so the fastest trial tends to be slower in a race.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.record import Trial


def seconds_before_race(trial: Trial) -> float | None:
    """Return the seconds from before any race, to compare with trials that were not raced.

    If other work disturbed that time and not the race, return the time from the race.
    """
    before = trial.raced and trial.first is not None and trial.first_disturbed <= trial.disturbed
    return trial.first if before else trial.seconds


def race_ratio(trials: Sequence[Trial]) -> float:
    """Return the factor by which the winner of a race was slower there than in its trial.

    >>> raced = Trial(0, "ok", "", seconds=1.1, raced=True, first=1.0)
    >>> race_ratio([raced, Trial(1, "ok", "", seconds=1.05)])
    1.1
    """
    raced = [
        (t.seconds, t.first)
        for t in trials
        if t.raced and t.seconds and t.first and not (t.disturbed or t.first_disturbed)
    ]
    seconds, first = min(raced, default=(1.0, 1.0))
    return max(1.0, seconds / first)


def as_raced(trial: Trial, factor: float) -> float:
    """Return the seconds by which trials are ranked; 0 if not timed.

    They are multiplied by ``factor`` if they are not from a race. A trial that a race kept counts
    as faster by its margin: only one that beats it by more than the noise of the race comes first.

    >>> as_raced(Trial(0, "ok", "", seconds=1.0), 1.1)
    1.1
    >>> as_raced(Trial(0, "ok", "", seconds=1.0, raced=True, margin=0.25), 1.1)
    0.8
    """
    return (trial.seconds or 0.0) * (1.0 if trial.raced else factor) / (1.0 + trial.margin)
