"""Times of a search beside those of a race: the former are lucky, the least of many."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.record import Trial


def seen(trial: Trial) -> float | None:
    """What the search saw of it: the seconds before a race, which only a few run, unless other work
    made more of them than they are and the race was quiet."""
    before = trial.raced and trial.first is not None and trial.first_loud <= trial.loud
    return trial.first if before else trial.seconds


def luck(trials: Sequence[Trial]) -> float:
    """How much slower the fastest of a race was there than at first.

    >>> raced = Trial(0, "ok", "", seconds=1.1, raced=True, first=1.0)
    >>> luck([raced, Trial(1, "ok", "", seconds=1.05)])
    1.1
    """
    raced = [
        (t.seconds, t.first)
        for t in trials
        if t.raced and t.seconds and t.first and not (t.loud or t.first_loud)
    ]
    seconds, first = min(raced, default=(1.0, 1.0))
    return max(1.0, seconds / first)


def as_raced(trial: Trial, factor: float) -> float:
    """The seconds, first times as much longer as :func:`luck` says; 0 for what was not timed."""
    return (trial.seconds or 0.0) * (1.0 if trial.raced else factor)


__all__ = ["as_raced", "luck", "seen"]
