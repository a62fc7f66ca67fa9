"""Candidates go in, outcomes come out: measured by child processes on this machine."""

from __future__ import annotations

import hashlib
import math
import shutil
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import repeat
from time import monotonic, perf_counter
from typing import Any, Protocol

from schedlang.autotune.measuring.sandbox import COMMAND, Lost, Sandbox, new_folder
from schedlang.autotune.measuring.task import Task
from schedlang.autotune.measuring.turns import turn
from schedlang.runtime.timing import quantile

RACE_ROUNDS = 5
# below all numbers of trials
EMULATED = -1000
# seconds in which a command that does nothing is answered
PROMPT = 10.0
# how a command may fail, and the outcomes that these are
FAILURES = {"error": "{} failed", "wrong answer": "wrong answer", "out of memory": "out of memory"}
# outcomes that an earlier candidate may have caused, by what it did to the memory of its process
DOUBTFUL = ("crashed", "out of memory", "wrong answer")


@dataclass(frozen=True)
class Job:
    """A candidate to be measured: a number of its own, and its schedule as JSON."""

    number: int
    steps: str


@dataclass(frozen=True)
class Measured:
    """How a job ended (:data:`~schedlang.autotune.record.OUTCOMES`), and the seconds of a call.

    ``calm`` is false where other work on the machine cut into every sample.
    """

    number: int
    outcome: str
    seconds: float | None = None
    calm: bool = True
    detail: str = ""
    took: float = 0.0
    resources: Mapping[str, Any] = field(default_factory=dict)


class Measurer(Protocol):
    """What measures: a batch of jobs at a time, in any order; ``batch`` is a good size for one.

    What is not begun by ``deadline`` (of ``time.monotonic``) is left out. ``race`` builds, checks
    and times a few once more, in turns, for times that can be compared; it answers nothing where
    that cannot be. Both raise :class:`~schedlang.autotune.measuring.sandbox.Broken` where nothing
    can be measured any more.
    """

    @property
    def batch(self) -> int: ...

    def measure(
        self, jobs: Sequence[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]: ...
    def race(self, jobs: Sequence[Job]) -> list[Measured]: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Built:
    """A candidate that is ready to run in the process that built it."""

    job: Job
    found: Measured
    start: int

    def there(self, box: Sandbox) -> bool:
        """Whether that process is still the one."""
        return box.alive and box.starts == self.start


class Local:
    """Child processes on this machine: they build at the same time, and are timed one by one."""

    def __init__(self, task: Task, workers: int, command: Sequence[str] = COMMAND) -> None:
        self.batch = 4 * workers
        self._task = task
        self._folder = new_folder()
        self._boxes = [Sandbox(task, self._folder, command) for _ in range(workers)]
        self._over = False

    def measure(
        self, jobs: Sequence[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        """Each job's outcome. What a lost process had built for others is built again.

        So is a candidate that crashed in a process that others had used: then it is alone, and the
        one to blame.
        """
        again: list[Job] = []
        for box, (ready, done, lost) in zip(self._boxes, self._built(jobs, deadline)):
            yield from done
            again += lost
            for made in ready:
                if not made.there(box):
                    again.append(made.job)
                    continue
                with turn(alone=True):
                    result = run(box, made.job, made.found, self._task, best)
                if doubtful(box, result):
                    again.append(made.job)
                    continue
                best = faster(best, result)
                yield result
            forget(box, [made.job.number for made in ready])
        for job in again:
            result = measure_alone(self._boxes[0], job, self._task, best)
            best = faster(best, result)
            yield result

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        with turn(alone=True):
            return race(self._boxes[0], jobs, self._task)

    def close(self) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        self._over = True
        for box in self._boxes:
            box.end()

    def _built(
        self, jobs: Sequence[Job], deadline: float | None
    ) -> list[tuple[list[Built], list[Measured], list[Job]]]:
        """What each process built, who takes the next one when it is free; cut short, they end."""
        left = deque(jobs)
        with turn(alone=False), ThreadPoolExecutor(len(self._boxes)) as pool:
            try:
                return list(pool.map(self._build, self._boxes, repeat(left), repeat(deadline)))
            except BaseException:
                self._end()
                raise

    def _build(
        self, box: Sandbox, jobs: deque[Job], deadline: float | None
    ) -> tuple[list[Built], list[Measured], list[Job]]:
        """What is ready to run, what is over, and what is to be built again."""
        ready: list[Built] = []
        done: list[Measured] = []
        again: list[Job] = []
        while jobs and not self._over and (deadline is None or monotonic() < deadline):
            try:
                job = jobs.popleft()
            except IndexError:
                break
            found = build(box, job, self._task)
            if found.outcome == "ok":
                ready.append(Built(job, found, box.starts))
            elif doubtful(box, found):
                again.append(job)
            else:
                done.append(found)
        return ready, done, again


def measure_one(box: Sandbox, job: Job, task: Task, best: float | None) -> Measured:
    """Build and run a candidate."""
    with turn(alone=False):
        found = build(box, job, task)
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
    """Whether a process is given up for what another candidate may have done to it."""
    return found.outcome in DOUBTFUL and not box.alive and box.met != {found.number}


def faster(best: float | None, found: Measured) -> float | None:
    """The least time so far."""
    if found.seconds is None:
        return best
    return found.seconds if best is None else min(best, found.seconds)


def build(box: Sandbox, job: Job, task: Task) -> Measured:
    """Compile a candidate in a child process."""
    start = perf_counter()
    none = Measured(job.number, "ok")
    reply = _asked(box, "build", "build", task.limits.build, none, steps=job.steps)
    if not isinstance(reply, Measured):
        resources = reply.get("resources")
        if isinstance(resources, dict):
            reply = replace(none, resources=resources)
        else:
            reply = _no_answer(box, none)
    return replace(reply, took=perf_counter() - start)


def run(box: Sandbox, job: Job, built: Measured, task: Task, best: float | None) -> Measured:
    """Check a candidate that is built, then time it."""
    start = perf_counter()
    found = built
    if task.timed or task.target.kind != "cuda":
        found = _checked(box, built, task)
    if task.timed and found.outcome == "ok":
        found = _timed(box, "time", built, task, best=best)
    return replace(found, took=built.took + perf_counter() - start)


def race(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """Candidates built and checked once more, then timed in turns: what else the machine does hits
    all of them. Where one fails, each is timed in a process of its own. Where nothing is timed they
    are only checked; those for a GPU on the emulator, too.
    """
    if not task.timed:
        return [_checked_there(box, job, build(box, job, task), task) for job in jobs]
    found = _heat(box, jobs, task)
    if found and len(jobs) > 1 and found[-1].outcome != "ok":
        found = []
        for job in jobs:
            box.close()
            found += _heat(box, [job], task)
    return found


def _heat(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[Measured]:
    """The median time of each, or the first that fails."""
    ready: list[Measured] = []
    for job in jobs:
        built = build(box, job, task)
        found = _checked(box, built, task) if built.outcome == "ok" else built
        if task.target.is_gpu:
            found = _checked_there(box, job, found, task)
        if found.outcome != "ok":
            return [found]
        ready.append(found)
    times: dict[int, list[Measured]] = {one.number: [] for one in ready}
    for _ in range(RACE_ROUNDS):
        for one in ready:
            found = _timed(box, "sample", one, task)
            if found.seconds is None:
                return [found]
            times[one.number].append(found)
    forget(box, list(times))
    return [_median(one, times[one.number]) for one in ready]


def _median(one: Measured, rounds: Sequence[Measured]) -> Measured:
    """``one`` with its median over the undisturbed rounds, if there are any."""
    calm = [r.seconds for r in rounds if r.calm and r.seconds is not None]
    every = [r.seconds for r in rounds if r.seconds is not None]
    return replace(one, seconds=quantile(calm or every, 0.5), calm=bool(calm))


def _checked(box: Sandbox, built: Measured, task: Task) -> Measured:
    """``built``, or how its check failed."""
    # the first launch on a GPU compiles once more
    limit = task.limits.run + task.limits.build * task.target.is_gpu
    reply = _asked(box, "run", "check", limit, built)
    return reply if isinstance(reply, Measured) else built


def _checked_there(box: Sandbox, job: Job, built: Measured, task: Task) -> Measured:
    """``built``, or how it failed on the emulator; the kernel is kept under a number of its own.

    One that is too slow for the emulator stays as it is, with a word about that.
    """
    if built.outcome != "ok":
        return built
    limit = task.limits.build + task.limits.run
    there = replace(built, number=EMULATED - job.number)
    reply = _asked(box, "run", "emulate", limit, there, steps=job.steps)
    forget(box, [there.number])
    if not isinstance(reply, Measured):
        return built
    if reply.outcome == "run timed out":
        # its process is gone: what is timed next is built again
        again = build(box, job, task) if task.timed else built
        return replace(again, detail=f"not checked on the emulator: {reply.detail}")
    return replace(reply, number=job.number)


def _timed(box: Sandbox, what: str, built: Measured, task: Task, **arguments: Any) -> Measured:
    """``built`` with its time, or how it failed."""
    reply = _asked(box, "run", what, task.limits.run, built, **arguments)
    if isinstance(reply, Measured):
        return reply
    seconds = reply.get("seconds")
    if not isinstance(seconds, float) or not 0 < seconds < math.inf:
        return _no_answer(box, built)
    return replace(built, seconds=seconds, calm=reply.get("calm") is not False)


def _asked(
    box: Sandbox, phase: str, what: str, seconds: float, known: Measured, **arguments: Any
) -> dict[str, Any] | Measured:
    """The answer to a command about a candidate, or how it ended.

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
    if phase == "run" and (failed != "wrong answer" or reply.get("spoiled", True)):
        box.close()
    elif failed == "out of memory":
        box.close()
    return replace(known, outcome=FAILURES[failed].format(phase), detail=detail, resources={})


def _no_answer(box: Sandbox, known: Measured) -> Measured:
    box.close()
    return replace(known, outcome="crashed", detail="what it answered is no answer", resources={})


def forget(box: Sandbox, numbers: Sequence[int]) -> None:
    """Let a child process drop kernels; one that is lost has none."""
    if box.alive:
        with suppress(Lost):
            box.ask("forget", PROMPT, numbers=list(numbers))


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
