"""Resuming a search: the trials of earlier runs that still hold."""

from __future__ import annotations

from dataclasses import replace

from schedlang.autotune.knobs import Rejected
from schedlang.autotune.record import UNTUNED, Trial
from schedlang.autotune.state import Search, key_of, ranked
from schedlang.errors import SchedlangError
from schedlang.schedule.schedule import Schedule

# how often a seed may propose a trial of an earlier run again without it counting as a duplicate
REPEATED_EACH = 20


def resume(search: Search) -> None:
    """Add this template's trials in the database to ``search``, which does not measure them again.

    If there are more trials than the search wants, the fastest one is added, and so is the trial of
    the schedule that the caller gave.
    """
    earlier: dict[str, Trial] = {}
    for trial in search.database.each_trial(search.where, search.task.outputs):
        if search.space.late():
            break
        if trial.strategy != UNTUNED and trial.template == search.template:
            key = _valid_key(search, trial)
            if key:
                earlier[key] = trial
    best = next(iter(ranked([t for t in earlier.values() if t.outcome == "ok"])), None)
    chosen = list(earlier)[: search.most]
    if best is not None and all(earlier[key] is not best for key in chosen):
        chosen[-1] = next(key for key, trial in earlier.items() if trial is best)
    given = None if search.given is None else key_of(search.given)
    if given in earlier and given not in chosen:
        chosen.append(given)
    for key in chosen:
        number = len(search.trials)
        trial = replace(earlier[key], number=number, source=key, resumed=True)
        search.trials.append(trial)
        search.strategy.learn(trial)
        search.progress.trial(trial)
    search.seen |= set(earlier)
    search.kept = dict.fromkeys(earlier, REPEATED_EACH)


def _valid_key(search: Search, trial: Trial) -> str:
    """Return the key of a recorded trial, empty if the trial does not hold for this search.

    A trial is measured again if other work disturbed it, if it was checked with another tolerance
    or other inputs, or if it failed under other limits. It is also measured again if the template
    of that name now makes another schedule, or if its steps are not a valid schedule.
    """
    if trial.disturbed:
        return ""
    if trial.checked != search.task.checked:
        return ""
    if trial.outcome != "ok" and trial.limits != search.task.limited:
        return ""
    space = search.space
    try:
        schedule = Schedule.from_json(trial.steps, list(search.task.outputs))
        key = key_of(space.of(schedule, trial.decisions, trial.strategy))
        if search.template and key != key_of(space.replay(trial.decisions)):
            return ""
    except (SchedlangError, Rejected):
        return ""
    return key
