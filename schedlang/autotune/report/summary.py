"""The text that ``print(result)`` shows."""

from __future__ import annotations

from schedlang.autotune.record import DISTURBED, PROCESSOR_TIME, UNRACED, UNTUNED
from schedlang.autotune.report.charts import estimate_text
from schedlang.autotune.report.facts import (
    Facts,
    against,
    checked_text,
    estimates_and_seconds,
    gflops,
    lost_text,
    outcome_counts,
    percent,
    race_seconds,
    unchecked_winner,
    winner,
)
from schedlang.autotune.report.no_result import HINTS
from schedlang.autotune.report.ranks import LEAST
from schedlang.markup.progress import span
from schedlang.markup.text import printable
from schedlang.runtime.evaluate import duration

MOST_LETTERS = 160
# the summary says why draws were refused if a smaller part than this is valid
LITTLE = 0.1
# it says what helps against a failure of so large a part of the trials
OFTEN = 0.5
# times within this ratio are too close to rank
ALIKE = 1.05
# the summary mentions a time of the race that is longer by this ratio
ROSE = 1.01
# the meaning of a rank correlation, by the least value that has it
MEANINGS = (
    (0.7, "its order of the candidates is close to the order of their times"),
    (0.3, "its order of the candidates roughly follows the order of their times"),
    (-0.3, 'its order says little about the times, and search="evolve" relies on it'),
    (-1.0, 'its order contradicts the times, and search="evolve" relies on it'),
)
# how to get the winner's code and the report in Python
CODE, PAGE = "result.schedule.as_python()", 'result.report("tuning.html") writes a page'
NO_BASELINE = "the untuned schedule has no time"
NOTHING_FASTER = "this is the untuned schedule, without a step: no candidate was faster"
NOTHING_TIMED = (
    "This machine lacks the target: candidates were ranked only by the estimate.",
    "The estimate has no unit and may be wrong: to time them, search on a machine that has it.",
)


def summary(facts: Facts, code: str = CODE, page: str = PAGE) -> str:
    """Return the summary of a search in about ten lines: its result, its cost, how to go on.

    ``code`` and ``page`` say where the winner's schedule and the report are.

    >>> from schedlang.autotune.record import Trial, Where
    >>> trials = [Trial(0, "ok", "", seconds=0.004), Trial(1, "crashed", "", detail="signal 11")]
    >>> print(summary(Facts("C", Where("", (), "cpu", "a laptop", ()), trials, 0.008, 50, 20, None,
    ...                     True, "", "", "", 2e9, 12.5, "random", 0, 0, "all trials are done")))
    C on cpu: 4 ms, 500 GFLOP/s
      2 times as fast as the untuned schedule (8 ms)
      trials:   1 ok, 1 crashed
      measured: 1, in 12 s (random, seed 0)
      ended:    all trials are done
      space:    20 of 50 drawn sets of decisions make a candidate (40%)
      estimate: too few times to compare it with
      best:     trial 0; its schedule as code: result.schedule.as_python()
      report:   result.report("tuning.html") writes a page
    """
    won = winner(facts)
    lines = [f"{facts.name} on {facts.where.target}: {_winner_text(facts)}"]
    if won.strategy == UNTUNED:
        lines.append(NOTHING_FASTER)
    elif facts.timed and won.seconds and facts.baseline:
        lines.append(" times ".join(against(facts.baseline, won.seconds)))
    elif facts.timed:
        lines.append(": ".join(filter(None, (NO_BASELINE, facts.untimed))))
    if not facts.timed:
        lines += NOTHING_TIMED
    lines.append(unchecked_winner(facts))
    counts = outcome_counts(facts.trials)
    lines.append("trials:   " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    often = (HINTS[o] for o, n in counts.items() if o in HINTS and n >= OFTEN * len(facts.trials))
    lines += [f"remedy:   {text}" for text in often]
    lines += [f"checked:  {text}" for text in [checked_text(facts)] if text]
    lines.append("measured: " + _measured_text(facts))
    disturbed = sum(trial.disturbed or trial.detail.endswith(DISTURBED) for trial in facts.trials)
    if disturbed:
        lines.append(f"of which: {disturbed} while {DISTURBED}: search again when it is idle")
    processor = sum(trial.detail.endswith(PROCESSOR_TIME) for trial in facts.trials)
    if processor:
        lines.append(f"of which: {processor} by {PROCESSOR_TIME}")
    lines += [f"lost:     {text}" for text in [lost_text(facts)] if text]
    if facts.unraced:
        lines.append(f"race:     {UNRACED}")
    lines += [f"race:     {text}" for text in [race_text(facts)] if text]
    lines += [f"ended:    {text}" for text in [ended_text(facts)] if text]
    lines += [f"template: {text}" for text in [facts.remark] if text]
    if facts.drawn:
        lines.append("space:    " + space_text(facts))
    if facts.refused and facts.valid < LITTLE * facts.drawn:
        why, count = facts.refused[0]
        lines.append(f"refused:  {count} of the others, because: {why}")
    if facts.timed:
        lines.append("estimate: " + correlation_text(facts))
    lines.append(f"best:     trial {won.number}; its schedule as code: {code}")
    lines.append(f"report:   {page}")
    return "\n  ".join(_short(printable(line)) for line in lines if line)


def _winner_text(facts: Facts) -> str:
    won = winner(facts)
    if facts.timed and won.seconds:
        return ", ".join(filter(None, (duration(won.seconds), gflops(facts, won.seconds))))
    if won.estimate is None:
        return "nothing was timed"
    return f"nothing was timed; the best estimate is {estimate_text(won.estimate)}"


def _short(line: str) -> str:
    return line if len(line) <= MOST_LETTERS else line[: MOST_LETTERS - 1] + "…"


def ended_text(facts: Facts) -> str:
    """Return why the search stopped, and that it was an error if it was one."""
    why = facts.ended.removeprefix("autotune: ")
    return f"by an error, and the best so far is kept: {why}" if facts.broken else why


def _measured_text(facts: Facts) -> str:
    timed = [trial for trial in facts.trials if trial.seconds is not None]
    kept = sum(trial.resumed for trial in timed)
    parts = [str(len(timed) - kept)]
    if kept:
        parts.append(f"{kept} more from the database")
    if facts.duplicates:
        several = "s" * (facts.duplicates != 1)
        parts.append(f"{facts.duplicates} duplicate{several} not measured")
    parts.append(f"in {span(facts.spent)}")
    if facts.finals_took > facts.spent / 2:
        parts.append(f"{span(facts.finals_took)} of it for the final race")
    return ", ".join(parts) + f" ({facts.strategy}, seed {facts.seed})"


def space_text(facts: Facts) -> str:
    """Return what part of the draws makes a candidate."""
    return (
        f"{facts.valid} of {facts.drawn} drawn sets of decisions make a candidate "
        f"({percent(facts.valid / facts.drawn)})"
    )


def correlation_text(facts: Facts) -> str:
    """Return how well the estimates rank the times, in words and as a number."""
    known = estimates_and_seconds(facts.trials)
    if facts.rank_correlation is None:
        if len(known) >= LEAST:
            return "it cannot be compared: all estimates, or all times, are the same"
        taken = " during which no other work took a core"
        quiet = taken if any(trial.disturbed for trial in facts.trials) else ""
        return f"too few times{quiet} to compare it with"
    times = [seconds for _, seconds in known]
    if times and max(times) <= ALIKE * min(times):
        return (
            f"it cannot be judged: all times are within {percent(max(times) / min(times) - 1)} of "
            "the shortest"
        )
    return rank_text(facts.rank_correlation)


def rank_text(correlation: float) -> str:
    """Return the meaning of a rank correlation with the times, and its value."""
    meaning = next(text for least, text in MEANINGS if correlation >= least)
    return f"{meaning} (rank correlation {correlation:.2f}; 1: same order, 0: no relation)"


def race_text(facts: Facts) -> str:
    """Return why the best time is longer than in the winner's trial, empty if it is not."""
    won, again = winner(facts), race_seconds(facts)
    if not facts.timed or again is None or won.first is None:
        return ""
    if won.disturbed or won.first_disturbed or again <= ROSE * won.first:
        return ""
    return (
        f"the winner took {duration(won.first)} in the search and {duration(again)} when measured "
        "again: the shortest of many noisy times is too short"
    )
