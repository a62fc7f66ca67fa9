"""The findings of a search as plain data, for its summary and its report."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.autotune.race_times import seconds_before_race
from schedlang.autotune.record import OUTCOMES, UNCHECKED, Trial, Where, facts_of
from schedlang.autotune.report.ranks import spearman
from schedlang.runtime.evaluate import duration, number


@dataclass(frozen=True)
class Facts:
    """The findings of a search for schedules of ``name`` that has a winner.

    * ``baseline``: the seconds of the untuned schedule; ``untimed``: why it has none.
    * ``drawn``, ``valid``: how many candidates were drawn, and how many of these were valid.
      ``refused``: the reasons for the others, each with its count, most frequent first.
    * ``duplicates``: candidates that were not measured, since an equal one was measured before.
    * ``rank_correlation``: the rank correlation of estimates and measured seconds
      (:func:`correlation`).
    * ``timed``: False if nothing could be timed; the estimates then rank the trials. ``ran``: True
      if the ``"ok"`` trials ran; otherwise they were compiled, and the finalists were emulated.
    * ``best``: the number of the winner's trial. ``best_nest``, ``best_source``, ``best_python``:
      its loop nest, its source and its schedule as code.
    * ``flops``: the operations of one call, if known. ``spent``: the seconds of the search.
      ``finals_took``: the seconds after the last trial, for the race and the untuned schedule.
    * ``ended``: why the search stopped. ``broken``: an error stopped it. ``unraced``: the race gave
      no times. ``remark``: what is odd about the user's template.
    * ``lost``: how many jobs of an executor were lost, by kind of failure.
    * ``meanings``: what each knob decides, in words, if that is known.
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
    meanings: Mapping[str, str] = field(default_factory=dict)


def worth(facts: Facts, trial: Trial) -> float | None:
    """Return the value that ranks ``trial``; smaller is better.

    It is the seconds of the trial from before a race, or the estimate if nothing was timed. Returns
    ``None`` if the trial has none.
    """
    value = seconds_before_race(trial) if facts.timed else trial.estimate
    if trial.outcome != "ok" or value is None or not math.isfinite(value):
        return None
    # a time of 0 is an error of the clock
    return None if facts.timed and value <= 0 else float(value)


def trials_with_worth(facts: Facts) -> list[tuple[Trial, float]]:
    """Return the trials that have a :func:`worth`, with it, in their order in ``facts``."""
    worths = ((trial, worth(facts, trial)) for trial in facts.trials)
    return [(trial, value) for trial, value in worths if value is not None]


def undisturbed_trials(facts: Facts) -> list[tuple[Trial, float]]:
    """Return the undisturbed trials of :func:`trials_with_worth`; all of them if none is."""
    trials = trials_with_worth(facts)
    return [(trial, value) for trial, value in trials if not trial.disturbed] or trials


def winner(facts: Facts) -> Trial:
    """Return the best trial."""
    return next(trial for trial in facts.trials if trial.number == facts.best)


def race_seconds(facts: Facts) -> float | None:
    """Return the winner's time from the race; ``None`` if it was not raced after its trial."""
    won = winner(facts)
    return won.seconds if won.raced and won.first is not None else None


def checked_text(facts: Facts) -> str:
    """Return how many ``"ok"`` trials were only compiled, or an empty text if all ran."""
    if facts.ran:
        return ""
    good = [trial for trial in facts.trials if trial.outcome == "ok"]
    emulated = sum(trial.raced and UNCHECKED not in trial.detail for trial in good)
    return f"{len(good) - emulated} only compiled, {emulated} correct on the emulator"


def unchecked_winner(facts: Facts) -> str:
    """Return why the emulator did not check the winner, or an empty text if it did or need not."""
    won = winner(facts)
    _, missed, why = won.detail.partition(UNCHECKED)
    on_device = facts_of(facts.where.target).needs_driver
    # every race of GPU kernels includes the emulator's check
    if not missed and (won.raced or (facts.ran and not on_device)):
        return ""
    how = "its result on the GPU was correct" if facts.ran else "it was only compiled"
    why = why.lstrip(": ") or "the search ended before that"
    return f"the winner was NOT checked on the emulator ({how}): {why}"


def outcome_counts(trials: Sequence[Trial]) -> dict[str, int]:
    """Return the number of trials by outcome, in the order of ``OUTCOMES``, then any others.

    >>> outcome_counts([Trial(0, "crashed", ""), Trial(1, "ok", ""), Trial(2, "crashed", "")])
    {'ok': 1, 'crashed': 2}
    """
    counts = Counter(trial.outcome for trial in trials)
    known = [outcome for outcome in OUTCOMES if outcome in counts]
    return {outcome: counts[outcome] for outcome in [*known, *sorted(set(counts) - set(known))]}


def lost_text(facts: Facts) -> str:
    """Return how many jobs of the executor were lost, by kind, or an empty text if none was."""
    if not facts.lost:
        return ""
    kinds = sorted(facts.lost.items(), key=lambda item: (-item[1], item[0]))
    total = sum(facts.lost.values())
    listed = ", ".join(f"{n} {kind}" for kind, n in kinds)
    return f"{total} {'job' if total == 1 else 'jobs'} of the executor, sent again: {listed}"


def failures(trials: Sequence[Trial]) -> list[tuple[int, str, str]]:
    """Return the count, outcome and first line of detail of each failure, most frequent first.

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
    known = estimates_and_seconds(trials)
    return spearman([x for x, _ in known], [y for _, y in known])


def estimates_and_seconds(trials: Sequence[Trial]) -> list[tuple[float, float]]:
    """Return the estimates and the seconds of the undisturbed trials that have both."""
    return [
        (t.estimate, seconds)
        for t in trials
        if not t.disturbed
        and t.outcome == "ok"
        and t.estimate is not None
        and (seconds := seconds_before_race(t)) is not None
    ]


def against(baseline: float, seconds: float) -> tuple[str, str]:
    """Return the speedup over the untuned schedule, and the words that follow it.

    >>> against(0.006, 0.002)
    ('3', 'as fast as the untuned schedule (6 ms)')
    >>> against(0.001, 0.002)
    ('0.5', 'as fast as the untuned schedule (1 ms): keep the untuned one')
    """
    words = f"as fast as the untuned schedule ({duration(baseline)})"
    slower = baseline < seconds
    return number(baseline / seconds), f"{words}: keep the untuned one" if slower else words


def gflops(facts: Facts, seconds: float) -> str:
    """Return the speed in GFLOP/s, or an empty text if the operations are not known."""
    return f"{number(facts.flops / seconds * 1e-9, 4)} GFLOP/s" if facts.flops else ""


def percent(part: float) -> str:
    """Return a part as a percentage. Only 0 is 0%, and only 1 is 100%.

    >>> percent(3 / 1500), percent(1499 / 1500), percent(0.0), percent(1.0), percent(0.4)
    ('<1%', '>99%', '0%', '100%', '40%')
    """
    text = f"{part:.0%}"
    if 0 < part < 1 and text in ("0%", "100%"):
        return "<1%" if text == "0%" else ">99%"
    return text
