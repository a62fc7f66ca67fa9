"""Resuming: the trials of earlier runs that hold for a search."""

from __future__ import annotations

from dataclasses import replace

from schedlang.autotune.knobs import Rejected
from schedlang.autotune.record import UNTUNED, Trial
from schedlang.autotune.state import Search, key_of, ranked
from schedlang.errors import SchedlangError
from schedlang.schedule.schedule import Schedule

# how often a trial of an earlier run, which a seed proposes again, counts as no repetition
REPEATED_EACH = 20


def resume(search: Search) -> None:
    """Count this template's trials in the database as trials of ``search``; they are not repeated.

    If there are more than the search wants, the fastest one is among those that count.
    """
    earlier: dict[str, Trial] = {}
    for trial in search.database.each_trial(search.where, search.task.outputs):
        if search.space.late():
            break
        if trial.strategy != UNTUNED and trial.template == search.template:
            key = _made_again(search, trial)
            if key:
                earlier[key] = trial
    best = next(iter(ranked([t for t in earlier.values() if t.outcome == "ok"])), None)
    chosen = list(earlier)[: search.most]
    if best is not None and all(earlier[key] is not best for key in chosen):
        chosen[-1] = next(key for key, trial in earlier.items() if trial is best)
    for key in chosen:
        number = len(search.trials)
        trial = replace(earlier[key], number=number, source=key, resumed=True)
        search.trials.append(trial)
        search.strategy.learn(trial)
        search.progress.trial(trial)
    search.seen |= set(earlier)
    search.kept = dict.fromkeys(earlier, REPEATED_EACH)


def _made_again(search: Search, trial: Trial) -> str:
    """Return the key of a recorded trial; none for one that does not hold for this search.

    What was checked otherwise may be right or wrong now, and a failure under other limits may do; a
    template of a known name may make something else by now; what other work disturbed is timed
    again; and the steps of a file need not be a schedule at all.
    """
    if trial.disturbed:
        return ""
    if trial.checked != search.task.checked:
        return ""
    if trial.outcome != "ok" and trial.limits != search.task.limited:
        return ""
    space = search.space
    try:
        made = Schedule.from_json(trial.steps, list(search.task.outputs))
        key = key_of(space.of(made, trial.decisions, trial.strategy))
        if search.template and key != key_of(space.again(trial.decisions)):
            return ""
    except (SchedlangError, Rejected):
        return ""
    return key


__all__ = ["resume"]
