"""The end of a search: a race of the fastest trials, and the time of the untuned schedule."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic

from schedlang.autotune.budget import GRACE, finalists, untuned_fits, untuned_races, untuned_until
from schedlang.autotune.record import UNRACED, UNTUNED, Trial
from schedlang.autotune.runner.measure import Job, Measured
from schedlang.autotune.state import BASELINE, Search, key_of
from schedlang.schedule.schedule import empty_schedule

# the most races, where all finalists of one fail
MOST_RACES = 3
# seconds that are too few to build and time a schedule
LITTLE = 0.2
# outcomes after which a finalist keeps its earlier time
SLOW = ("build timed out", "run timed out")


def final_race(search: Search) -> None:
    """Race the fastest trials: measure them again, in turns. The medians of the race count.

    The race holds the first candidate, what is there and the untuned schedule too. What is there,
    or else the first candidate, stays the result where the gain of the fastest is not larger than
    the differences between rounds of the race. A finalist that
    the race does not measure in time keeps its first time. The untuned schedule is timed before the
    race. If a timeout leaves too little time, it is timed after the race, or does not race.
    """
    if untuned_races(search):
        _time_untuned(search)
        _race(search)
        return
    _race(search)
    _time_untuned(search)


def _race(search: Search) -> None:
    """Race the finalists, again with others if all of them fail."""
    for _ in range(MOST_RACES):
        if not search.good() or not (search.task.timed or search.task.target.facts.emulated):
            return
        chosen = finalists(search)
        if not chosen:
            search.unraced = True
            search.progress.note(UNRACED)
            return
        until = search.end
        if until is not None and search.timeout is not None:
            until += GRACE * search.timeout
        jobs = [Job(t.number, t.steps, until) for t in chosen]
        if untuned_fits(search):
            jobs.append(replace(search.untuned_job(), until=until))
        again = {m.number: m for m in search.measurer.race(jobs)}
        _raced_untuned(search, again.pop(BASELINE, None))
        search.unraced = all(m.outcome in SLOW for m in again.values())
        if search.unraced:
            search.progress.note(UNRACED)
        for n, trial in enumerate(search.trials):
            if trial.number in again:
                search.trials[n] = _again(search, trial, again[trial.number])
        search.finalists = {n for n, m in again.items() if m.outcome == "ok"}
        search.keep({n: m.spread for n, m in again.items()})
        # last: the times above count even if the disk is full
        for trial in search.trials:
            if trial.number in again:
                search.record(trial, again[trial.number])
        if (best := search.best()) is not None:
            search.progress.raced(best)
        if search.finalists or search.unraced or search.space.late():
            return


def _time_untuned(search: Search) -> None:
    """Time the untuned schedule, unless this run has done so or there is no time."""
    if search.untuned is not None or not search.times_untuned or not search.good():
        return
    until = untuned_until(search)
    if search.space.late() if until is None else monotonic() + LITTLE > until:
        return
    deadline = search.space.deadline if until is None else None
    job = replace(search.untuned_job(), until=until)
    for measured in search.measurer.measure([job], None, deadline):
        search.untuned = measured


def _raced_untuned(search: Search, raced: Measured | None) -> None:
    """Store the time of the untuned schedule from the race, if it has one."""
    if raced is None or raced.seconds is None:
        return
    known = search.untuned
    search.untuned_first = search.untuned_first or known
    search.untuned = raced if known is None else _better(raced, known)


def record_untuned(search: Search) -> None:
    """Add the untuned schedule as a trial if it beats every candidate of the search.

    With a user's template it is not added, since the result must have the template's decisions.
    """
    best, space, timed = search.best(), search.space, search.untuned
    if best is None or best.seconds is None or not space.by_tactics:
        return
    if timed is None or timed.seconds is None or timed.seconds >= best.seconds:
        return
    untuned = space.of(empty_schedule(list(search.task.outputs)), {}, UNTUNED)
    key = key_of(untuned)
    if key in search.seen:
        return
    first = search.untuned_first
    trial = Trial(
        1 + max(t.number for t in search.trials), "ok", search.untuned_job().steps, {},
        timed.seconds, untuned.estimate.seconds, timed.other_work, key, UNTUNED,
        raced=first is not None, first=first.seconds if first else None, disturbed=not timed.quiet,
        first_disturbed=first is not None and not first.quiet, checked=search.task.checked,
        limits=search.task.limited,
    )  # fmt: skip
    search.trials.append(trial)
    search.finalists.add(trial.number)
    search.record(trial, timed)
    search.progress.trial(trial)


def _again(search: Search, trial: Trial, measured: Measured) -> Trial:
    """Return a trial with its time from the race, and the tolerance and limits of this search."""
    parts = [measured.detail, measured.other_work]
    detail = "; ".join(filter(None, parts))
    detail = f"when measured again: {detail}" if detail else ""
    if measured.outcome in SLOW:
        return replace(trial, detail=detail)
    if measured.seconds is not None:
        measured = _better(
            measured, replace(measured, seconds=trial.seconds, quiet=not trial.disturbed)
        )
    kept = trial.first is not None
    return replace(
        trial, outcome=measured.outcome, seconds=measured.seconds, detail=detail,
        first=trial.first if kept else trial.seconds,
        first_disturbed=trial.first_disturbed if kept else trial.disturbed,
        raced=measured.outcome == "ok", margin=0.0,
        disturbed=measured.seconds is not None and not measured.quiet,
        checked=search.task.checked, limits=search.task.limited,
    )  # fmt: skip


def _better(new: Measured, known: Measured) -> Measured:
    """Return the new time; a disturbed one only replaces the known time if it is shorter."""
    if new.quiet or new.seconds is None or known.seconds is None:
        return new
    seconds = min(new.seconds, known.seconds)
    return replace(new, seconds=seconds, quiet=known.quiet)
