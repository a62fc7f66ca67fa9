"""The findings of a search, as plain data: all that its summary and its report are made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.autotune.noise import seen
from schedlang.autotune.record import OUTCOMES, UNCHECKED, Trial, Where
from schedlang.autotune.report.ranks import spearman
from schedlang.runtime.evaluate import duration, number


@dataclass(frozen=True)
class Facts:
    """One search of schedules for ``name``, which found one: a search without a winner raises.

    ``baseline`` is the seconds of the schedule that was not tuned; ``tried`` and ``valid`` count
    the decisions that were drawn and those that made a candidate; ``rank_correlation`` is between
    the estimates and the measured seconds (:func:`correlation`); ``timed`` is false where nothing
    could be measured, and then the estimate ranks. ``best_nest``, ``best_source`` and
    ``best_python`` (the schedule as code) are the winner's, ``best`` the number of its trial.
    ``flops`` are one call's operations, if known, ``spent`` the seconds of the whole search.

    ``ended`` says why the search stopped, ``broken`` whether that was an error of what it runs on.
    ``ran`` tells whether what is ``"ok"`` ran; else it was compiled, and only those that raced ran,
    on the emulator. ``refused`` are reasons why decisions made no candidate, with how often each,
    most often first. ``duplicates`` counts candidates that were not measured since an equal one had
    been; ``unraced`` says whether the race gave no times, and ``finals_took`` the seconds
    of it and of the untuned schedule, where that was timed at the end.
    ``untimed`` is why there is no ``baseline``, ``remark`` what is odd about the user's template.
    ``lost`` counts the jobs that workers elsewhere did not answer, by what became of them.
    """

    name: str
    where: Where
    trials: Sequence[Trial]
    baseline: float | None
    drawn: int
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
    best: int
    ended: str = ""
    broken: bool = False
    ran: bool = True
    refused: Sequence[tuple[str, int]] = ()
    duplicates: int = 0
    unraced: bool = False
    untimed: str = ""
    remark: str = ""
    finals_took: float = 0.0
    lost: Mapping[str, int] = field(default_factory=dict)


def worth(facts: Facts, trial: Trial) -> float | None:
    """Return the number that ranks ``trial``, the smaller the better.

    Its seconds in the search, or its estimate where nothing was timed; ``None`` if it has neither.
    """
    value = seen(trial) if facts.timed else trial.estimate
    if trial.outcome != "ok" or value is None or not math.isfinite(value):
        return None
    # no call takes 0 seconds: a clock that says so measured nothing
    return None if facts.timed and value <= 0 else float(value)


def ranked(facts: Facts) -> list[tuple[Trial, float]]:
    """Return the trials that can be compared, in the order they were made, with what ranks them."""
    found = ((trial, worth(facts, trial)) for trial in facts.trials)
    return [(trial, value) for trial, value in found if value is not None]


def undisturbed(facts: Facts) -> list[tuple[Trial, float]]:
    """Return the trials of :func:`ranked` that other work did not disturb, if there are any."""
    found = ranked(facts)
    return [(trial, value) for trial, value in found if not trial.disturbed] or found


def winner(facts: Facts) -> Trial:
    """Return the trial that won."""
    return next(trial for trial in facts.trials if trial.number == facts.best)


def race_seconds(facts: Facts) -> float | None:
    """Return the winner's time of the race, where it had another one before."""
    won = winner(facts)
    return won.seconds if won.raced and won.first is not None else None


def checked_text(facts: Facts) -> str:
    """Return what ``"ok"`` means where candidates are only compiled; nothing where they ran."""
    if facts.ran:
        return ""
    good = [trial for trial in facts.trials if trial.outcome == "ok"]
    there = sum(trial.raced and UNCHECKED not in trial.detail for trial in good)
    return f"{len(good) - there} only compiled, {there} correct on the emulator"


def unchecked_winner(facts: Facts) -> str:
    """Return what the winner was not put through, and why; nothing where it was checked."""
    won = winner(facts)
    _, missed, why = won.detail.partition(UNCHECKED)
    # where it cannot be timed the race is the emulator's alone; on a GPU it is a part of the race
    if not missed and (won.raced or (facts.ran and facts.where.target.partition(" ")[0] != "cuda")):
        return ""
    how = "its result on the GPU was correct" if facts.ran else "it was only compiled"
    why = why.lstrip(": ") or "the search ended before that"
    return f"the winner was NOT checked on the emulator ({how}): {why}"


def outcome_counts(trials: Sequence[Trial]) -> dict[str, int]:
    """Return how many trials ended in which way, in the order of ``OUTCOMES``, then any other.

    >>> outcome_counts([Trial(0, "crashed", ""), Trial(1, "ok", ""), Trial(2, "crashed", "")])
    {'ok': 1, 'crashed': 2}
    """
    counts = Counter(trial.outcome for trial in trials)
    known = [outcome for outcome in OUTCOMES if outcome in counts]
    return {outcome: counts[outcome] for outcome in [*known, *sorted(set(counts) - set(known))]}


def lost_text(facts: Facts) -> str:
    """Return how many jobs workers elsewhere did not answer, by kind; nothing if they all did."""
    if not facts.lost:
        return ""
    kinds = sorted(facts.lost.items(), key=lambda item: (-item[1], item[0]))
    total = sum(facts.lost.values())
    said = ", ".join(f"{n} {kind}" for kind, n in kinds)
    return f"{total} {'job' if total == 1 else 'jobs'} of the executor, sent again: {said}"


def failures(trials: Sequence[Trial]) -> list[tuple[int, str, str]]:
    """Return what went wrong: how often, how the trials ended, the first line of why; most often
    first.

    >>> failures([Trial(0, "crashed", "", detail="signal 11\\nat 0"), Trial(1, "ok", "")])
    [(1, 'crashed', 'signal 11')]
    """
    counts = Counter(
        (trial.outcome, next(iter(trial.detail.strip().splitlines()), ""))
        for trial in trials
        if trial.outcome != "ok"
    )
    return [(n, outcome, why) for (outcome, why), n in counts.most_common()]


def correlation(trials: Sequence[Trial]) -> float | None:
    """Return Spearman's rank correlation of estimates and times, without disturbed trials."""
    known = compared(trials)
    return spearman([x for x, _ in known], [y for _, y in known])


def compared(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Return the estimates and the seconds of the trials that have both, undisturbed."""
    return [
        (t.estimate, seconds)
        for t in trials
        if not t.disturbed
        and t.outcome == "ok"
        and t.estimate is not None
        and (seconds := seen(t)) is not None
    ]


def against(baseline: float, seconds: float) -> tuple[str, str]:
    """Return how many times as fast as the schedule that was not tuned, and what is to be said of
    that.

    >>> against(0.006, 0.002)
    ('3', 'as fast as the untuned schedule (6 ms)')
    >>> against(0.001, 0.002)
    ('0.5', 'as fast as the untuned schedule (1 ms): keep the untuned one')
    """
    said = f"as fast as the untuned schedule ({duration(baseline)})"
    slower = baseline < seconds
    return number(baseline / seconds), f"{said}: keep the untuned one" if slower else said


def gflops(facts: Facts, seconds: float) -> str:
    """Return the speed in GFLOP/s, or nothing where it is not known."""
    return f"{number(facts.flops / seconds * 1e-9, 4)} GFLOP/s" if facts.flops else ""


def percent(part: float) -> str:
    """Return a part of the whole; neither some nor nearly all is rounded away.

    >>> percent(3 / 1500), percent(1499 / 1500), percent(0.0), percent(1.0), percent(0.4)
    ('<1%', '>99%', '0%', '100%', '40%')
    """
    text = f"{part:.0%}"
    if 0 < part < 1 and text in ("0%", "100%"):
        return "<1%" if text == "0%" else ">99%"
    return text


def span(seconds: float) -> str:
    """Return a wait, for people.

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
