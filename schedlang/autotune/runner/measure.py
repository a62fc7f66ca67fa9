"""Jobs and their outcomes, and the measurement of one candidate in a child process."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic, perf_counter
from typing import Any, Protocol

from schedlang.autotune.record import DISTURBED, PROCESSOR_TIME
from schedlang.autotune.runner.machine_lock import machine_lock
from schedlang.autotune.runner.sandbox import Lost, Sandbox
from schedlang.autotune.runner.task import Task

# seconds for the answer to a trivial command
PROMPT = 10.0
# the failures of a command, and the outcomes that they stand for
FAILURES = {"error": "{} failed", "wrong answer": "wrong answer", "out of memory": "out of memory"}
# jobs in a batch per worker: others are built while one is timed
EACH = 4
# the least seconds for a command when time is short
LEAST = 0.05
TIMED_OUT = ("build timed out", "run timed out")
# outcomes that an earlier candidate may have caused, by corrupting the memory of the process
DOUBTFUL = ("crashed", "out of memory", "wrong answer")


@dataclass(frozen=True)
class Job:
    """A schedule to measure, as JSON ``steps``, with a number that is negative for no candidate.

    It is given up at ``until``, by ``time.monotonic``. Until another one has worked, a candidate is
    given up at ``latest``, if that is set.
    """

    number: int
    steps: str
    until: float | None = None
    latest: float | None = None

    def end(self, best: float | None) -> float | None:
        """Return when it is given up, given the best time so far."""
        return self.latest if best is None and self.number >= 0 else self.until


@dataclass(frozen=True)
class Measured:
    """The outcome of a job (:data:`~schedlang.autotune.record.OUTCOMES`), and the time of a call.

    * ``quiet``: False if other work disturbed every sample. ``processor``: it did, and the time is
      processor time of the kernel's only thread, which does not count other work.
    * ``spread``: the part of a median time by which the rounds of a race differed.
    * ``took``: the seconds that building, checking and timing took.
    * ``resources``: what each GPU kernel takes, if the candidate was only compiled.
    * ``machine``: the machine that measured it, if not this one.
    """

    number: int
    outcome: str
    seconds: float | None = None
    quiet: bool = True
    processor: bool = False
    detail: str = ""
    spread: float = 0.0
    took: float = 0.0
    resources: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""

    @property
    def other_work(self) -> str:
        """A sentence on other work that disturbed the time, for the detail of its trial."""
        if not self.quiet:
            return DISTURBED
        return PROCESSOR_TIME if self.processor else ""


class Measurer(Protocol):
    """A measurer of schedules.

    ``measure`` yields the outcomes of a batch of jobs, in any order, after it has taken all of them
    from the iterable, which may draw them one by one. It leaves out candidates that are given up,
    and jobs that wait at ``deadline`` (of ``time.monotonic``). ``batch`` is a good
    number of jobs, :data:`EACH` per worker. ``race`` builds, checks and times a few candidates
    again, in turns, for times that can be compared; it returns an empty list if it cannot. Both
    raise :class:`~schedlang.autotune.runner.sandbox.Broken` if nothing can be measured any more.
    """

    @property
    def batch(self) -> int: ...

    def measure(
        self, jobs: Iterable[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]: ...
    def race(self, jobs: Sequence[Job]) -> list[Measured]: ...
    def close(self) -> None: ...


def measure_one(box: Sandbox, job: Job, task: Task, best: float | None) -> Measured:
    """Build and run a candidate, waiting for a turn each time."""
    with machine_lock(alone=False):
        measured = build(box, job, within(task, job, best))
    if measured.outcome == "ok":
        with machine_lock(alone=True):
            measured = run(box, job, measured, task, best)
        forget(box, [job.number])
    return measured


def measure_alone(box: Sandbox, job: Job, task: Task, best: float | None) -> Measured:
    """Build and run a candidate in a new process."""
    box.close()
    return measure_one(box, job, task, best)


def doubtful(box: Sandbox, measured: Measured) -> bool:
    """Return whether another candidate in the same process may have caused a failure."""
    return measured.outcome in DOUBTFUL and not box.alive and box.met != {measured.number}


def faster(best: float | None, measured: Measured) -> float | None:
    """Return the best time so far; the time of ``measured`` counts if it is a candidate."""
    if measured.seconds is None or measured.number < 0:
        return best
    return measured.seconds if best is None else min(best, measured.seconds)


def within(task: Task, job: Job, best: float | None) -> Task:
    """Return ``task`` with its limits reduced to the time that is left for ``job``.

    Until one has worked, a candidate has its full limits, unless that ends at ``job.latest``.
    """
    end = job.end(best)
    if end is None:
        return task
    left, limits = max(LEAST, end - monotonic()), task.limits
    if left >= max(limits.build, limits.run):
        return task
    return replace(
        task, limits=replace(limits, build=min(limits.build, left), run=min(limits.run, left))
    )


def given_up(job: Job, measured: Measured, best: float | None) -> bool:
    """Return whether a job ran out of the search's time, which says nothing of its schedule."""
    candidate = best is not None or job.number >= 0
    return candidate and late(job.end(best)) and measured.outcome in TIMED_OUT


def build(box: Sandbox, job: Job, task: Task) -> Measured:
    """Compile a candidate in a child process; ``took`` leaves out the start of the process."""
    start = perf_counter()
    none = Measured(job.number, "ok")
    reply = send(box, "build", "build", task.limits.build, none, steps=job.steps)
    if not isinstance(reply, Measured):
        resources = reply.get("resources")
        if isinstance(resources, dict) and all(isinstance(r, dict) for r in resources.values()):
            reply = replace(none, resources=resources)
        else:
            reply = _no_answer(box, none)
    return replace(reply, took=perf_counter() - start - box.starting)


def run(box: Sandbox, job: Job, built: Measured, task: Task, best: float | None) -> Measured:
    """Check a built candidate, then time it."""
    start = perf_counter()
    measured = built
    if task.runs:
        measured = check_built(box, built, within(task, job, best))
    if task.timed and measured.outcome == "ok":
        measured = time_built(box, "time", built, within(task, job, best), best=best)
    return replace(measured, took=built.took + perf_counter() - start)


def check_built(box: Sandbox, built: Measured, task: Task) -> Measured:
    """Check a built candidate; return ``built``, or its failure."""
    limit = task.limits.run + task.limits.build * task.target.facts.compiles_at_launch
    reply = send(box, "run", "check", limit, built)
    return reply if isinstance(reply, Measured) else built


def time_built(box: Sandbox, what: str, built: Measured, task: Task, **arguments: Any) -> Measured:
    """Time a built candidate; return ``built`` with its time, or its failure."""
    reply = send(box, "run", what, task.limits.run, built, **arguments)
    if isinstance(reply, Measured):
        return reply
    seconds = reply.get("seconds")
    if not isinstance(seconds, float) or not 0 < seconds < math.inf:
        return _no_answer(box, built)
    return replace(
        built,
        seconds=seconds,
        quiet=reply.get("quiet") is not False,
        processor=reply.get("processor") is True,
    )


def send(
    box: Sandbox, phase: str, what: str, seconds: float, known: Measured, **arguments: Any
) -> dict[str, Any] | Measured:
    """Return the answer to a command about a candidate, or the candidate's failure.

    The process is ended if the candidate may have harmed it: by more than a wrong result.
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
    """End a process whose answer is malformed, and return the failure."""
    box.close()
    return replace(known, outcome="crashed", detail="its answer is malformed", resources={})


def forget(box: Sandbox, numbers: Sequence[int]) -> None:
    """Make a child process drop kernels, if it is alive."""
    if box.alive:
        with suppress(Lost):
            box.ask("forget", PROMPT, numbers=list(numbers))


def late(deadline: float | None) -> bool:
    """Return whether a deadline (of ``time.monotonic``), if there is one, has passed."""
    return deadline is not None and monotonic() >= deadline


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
