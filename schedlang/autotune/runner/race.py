"""The fastest few once more, in turns: times that can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedlang.autotune.record import UNCHECKED
from schedlang.autotune.runner.measure import (
    TIMED_OUT,
    Job,
    Measured,
    asked,
    build,
    checked,
    forget,
    late,
    timed,
    within,
)
from schedlang.autotune.runner.sandbox import Sandbox
from schedlang.autotune.runner.task import Task
from schedlang.runtime.timing import quantile

RACE_ROUNDS = 5
# who races has a time already: what is known to work has no more time than there is
IN_A_RACE = 0.0
# below all numbers of trials
EMULATED = -1000


def race(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Time the fastest candidates in turns, so that other work on the machine affects all of them.

    Candidates are built and checked once more before. One that also fails in a process of its own
    is dropped, and the others start again; if one only fails beside the others, each is timed in a
    process of its own. Without timing candidates are only checked, those for a GPU on the emulator
    as well.
    """
    if not task.target.is_gpu:
        return _heats(box, jobs, task)
    emulated = _emulated(box, jobs, task)
    if not task.timed:
        return emulated
    said = {one.number: one.detail for one in emulated if one.outcome == "ok"}
    found = _heats(box, [job for job in jobs if job.number in said], task)
    return [
        *(one for one in emulated if one.outcome != "ok"),
        *(replace(m, detail=said[m.number]) if m.outcome == "ok" else m for m in found),
    ]


def _heats(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Time the candidates in turns; drop one that fails and start again with the others."""
    found = _heat(box, jobs, task)
    if not found or found[-1].outcome == "ok" or len(jobs) == 1 or _late(jobs):
        return found
    failed = [job for job in jobs if job.number == found[-1].number]
    rest = [job for job in jobs if job.number != found[-1].number]
    alone = _apart(box, failed, task)
    if alone[-1].outcome == "ok":
        return alone + _apart(box, rest, task)
    box.close()
    return alone + _heats(box, rest, task)


def _apart(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Return each in a process that has seen no other."""
    found: list[Measured] = []
    for job in jobs:
        if found and _late(jobs):
            break
        box.close()
        found += _heat(box, [job], task)
    return found


def _heat(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Return the median time of each, or the first that fails."""
    ready: list[Measured] = []
    for job in jobs:
        built = build(box, job, within(task, job, IN_A_RACE))
        if built.outcome == "ok":
            built = checked(box, built, within(task, job, IN_A_RACE))
        if built.outcome != "ok":
            return [built]
        ready.append(built)
    times: dict[int, list[Measured]] = {one.number: [] for one in ready}
    for number in range(RACE_ROUNDS):
        # a round that all have run is a race
        if number and _late(jobs):
            break
        for one, job in zip(ready, jobs):
            found = timed(box, "sample", one, within(task, job, IN_A_RACE))
            if found.seconds is None:
                if number and _late(jobs) and found.outcome in TIMED_OUT:
                    return [_median(o, times[o.number][:number]) for o in ready]
                return [found]
            times[one.number].append(found)
    forget(box, list(times))
    return [_median(one, times[one.number]) for one in ready]


def _late(jobs: Sequence[Job]) -> bool:
    """Return whether the race is to end."""
    return any(late(job.until) for job in jobs)


def _median(one: Measured, rounds: Sequence[Measured]) -> Measured:
    """Return ``one`` with its median over the undisturbed rounds, if there are any."""
    quiet = [r.seconds for r in rounds if r.quiet and r.seconds is not None]
    every = [r.seconds for r in rounds if r.seconds is not None]
    return replace(one, seconds=quantile(quiet or every, 0.5), quiet=bool(quiet))


def _emulated(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Return each on the emulator.

    Where that takes one too long, or too much, the others are left out.
    """
    found: list[Measured] = []
    why = ""
    for job in jobs:
        known = within(task, job, IN_A_RACE)
        built = build(box, job, known)
        if built.outcome == "ok":
            built = replace(built, detail=why) if why else _checked_there(box, job, built, known)
            why = built.detail if built.detail.startswith(UNCHECKED) else why
        found.append(built)
    return found


def _checked_there(box: Sandbox, job: Job, built: Measured, task: Task) -> Measured:
    """Return ``built``, or how it failed on the emulator, where the kernel has a number of its own.

    A candidate that is too large for the emulator is returned as it is, with a note in its detail.
    """
    limit = task.limits.build + task.limits.run
    there = replace(built, number=EMULATED - job.number)
    reply = asked(box, "run", "emulate", limit, there, steps=job.steps)
    forget(box, [there.number])
    if not isinstance(reply, Measured):
        return built
    if reply.outcome in ("run timed out", "out of memory"):
        return replace(built, detail=f"{UNCHECKED}: {reply.detail or reply.outcome}")
    return replace(reply, number=job.number)


__all__ = ["RACE_ROUNDS", "race"]
