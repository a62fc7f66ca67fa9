"""The race: the fastest candidates are timed again, in turns, for times that can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlang.autotune.record import UNCHECKED
from schedlang.autotune.runner.candidate_runner import FAR_BEHIND
from schedlang.autotune.runner.measure import (
    TIMED_OUT,
    Job,
    Measured,
    build,
    check_built,
    forget,
    late,
    send,
    time_built,
    within,
)
from schedlang.autotune.runner.sandbox import Sandbox
from schedlang.autotune.runner.task import Task
from schedlang.runtime.timing import quantile

RACE_ROUNDS = 5
# times the best time of the first round after which a finalist has lost
OUT = 4
# a best time for :func:`within`: finalists have worked, so that the end of the search limits them
RACING = 0.0
# the job number of an emulated kernel is this minus the number of its trial
EMULATED = -1000


def race(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Time the finalists in turns, so that other work on the machine affects all of them alike.

    They are first built and checked again. If one fails, it runs again in a new process. If it
    fails there too, it is dropped and the others start again. If it works there, each finalist is
    timed in a new process. One that the first round shows to be far behind, such as an untuned
    schedule, is timed in that round alone. Kernels for a GPU are also checked on the emulator. If
    nothing can be timed, that check is the whole race.
    """
    if not task.target.facts.emulated:
        return _in_turns(box, jobs, task)
    emulated = _emulate_each(box, jobs, task)
    if not task.timed:
        return emulated
    details = {one.number: one.detail for one in emulated if one.outcome == "ok"}
    times = _in_turns(box, [job for job in jobs if job.number in details], task)
    return [
        *(one for one in emulated if one.outcome != "ok"),
        *(replace(m, detail=details[m.number]) if m.outcome == "ok" else m for m in times),
    ]


def _in_turns(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Time the finalists in turns; drop one that fails and start again with the others."""
    measured = _one_race(box, jobs, task)
    if not measured or measured[-1].outcome == "ok" or len(jobs) == 1 or _late(jobs):
        return measured
    failed = [job for job in jobs if job.number == measured[-1].number]
    rest = [job for job in jobs if job.number != measured[-1].number]
    alone = _each_alone(box, failed, task)
    if alone[-1].outcome == "ok":
        return alone + _each_alone(box, rest, task)
    box.close()
    return alone + _in_turns(box, rest, task)


def _each_alone(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Measure each finalist in a new process."""
    measured: list[Measured] = []
    for job in jobs:
        if measured and _late(jobs):
            break
        box.close()
        measured += _one_race(box, [job], task)
    return measured


def _one_race(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Return the median time of each finalist, or only the first that fails."""
    ready: list[Measured] = []
    for job in jobs:
        built = build(box, job, within(task, job, RACING))
        if built.outcome == "ok":
            built = check_built(box, built, within(task, job, RACING))
        if built.outcome != "ok":
            return [built]
        ready.append(built)
    times: dict[int, list[Measured]] = {one.number: [] for one in ready}
    for number in range(RACE_ROUNDS):
        # one full round is enough for a race
        if number and _late(jobs):
            break
        far = _far_behind(times) if number else ()
        for one, job in zip(ready, jobs):
            if one.number in far:
                continue
            sample = time_built(box, "sample", one, within(task, job, RACING))
            if sample.seconds is None:
                if number and _late(jobs) and sample.outcome in TIMED_OUT:
                    return [_median(o, times[o.number][:number]) for o in ready]
                return [sample]
            times[one.number].append(sample)
    forget(box, list(times))
    return [_median(one, times[one.number]) for one in ready]


def _far_behind(times: Mapping[int, Sequence[Measured]]) -> set[int]:
    """Return the finalists whose first round is so slow that further rounds cannot change it.

    A disturbed time must be much longer for that.
    """
    least = min(rounds[0].seconds or 0.0 for rounds in times.values())
    return {
        number
        for number, (first, *_) in times.items()
        if (first.seconds or 0.0) > (OUT if first.quiet else FAR_BEHIND) * least
    }


def _late(jobs: Sequence[Job]) -> bool:
    """Return whether the deadline of the race has passed."""
    return any(late(job.until) for job in jobs)


def _median(one: Measured, rounds: Sequence[Measured]) -> Measured:
    """Return ``one`` with its median over the undisturbed rounds.

    If processor time was taken in all of these, that counts. If every round was disturbed, all
    rounds count.
    """
    timed = [r for r in rounds if r.seconds is not None]
    quiet = [r for r in timed if r.quiet]
    counted = [r for r in quiet if not r.processor] or quiet or timed
    seconds = [r.seconds or 0.0 for r in counted]
    median = quantile(seconds, 0.5)
    return replace(
        one,
        seconds=median,
        spread=(quantile(seconds, 0.75) - quantile(seconds, 0.25)) / median if median else 0.0,
        quiet=bool(quiet),
        processor=counted[0].processor,
    )


def _emulate_each(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Build each finalist and check it on the emulator.

    After one that takes too long there, or too much memory, the others are only built.
    """
    checked: list[Measured] = []
    why = ""
    for job in jobs:
        known = within(task, job, RACING)
        built = build(box, job, known)
        if built.outcome == "ok":
            built = replace(built, detail=why) if why else _check_emulated(box, job, built, known)
            why = built.detail if built.detail.startswith(UNCHECKED) else why
        checked.append(built)
    return checked


def _check_emulated(box: Sandbox, job: Job, built: Measured, task: Task) -> Measured:
    """Return ``built``, or its failure on the emulator.

    A kernel that is too large for the emulator counts as built, with a note in its detail.
    """
    limit = task.limits.build + task.limits.run
    emulated = replace(built, number=EMULATED - job.number)
    reply = send(box, "run", "emulate", limit, emulated, steps=job.steps)
    forget(box, [emulated.number])
    if not isinstance(reply, Measured):
        return built
    if reply.outcome in ("run timed out", "out of memory"):
        return replace(built, detail=f"{UNCHECKED}: {reply.detail or reply.outcome}")
    return replace(reply, number=job.number)
