"""Times of a search beside those of a race: the least of many noisy times is too low."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.record import Trial


def seen(trial: Trial) -> float | None:
    """Return what the search saw of it: the seconds before a race, which only a few run, unless
    other work made more of them than they are and the race was quiet."""
    before = trial.raced and trial.first is not None and trial.first_disturbed <= trial.disturbed
    return trial.first if before else trial.seconds


def race_ratio(trials: Sequence[Trial]) -> float:
    """Return how much slower the fastest of a race was there than at first.

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
    """Return the seconds, first times ``factor`` times as long; 0 for what was not timed."""
    return (trial.seconds or 0.0) * (1.0 if trial.raced else factor)


__all__ = ["as_raced", "race_ratio", "seen"]
