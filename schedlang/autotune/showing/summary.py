"""What ``print(result)`` shows of a search."""

from __future__ import annotations

from schedlang.autotune.record import DISTURBED, UNTUNED
from schedlang.autotune.showing.facts import (
    Facts,
    against,
    best_seconds,
    duplicates,
    failures,
    gflops,
    outcome_counts,
    span,
    winner,
)
from schedlang.autotune.showing.markup import plain
from schedlang.runtime.evaluate import duration

MOST_REASONS, MOST_LETTERS = 4, 160
NO_BASELINE = "the untuned schedule has no time: it failed, took too long, or is for no GPU"
NOTHING_FASTER = "this is the untuned schedule, without a step: nothing that was tried is faster"
NOTHING_TIMED = (
    "The target is not on this machine: candidates were built, and ranked by the estimate alone.",
    "The estimate has no unit and may be wrong: search again where the target is, to know.",
)


def summary(facts: Facts) -> str:
    """The search in about ten lines: what was found, what it cost, how to go on.

    >>> from schedlang.autotune.record import Trial, Where
    >>> trials = [Trial(0, "ok", "", seconds=0.004), Trial(1, "crashed", "", detail="signal 11")]
    >>> print(summary(Facts("C", Where("", (), "cpu", "a laptop", ()), trials, 0.008, 50, 20, None,
    ...                     True, "", "", "", 2e9, 12.5, "random", 0)))
    C on cpu: 4 ms, 500 GFLOP/s
      2 times as fast as the untuned schedule (8 ms)
      trials:   1 ok, 1 crashed
      measured: 1, in 12 s (random, seed 0)
      space:    20 of the 50 sets of decisions that were drawn make a candidate (40%)
      estimate: too few times to compare it with
      best:     trial 0; its schedule as code is result.schedule.as_python()
      all of it: result.report("tuning.html")
    """
    won, seconds = winner(facts), best_seconds(facts)
    head = f"{facts.name} on {facts.where.target}: "
    if won is None:
        head += "no candidate worked" if facts.trials else "there were no trials"
    elif seconds is None:
        head += f"nothing was timed; the best estimate is {won.estimate:.4g}"
    else:
        head += ", ".join(filter(None, (duration(seconds), gflops(facts, seconds))))
    lines = [head]
    if won is not None and won.strategy == UNTUNED:
        lines.append(NOTHING_FASTER)
    elif seconds is not None and facts.baseline:
        lines.append(against(facts.baseline, seconds))
    elif seconds is not None:
        lines.append(NO_BASELINE)
    if won is not None and not facts.timed:
        lines += NOTHING_TIMED
    if facts.trials:
        counts = outcome_counts(facts.trials).items()
        lines.append("trials:   " + ", ".join(f"{n} {outcome}" for outcome, n in counts))
    lines.append("measured: " + _measured(facts))
    disturbed = sum(trial.detail.endswith(DISTURBED) for trial in facts.trials)
    if disturbed:
        lines.append(f"of which: {disturbed} while {DISTURBED}: search again when it is quiet")
    if facts.tried:
        lines.append("space:    " + space_text(facts))
    if won is None:
        lines += [f"{n} {o}: {why}" if why else f"{n} {o}" for n, o, why in _reasons(facts)]
        lines += first_steps(facts)
    else:
        if facts.timed:
            lines.append("estimate: " + correlation_text(facts))
        code = "its schedule as code is result.schedule.as_python()"
        lines.append(f"best:     trial {won.number}; {code}")
    lines.append('all of it: result.report("tuning.html")')
    return "\n  ".join(plain(line) for line in lines)


def _measured(facts: Facts) -> str:
    timed = [trial for trial in facts.trials if trial.seconds is not None]
    kept = sum(trial.resumed for trial in timed)
    parts = [str(len(timed) - kept)]
    if kept:
        parts.append(f"{kept} more from the database")
    if duplicates(facts):
        parts.append(f"{duplicates(facts)} like an earlier one")
    return ", ".join([*parts, f"in {span(facts.spent)} ({facts.strategy}, seed {facts.seed})"])


def _reasons(facts: Facts) -> list[tuple[int, str, str]]:
    found = failures(facts.trials)[:MOST_REASONS]
    return [
        (n, o, w if len(w) <= MOST_LETTERS else w[: MOST_LETTERS - 1] + "…") for n, o, w in found
    ]


def space_text(facts: Facts) -> str:
    """What part of the space is any good."""
    part = f"{facts.valid / facts.tried:.0%}" if facts.tried else "none"
    return (
        f"{facts.valid} of the {facts.tried} sets of decisions that were drawn make a candidate "
        f"({part})"
    )


def correlation_text(facts: Facts) -> str:
    """What the estimate was worth."""
    if facts.rank_correlation is None:
        return "too few times to compare it with"
    return (
        f"rank correlation with the measured times {facts.rank_correlation:.2f} "
        "(1: the same order, 0: none)"
    )


HINTS = {
    "invalid": "Loosen the template's constraints, or give more trials.",
    "build timed out": "Smaller unrolled tiles compile faster.",
    "run timed out": "Smaller sizes, or a template whose first options are fast ones, run in time.",
    "wrong answer": "If it is rounding, give a larger tolerance=; gathers need inputs=.",
    "out of memory": "Smaller sizes, or fewer stages at root, need less memory.",
}


def first_steps(facts: Facts) -> list[str]:
    """What to do where nothing worked."""
    if not facts.trials:
        if facts.tried and not facts.valid:
            return ["No set of decisions made a candidate: loosen the template's constraints."]
        return ["Give trials= or timeout= more."]
    steps = []
    _, outcome, _ = next(iter(failures(facts.trials)), (0, "ok", ""))
    if outcome in HINTS:
        steps.append(HINTS[outcome])
    failed = next((n for n, t in enumerate(facts.trials) if t.outcome == outcome), 0)
    steps.append(
        "To see one fail here, lower, build and call: "
        f"sl.Schedule.from_json(result.trials[{failed}].steps, {facts.name})"
    )
    return steps


__all__ = ["summary"]
