"""Candidates go in, outcomes come out: on this machine, or on others behind an executor."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

from schedlang.autotune.sandbox import COMMAND, Lost, Sandbox
from schedlang.autotune.task import Task, task_from_data
from schedlang.autotune.turns import turn

RACE_ROUNDS = 5
# seconds in which a command that does nothing is answered
PROMPT = 10.0


@dataclass(frozen=True)
class Job:
    """A candidate to be measured: a number of its own, and its schedule as JSON."""

    number: int
    steps: str


@dataclass(frozen=True)
class Measured:
    """How a job ended (:data:`~schedlang.autotune.record.OUTCOMES`), and the seconds of a call."""

    number: int
    outcome: str
    seconds: float | None = None
    detail: str = ""
    source: str = ""
    took: float = 0.0
    resources: Mapping[str, Any] = field(default_factory=dict)


class Measurer(Protocol):
    """What measures: a batch of jobs at a time, in any order; ``batch`` is a good size for one."""

    batch: int

    def measure(self, jobs: Sequence[Job], best: float | None) -> Iterator[Measured]: ...
    def race(self, jobs: Sequence[Job]) -> list[float] | None: ...
    def close(self) -> None: ...


class Local:
    """Child processes on this machine: they build at the same time, and are timed one by one."""

    def __init__(self, task: Task, workers: int, command: Sequence[str] = COMMAND) -> None:
        self.batch = 2 * workers
        self._task = task
        self._folder = Path(tempfile.mkdtemp(prefix="schedlang-tune-"))
        self._boxes = [Sandbox(task, self._folder, command) for _ in range(workers)]

    def measure(self, jobs: Sequence[Job], best: float | None) -> Iterator[Measured]:
        """Each job's outcome. What a lost process had built for others is built again."""
        left = list(jobs)
        while left:
            shares = [left[n :: len(self._boxes)] for n in range(len(self._boxes))]
            left = []
            with turn(alone=False), ThreadPoolExecutor(len(self._boxes)) as pool:
                built = list(pool.map(self._build, self._boxes, shares))
            for box, (ready, done, again) in zip(self._boxes, built):
                yield from done
                left += again
                for position, (job, found) in enumerate(ready):
                    with turn(alone=True):
                        result = run(box, job, found, self._task, best)
                    yield result
                    if result.seconds is not None:
                        best = min(best or result.seconds, result.seconds)
                    if not box.alive:
                        left += [other for other, _ in ready[position + 1 :]]
                        break
                forget(box, [job.number for job, _ in ready])

    def race(self, jobs: Sequence[Job]) -> list[float] | None:
        with turn(alone=True):
            return race(self._boxes[0], jobs, self._task)

    def close(self) -> None:
        for box in self._boxes:
            box.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _build(
        self, box: Sandbox, jobs: Sequence[Job]
    ) -> tuple[list[tuple[Job, Measured]], list[Measured], list[Job]]:
        """What is ready to run, what is over, and what is to be built again."""
        ready: list[tuple[Job, Measured]] = []
        done: list[Measured] = []
        again: list[Job] = []
        for job in jobs:
            found = build(box, job, self._task)
            if found.outcome == "ok":
                ready.append((job, found))
                continue
            done.append(found)
            if not box.alive:
                again += [other for other, _ in ready]
                ready = []
        return ready, done, again


class Remote:
    """The workers of an executor, each with a child process of its own.

    Jobs are data: a worker needs schedlang, and nothing of the caller's.
    """

    def __init__(self, task: Task, executor: Executor, batch: int, command: Sequence[str] = COMMAND) -> None:
        self.batch = batch
        self._task = json.dumps(task.to_data())
        self._executor = executor
        self._command = tuple(command)

    def measure(self, jobs: Sequence[Job], best: float | None) -> Iterator[Measured]:
        """Each job's outcome, as they end. A worker that is lost takes its job with it."""
        futures = [
            (job, self._executor.submit(measure_there, self._task, asdict(job), best, self._command))
            for job in jobs
        ]
        for job, future in futures:
            yield _result(job, future)

    def race(self, jobs: Sequence[Job]) -> list[float] | None:
        data = [asdict(job) for job in jobs]
        try:
            return self._executor.submit(race_there, self._task, data, self._command).result()
        except Exception:
            return None

    def close(self) -> None:
        """The executor is the caller's."""


def _result(job: Job, future: Future[dict[str, Any]]) -> Measured:
    try:
        return Measured(**future.result())
    except Exception as error:
        text = str(error).strip().splitlines() or [type(error).__name__]
        return Measured(job.number, "crashed", detail=f"its worker was lost: {text[0][:200]}")


def measure_there(
    task: str, job: dict[str, Any], best: float | None, command: Sequence[str]
) -> dict[str, Any]:
    """:func:`build` and :func:`run` in a worker of an executor."""
    box, known = _kept(task, tuple(command))
    candidate = Job(**job)
    with turn(alone=False):
        found = build(box, candidate, known)
    if found.outcome == "ok":
        with turn(alone=True):
            found = run(box, candidate, found, known, best)
        forget(box, [candidate.number])
    return asdict(found)


def race_there(task: str, jobs: Sequence[dict[str, Any]], command: Sequence[str]) -> list[float] | None:
    """:func:`race` in a worker of an executor."""
    box, known = _kept(task, tuple(command))
    with turn(alone=True):
        return race(box, [Job(**job) for job in jobs], known)


@lru_cache(maxsize=2)
def _kept(task: str, command: tuple[str, ...]) -> tuple[Sandbox, Task]:
    """The one child process of this process for a task."""
    known = task_from_data(json.loads(task))
    folder = Path(tempfile.mkdtemp(prefix="schedlang-tune-"))
    return Sandbox(known, folder, command), known


def build(box: Sandbox, job: Job, task: Task) -> Measured:
    """Compile a candidate in a child process."""
    start = perf_counter()
    try:
        reply = box.ask("build", task.limits.build, number=job.number, steps=job.steps)
    except Lost as lost:
        return _lost(job, "build", lost, perf_counter() - start)
    if "failed" in reply:
        outcome = "build failed" if reply["failed"] == "error" else str(reply["failed"])
        return Measured(job.number, outcome, detail=str(reply.get("detail", "")), took=perf_counter() - start)
    return Measured(
        job.number, "ok", source=str(reply["source"]), took=perf_counter() - start,
        resources=reply["resources"],
    )  # fmt: skip


def run(box: Sandbox, job: Job, built: Measured, task: Task, best: float | None) -> Measured:
    """Check a candidate that is built, then time it."""
    start = perf_counter()
    seconds = None
    if task.timed:
        for what, arguments in (("check", {}), ("time", {"best": best})):
            try:
                reply = box.ask(what, task.limits.run, number=job.number, **arguments)
            except Lost as lost:
                return _lost(job, "run", lost, built.took + perf_counter() - start, built.source)
            if "failed" in reply:
                outcome = "run failed" if reply["failed"] == "error" else str(reply["failed"])
                detail = str(reply.get("detail", ""))
                took = built.took + perf_counter() - start
                return Measured(job.number, outcome, None, detail, built.source, took)
            seconds = reply.get("seconds")
    took = built.took + perf_counter() - start
    return Measured(job.number, "ok", seconds, "", built.source, took, built.resources)


def race(box: Sandbox, jobs: Sequence[Job], task: Task) -> list[float] | None:
    """Medians of finalists, timed in turns; ``None`` where one of them cannot any more."""
    try:
        for job in jobs:
            if "failed" in box.ask("build", task.limits.build, number=job.number, steps=job.steps):
                return None
        limit = task.limits.run * len(jobs)
        reply = box.ask("race", limit, numbers=[j.number for j in jobs], rounds=RACE_ROUNDS)
    except Lost:
        return None
    return reply.get("seconds")


def forget(box: Sandbox, numbers: Sequence[int]) -> None:
    """Let a child process drop kernels; one that is lost has none."""
    if box.alive:
        with suppress(Lost):
            box.ask("forget", PROMPT, numbers=list(numbers))


def _lost(job: Job, while_: str, lost: Lost, took: float, source: str = "") -> Measured:
    outcome = f"{while_} timed out" if lost.how == "timed out" else lost.how
    return Measured(job.number, outcome, None, lost.detail, source, took)


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
