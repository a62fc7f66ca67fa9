"""Measurement on this machine: child processes build in parallel and are timed one by one."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from time import monotonic

from schedlang.autotune.runner.machine_lock import machine_lock
from schedlang.autotune.runner.measure import (
    EACH,
    Job,
    Measured,
    build,
    doubtful,
    faster,
    forget,
    given_up,
    late,
    measure_alone,
    run,
    within,
)
from schedlang.autotune.runner.race import race
from schedlang.autotune.runner.sandbox import COMMAND, Sandbox, new_folder
from schedlang.autotune.runner.task import Task
from schedlang.autotune.runner.waiting import Waiting

# seconds of building after which the candidates that are ready are run
ROUND = 4.0
# seconds in which a job that waits is taken
LITTLE = 0.01


@dataclass(frozen=True)
class Built:
    """A candidate that is ready to run in the process that built it."""

    job: Job
    measured: Measured
    start: int

    def in_process(self, box: Sandbox) -> bool:
        """Return whether the process of ``box`` is still the one that built it."""
        return box.alive and box.starts == self.start


class Local:
    """A measurer that uses child processes on this machine."""

    def __init__(self, task: Task, workers: int, command: Sequence[str] = COMMAND) -> None:
        self.batch = EACH * workers
        self._task = task
        self._folder = new_folder()
        self._boxes = [Sandbox(task, self._folder, command) for _ in range(workers)]
        self._over = False

    def measure(
        self, jobs: Iterable[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        """Yield the outcome of each job, after all of them are drawn.

        The first ones are built while the iterable draws the next ones. Candidates that a lost
        process had built are built again. A candidate that crashed in a process that others had
        used is measured again in a new process, as the others may be to blame. Past the deadline,
        built candidates run only until one works, and the rest is left out.
        """
        left, again, drawn = Waiting(), list[Job](), iter(jobs)
        while left and not late(deadline):
            rounds = yield from self._built(drawn, left, deadline, best)
            for box, (ready, lost) in zip(self._boxes, rounds):
                again += lost
                for built in ready:
                    if best is not None and late(deadline):
                        return
                    if not built.in_process(box):
                        again.append(built.job)
                        continue
                    with machine_lock(alone=True):
                        result = run(box, built.job, built.measured, self._task, best)
                    if given_up(built.job, result, best):
                        continue
                    if doubtful(box, result):
                        again.append(built.job)
                        continue
                    best = faster(best, result)
                    yield result
                forget(box, [built.job.number for built in ready])
        for job in again:
            if late(deadline):
                return
            result = measure_alone(self._boxes[0], job, self._task, best)
            if given_up(job, result, best):
                return
            best = faster(best, result)
            yield result

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        # a race that times nothing can share the machine, like a build
        with machine_lock(alone=self._task.timed):
            return race(self._boxes[0], jobs, self._task)

    def close(self) -> None:
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self) -> None:
        self._over = True
        for box in self._boxes:
            box.end()

    def _built(
        self, drawn: Iterator[Job], left: Waiting, deadline: float | None, best: float | None
    ) -> Generator[Measured, None, list[tuple[list[Built], list[Job]]]]:
        """Build jobs for a round; return what each process built, and the jobs to build again.

        Each process takes the next job when it is free. The jobs that are ``drawn`` now come after
        those that are ``left``. Failures are yielded at once, but after the last draw, which may
        not depend on them. If this generator is closed, no process takes another job.
        """
        ended: SimpleQueue[Measured | None] = SimpleQueue()
        with ThreadPoolExecutor(len(self._boxes)) as pool:
            try:
                work = [
                    pool.submit(self._build, box, left, deadline, best, ended)
                    for box in self._boxes
                ]
                for future in work:
                    future.add_done_callback(lambda _: ended.put(None))
                for job in drawn:
                    left.put(job)
                    if any(future.done() and future.exception() for future in work):
                        break
                left.close()
                for _ in work:
                    while (measured := ended.get()) is not None:
                        yield measured
                return [future.result() for future in work]
            except GeneratorExit:
                left.clear()
                if not late(deadline):
                    # interrupted: do not wait for builds in progress
                    self._end()
                raise
            except BaseException:
                left.clear()
                self._end()
                raise

    def _build(
        self, box: Sandbox, left: Waiting, deadline: float | None, best: float | None,
        ended: SimpleQueue[Measured | None],
    ) -> tuple[list[Built], list[Job]]:  # fmt: skip
        """Build jobs in one process; return what is ready to run, and the jobs to build again.

        Failures go to ``ended``.
        """
        with machine_lock(alone=False):
            # the round starts after the turn, which may take long to come
            until = monotonic() + ROUND
            if deadline is not None:
                # leave time to run what is built
                until = min(until, (monotonic() + deadline) / 2 if best is not None else deadline)
            box.start_first()
            # after a long start, too, a process builds a job that waits
            late_start = monotonic() + LITTLE
            first = max(until, late_start if deadline is None else min(late_start, deadline))
            return self._build_until(box, left, (first, until), best, ended)

    def _build_until(
        self, box: Sandbox, left: Waiting, ends: tuple[float, float], best: float | None,
        ended: SimpleQueue[Measured | None],
    ) -> tuple[list[Built], list[Job]]:  # fmt: skip
        """Build jobs until the ``ends`` for the first job and for the others."""
        ready: list[Built] = []
        again: list[Job] = []
        first, until = ends
        # a search whose start took all its time still measures one candidate
        job = left.take(first, or_first=best is None)
        while job is not None and not self._over:
            measured = build(box, job, within(self._task, job, best))
            if given_up(job, measured, best):
                break
            if measured.outcome == "ok":
                ready.append(Built(job, measured, box.starts))
            elif doubtful(box, measured):
                again.append(job)
            else:
                ended.put(measured)
            job = left.take(until)
        return ready, again
