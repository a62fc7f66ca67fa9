"""What a search found, as plain data: all that its summary and its report are made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.autotune.record import OUTCOMES, Trial, Where
from schedlang.autotune.showing.ranks import spearman
from schedlang.runtime.evaluate import duration


@dataclass(frozen=True)
class Facts:
    """One search of schedules for ``name``.

    ``baseline`` is the seconds of the schedule that was not tuned; ``tried`` and ``valid`` count
    the decisions that were drawn and those that made a candidate; ``rank_correlation`` is between
    the estimates and the measured seconds (:func:`correlation`); ``timed`` is false where nothing
    could be measured, and then the estimate ranks. ``best_nest``, ``best_source`` and
    ``best_python`` (the schedule as code) are the winner's, empty without one. ``flops`` are one
    call's operations, ``spent`` the seconds of the whole search.

    ``best`` is the number of the winning trial, else it is the fastest; ``seconds`` its time when
    it was measured again. ``duplicates`` counts candidates that were not measured since an equal
    one had been; left out, it is the trials that share a source with an earlier one.
    """

    name: str
    where: Where
    trials: Sequence[Trial]
    baseline: float | None
    tried: int
    valid: int
    rank_correlation: float | None
    timed: bool
    best_nest: str
    best_source: str
    best_python: str
    flops: float | None
    spent: float
    strategy: str
    seed: int
    best: int | None = None
    seconds: float | None = None
    duplicates: int | None = None


def worth(facts: Facts, trial: Trial) -> float | None:
    """What ``trial`` is ranked by, smaller being better: its seconds, or its estimate where nothing
    was timed; ``None`` for one that has none to show."""
    value = trial.seconds if facts.timed else trial.estimate
    if trial.outcome != "ok" or value is None or not math.isfinite(value):
        return None
    # no call takes 0 seconds: a clock that says so measured nothing
    return None if facts.timed and value <= 0 else float(value)


def ranked(facts: Facts) -> list[tuple[Trial, float]]:
    """The trials that can be compared, in the order they were made, with what ranks them."""
    found = ((trial, worth(facts, trial)) for trial in facts.trials)
    return [(trial, value) for trial, value in found if value is not None]


def winner(facts: Facts) -> Trial | None:
    """The trial that won: the one ``facts`` names, else the best, the earliest of equals."""
    known = ranked(facts)
    named = next((t for t, _ in known if facts.best is not None and t.number == facts.best), None)
    return named or (min(known, key=lambda pair: pair[1])[0] if known else None)


def best_seconds(facts: Facts) -> float | None:
    """The winner's time: the one measured again, where there is one."""
    won = winner(facts)
    if won is None or not facts.timed:
        return None
    return won.seconds if facts.seconds is None else facts.seconds


def outcome_counts(trials: Sequence[Trial]) -> dict[str, int]:
    """How many trials ended in which way, in the order of ``OUTCOMES``, then any other.

    >>> outcome_counts([Trial(0, "crashed", ""), Trial(1, "ok", ""), Trial(2, "crashed", "")])
    {'ok': 1, 'crashed': 2}
    """
    counts = Counter(trial.outcome for trial in trials)
    known = [outcome for outcome in OUTCOMES if outcome in counts]
    return {outcome: counts[outcome] for outcome in [*known, *sorted(set(counts) - set(known))]}


def failures(trials: Sequence[Trial]) -> list[tuple[int, str, str]]:
    """What went wrong: how often, how the trials ended, the first line of why; most often first.

    >>> failures([Trial(0, "crashed", "", detail="signal 11\\nat 0"), Trial(1, "ok", "")])
    [(1, 'crashed', 'signal 11')]
    """
    counts = Counter(
        (trial.outcome, next(iter(trial.detail.strip().splitlines()), ""))
        for trial in trials
        if trial.outcome != "ok"
    )
    return [(n, outcome, why) for (outcome, why), n in counts.most_common()]


def duplicates(facts: Facts) -> int:
    """How many candidates were the same as an earlier one."""
    if facts.duplicates is not None:
        return facts.duplicates
    sources = [trial.source for trial in facts.trials if trial.source]
    return len(sources) - len(set(sources))


def correlation(trials: Sequence[Trial]) -> float | None:
    """Spearman's rank correlation of the estimates and the measured seconds."""
    known = [
        (t.estimate, t.seconds)
        for t in trials
        if t.outcome == "ok" and t.estimate is not None and t.seconds is not None
    ]
    return spearman([x for x, _ in known], [y for _, y in known])


def against(baseline: float, seconds: float) -> str:
    """How ``seconds`` compares with the schedule that was not tuned.

    >>> print(against(0.006, 0.002))
    3 times as fast as the untuned schedule (6 ms)
    >>> print(against(0.001, 0.002))
    0.5 times as fast as the untuned schedule (1 ms): keep that one
    """
    text = f"{baseline / seconds:.3g} times as fast as the untuned schedule ({duration(baseline)})"
    return text if baseline >= seconds else f"{text}: keep that one"


def gflops(facts: Facts, seconds: float | None) -> str:
    """The speed in GFLOP/s, or nothing where it is not known."""
    return "" if not facts.flops or not seconds else f"{facts.flops / seconds * 1e-9:.4g} GFLOP/s"


def span(seconds: float) -> str:
    """A wait, for people.

    >>> span(0.25), span(42.4), span(61), span(7322)
    ('0.2 s', '42 s', '1 min 1 s', '2 h 2 min')
    """
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


__all__ = ["Facts", "correlation"]
