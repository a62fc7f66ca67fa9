"""Candidates go in, outcomes come out: one of them, in a child process."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic, perf_counter
from typing import Any, Protocol

from schedlang.autotune.runner.sandbox import Lost, Sandbox
from schedlang.autotune.runner.task import Task
from schedlang.autotune.runner.turns import turn

# seconds in which a command that does nothing is answered
PROMPT = 10.0
# how a command may fail, and the outcomes that these are
FAILURES = {"error": "{} failed", "wrong answer": "wrong answer", "out of memory": "out of memory"}
# jobs of a batch for each worker: while one is timed others are built
EACH = 4
# the least seconds that a command is given where time is short
LEAST = 0.05
TIMED_OUT = ("build timed out", "run timed out")
# outcomes that an earlier candidate may have caused, by what it did to the memory of its process
DOUBTFUL = ("crashed", "out of memory", "wrong answer")


@dataclass(frozen=True)
class Job:
    """A schedule to measure: a number of its own, below 0 for what is no candidate, and its
    schedule as JSON.

    It is given up at ``until`` (of ``time.monotonic``), a candidate only where another one works.
    """

    number: int
    steps: str
    until: float | None = None


@dataclass(frozen=True)
class Measured:
    """The outcome of a job (:data:`~schedlang.autotune.record.OUTCOMES`), and the time of a call.

    ``quiet`` is false where other work on the machine cut into every sample; ``machine`` is the one
    that measured, where it is not this one.
    """

    number: int
    outcome: str
    seconds: float | None = None
    quiet: bool = True
    detail: str = ""
    took: float = 0.0
    resources: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""


class Measurer(Protocol):
    """Measures schedules: a batch of jobs at a time, in any order; ``batch`` is a good size for
    one, :data:`EACH` for each worker.

    What is not begun by ``deadline`` (of ``time.monotonic``) is left out, and so is a candidate
    that is given up. ``race`` builds, checks
    and times a few once more, in turns, for times that can be compared; it answers nothing where
    that cannot be. Both raise :class:`~schedlang.autotune.runner.sandbox.Broken` where nothing
    can be measured any more.
    """

    @property
    def batch(self) -> int: ...

    def measure(
        self, jobs: Sequence[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]: ...
    def race(self, jobs: Sequence[Job]) -> list[Measured]: ...
    def close(self) -> None: ...


def measure_one(box: Sandbox, job: Job, task: Task, best: float | None) -> Measured:
    """Build and run a candidate."""
    with turn(alone=False):
        found = build(box, job, within(task, job, best))
    if found.outcome == "ok":
        with turn(alone=True):
            found = run(box, job, found, task, best)
        forget(box, [job.number])
    return found


def measure_alone(box: Sandbox, job: Job, task: Task, best: float | None) -> Measured:
    """Build and run a candidate in a process that has seen no other."""
    box.close()
    return measure_one(box, job, task, best)


def doubtful(box: Sandbox, found: Measured) -> bool:
    """Return whether a process is given up for what another candidate may have done to it."""
    return found.outcome in DOUBTFUL and not box.alive and box.met != {found.number}


def faster(best: float | None, found: Measured) -> float | None:
    """Return the least time of a candidate so far."""
    if found.seconds is None or found.number < 0:
        return best
    return found.seconds if best is None else min(best, found.seconds)


def within(task: Task, job: Job, best: float | None) -> Task:
    """Return ``task`` with the time that is left for ``job``, where that is less than its limits.

    A candidate has all of its time until one works.
    """
    if job.until is None or (best is None and job.number >= 0):
        return task
    left, limits = max(LEAST, job.until - monotonic()), task.limits
    if left >= max(limits.build, limits.run):
        return task
    return replace(
        task, limits=replace(limits, build=min(limits.build, left), run=min(limits.run, left))
    )


def given_up(job: Job, found: Measured, best: float | None) -> bool:
    """Return whether a candidate was ended for want of time, which says nothing of it."""
    return best is not None and late(job.until) and found.outcome in TIMED_OUT


def build(box: Sandbox, job: Job, task: Task) -> Measured:
    """Compile a candidate in a child process. What that takes to start is not the candidate's."""
    start = perf_counter()
    none = Measured(job.number, "ok")
    reply = asked(box, "build", "build", task.limits.build, none, steps=job.steps)
    if not isinstance(reply, Measured):
        resources = reply.get("resources")
        if isinstance(resources, dict) and all(isinstance(r, dict) for r in resources.values()):
            reply = replace(none, resources=resources)
        else:
            reply = _no_answer(box, none)
    return replace(reply, took=perf_counter() - start - box.starting)


def run(box: Sandbox, job: Job, built: Measured, task: Task, best: float | None) -> Measured:
    """Check a candidate that is built, then time it."""
    start = perf_counter()
    found = built
    if task.runs:
        found = checked(box, built, within(task, job, best))
    if task.timed and found.outcome == "ok":
        found = timed(box, "time", built, within(task, job, best), best=best)
    return replace(found, took=built.took + perf_counter() - start)


def checked(box: Sandbox, built: Measured, task: Task) -> Measured:
    """Return ``built``, or how its check failed."""
    # the first launch on a GPU compiles once more
    limit = task.limits.run + task.limits.build * task.target.is_gpu
    reply = asked(box, "run", "check", limit, built)
    return reply if isinstance(reply, Measured) else built


def timed(box: Sandbox, what: str, built: Measured, task: Task, **arguments: Any) -> Measured:
    """Return ``built`` with its time, or how it failed."""
    reply = asked(box, "run", what, task.limits.run, built, **arguments)
    if isinstance(reply, Measured):
        return reply
    seconds = reply.get("seconds")
    if not isinstance(seconds, float) or not 0 < seconds < math.inf:
        return _no_answer(box, built)
    return replace(built, seconds=seconds, quiet=reply.get("quiet") is not False)


def asked(
    box: Sandbox, phase: str, what: str, seconds: float, known: Measured, **arguments: Any
) -> dict[str, Any] | Measured:
    """Return the answer to a command about a candidate, or how it ended.

    A process is given up where a candidate did more to it than to give a wrong result.
    """
    try:
        reply = box.ask(what, seconds, number=known.number, **arguments)
    except Lost as lost:
        outcome = f"{phase} timed out" if lost.how == "timed out" else lost.how
        return replace(known, outcome=outcome, detail=lost.detail, resources={})
    if "failed" not in reply:
        return reply
    failed, detail = str(reply["failed"]), str(reply.get("detail", ""))
    if failed not in FAILURES:
        return _no_answer(box, known)
    spoiled = failed != "wrong answer" or reply.get("spoiled", True)
    if failed == "out of memory" or (phase == "run" and spoiled):
        box.close()
    return replace(known, outcome=FAILURES[failed].format(phase), detail=detail, resources={})


def _no_answer(box: Sandbox, known: Measured) -> Measured:
    box.close()
    return replace(known, outcome="crashed", detail="its answer is malformed", resources={})


def forget(box: Sandbox, numbers: Sequence[int]) -> None:
    """Let a child process drop kernels; one that is lost has none."""
    if box.alive:
        with suppress(Lost):
            box.ask("forget", PROMPT, numbers=list(numbers))


def late(deadline: float | None) -> bool:
    """Return whether a deadline (of ``time.monotonic``), if there is one, has come."""
    return deadline is not None and monotonic() >= deadline


def digest(text: str) -> str:
    """Return a short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
