"""Measurement on the workers of an executor, each of which has its own child processes."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from schedlang.autotune.record import machine_for
from schedlang.autotune.runner.answers import InvalidAnswer, kind_of, measured_of, raced_of
from schedlang.autotune.runner.machine import needs
from schedlang.autotune.runner.machine_lock import machine_lock
from schedlang.autotune.runner.measure import (
    EACH,
    Job,
    Measured,
    doubtful,
    faster,
    given_up,
    late,
    measure_alone,
    measure_one,
)
from schedlang.autotune.runner.race import RACE_ROUNDS, race
from schedlang.autotune.runner.sandbox import (
    COMMAND,
    PATIENCE,
    Broken,
    OracleTimeout,
    Sandbox,
    new_folder,
)
from schedlang.autotune.runner.task import Task, task_from_data
from schedlang.errors import first_line

# seconds after which an idle child process is ended
IDLE = 30.0
# how many times a job is sent if its worker is lost
TRIES = 2
# errors of a worker that cannot measure any candidate
UNFIT = (Broken, ImportError, AttributeError, InvalidAnswer)
# how many times in a row the remaining jobs are sent again without any result: while no worker has
# ever measured and each says why, and otherwise
FEW_RETRIES, MOST_RETRIES = 2, 8
# seconds before they are sent again, which double each time up to the last
FIRST_PAUSE, LAST_PAUSE = 0.02, 1.0
# a search ends after this many jobs in a row that no worker can measure
MOST_LEFT_OUT = 4
# how many times a race is sent, and how many times in a row an executor may refuse a job
RACE_TRIES, REFUSALS = 3, 8
NOTHING = "autotune: the workers of the executor cannot measure: {}{}"
# seconds between checks for cancelled jobs
POLL = 1.0
# assumed workers of an executor that does not say how many it has
UNKNOWN = 4
# seconds for the answer of a worker to arrive
ANSWER = 2.0


class Remote:
    """A measurer that uses the workers of an executor, which may come and go.

    Jobs are plain data: a worker needs only schedlang. A job whose worker is lost is sent once
    more. A job whose worker cannot measure, or gives an invalid answer, is sent again when the
    others are done. ``lost`` counts these failures by kind. ``patience`` is the most seconds to
    wait until any job ends.
    """

    def __init__(
        self, task: Task, executor: Executor, command: Sequence[str] = COMMAND,
        patience: float | None = None,
    ) -> None:  # fmt: skip
        self._task = json.dumps(task.data)
        self._executor = executor
        # empty for the default, which each worker runs with its own Python
        self._command = () if tuple(command) == COMMAND else tuple(command)
        self._limits = task.limits
        self._patience = patience or PATIENCE + task.limits.build + 2 * task.limits.run
        self._timed = task.timed
        self._answered = False
        # jobs in a row that no worker could measure
        self._left_out = 0
        # lost jobs by kind of failure
        self.lost: Counter[str] = Counter()

    @property
    def batch(self) -> int:
        """The size of a batch: a few jobs for each worker that there is now."""
        return EACH * width(self._executor)

    def measure(
        self, jobs: Iterable[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        """Yield the outcome of each job as it ends.

        After the deadline, running jobs are awaited only if no candidate has worked yet. A job that
        no worker can measure is left out if others are measured.
        """
        waiting: dict[Future[dict[str, Any]], Job] = {}
        lost: Counter[int] = Counter()
        to_send, held, retries, answered = list(jobs), list[Job](), 0, False
        try:
            while to_send or waiting or held:
                if late(deadline):
                    if best is not None:
                        return
                    to_send, held = [], []
                    _only_first(waiting, width(self._executor))
                elif not to_send and not waiting:
                    # only now: a worker that cannot measure is free at once, and would get all jobs
                    to_send, held = held, []
                    retries += 1
                    _pause(retries, deadline)
                for job in to_send:
                    waiting[self._submit(measure_in_worker, _to_data(job), best)] = job
                to_send, failed = [], []
                for job, future in self._next(waiting, deadline):
                    try:
                        measured = measured_of(future.result(), job, self._timed)
                    except Exception as error:
                        failed.append((job, error))
                        continue
                    self._answered, answered, retries, self._left_out = True, True, 0, 0
                    if given_up(job, measured, best):
                        continue
                    best = faster(best, measured)
                    yield measured
                for job, why in failed:
                    self.lost[kind_of(why)] += 1
                    unfit = isinstance(why, UNFIT)
                    lost[job.number] += not unfit
                    give_up = isinstance(why, OracleTimeout) and not self._answered
                    most = FEW_RETRIES if unfit and not self._answered else MOST_RETRIES
                    if not unfit and lost[job.number] < TRIES:
                        to_send.append(job)
                    elif not unfit and self._answered:
                        detail = f"its worker was lost twice: {_reason(why)}"
                        yield Measured(job.number, "crashed", detail=detail)
                    elif not give_up and retries < most:
                        held.append(job)
                    else:
                        self._left_out += 1
                        enough = not self._answered or self._left_out >= MOST_LEFT_OUT
                        if enough and not answered:
                            raise Broken(NOTHING.format(_reason(why), needs(why)))
        finally:
            for future in waiting:
                future.cancel()

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        """Race all jobs on one worker; return an empty list if each of several workers is lost."""
        limits = self._limits
        each = limits.build + (1 + RACE_ROUNDS) * limits.run
        # each may be built twice: again after a failure, and for a GPU also for the emulator
        end = monotonic() + PATIENCE + 2 * len(jobs) * (each + limits.build)
        # the answer of a worker that ends in time arrives a little later
        end = min([end, *(job.until + ANSWER for job in jobs if job.until is not None)])
        for _ in range(RACE_TRIES):
            left = end - monotonic()
            if left <= 0:
                break
            future = self._submit(race_in_worker, [_to_data(job) for job in jobs])
            try:
                return raced_of(future.result(left), jobs, self._timed)
            except Exception as error:
                # executors differ in what they raise for a lost worker; another may do it
                self.lost[kind_of(error)] += 1
                future.cancel()
        return []

    def close(self) -> None:
        """End the idle child processes of this task. The executor belongs to the caller."""
        _close_idle(_key(self._task, self._command))
        # the cached task holds the inputs
        _cached_task.cache_clear()

    def _submit(self, work: Any, *arguments: Any) -> Future[Any]:
        why: Exception | None = None
        for _ in range(REFUSALS):
            # the token makes calls distinct: some executors (dask's) run equal calls only once
            token = uuid4().hex
            try:
                return self._executor.submit(work, self._task, self._command, token, *arguments)
            except Exception as error:
                why = error
                self.lost[kind_of(error)] += 1
        raise Broken(f"autotune: the executor accepts no more jobs: {first_line(why)}") from None

    def _next(
        self, waiting: dict[Future[dict[str, Any]], Job], deadline: float | None
    ) -> list[tuple[Job, Future[dict[str, Any]]]]:
        """Wait for the next jobs to end, and take them out of ``waiting``.

        Returns an empty list if the deadline comes first.
        """
        left = self._patience
        if deadline is not None and not late(deadline):
            left = min(left, deadline - monotonic())
        done = _wait_for_some(waiting, left) if waiting else set()
        if waiting and not done and left == self._patience:
            raise Broken(
                f"autotune: no worker of the executor has answered within {self._patience:g} s"
            )
        return sorted(((waiting.pop(f), f) for f in done), key=lambda ended: ended[0].number)


def _to_data(job: Job) -> dict[str, Any]:
    """Return a job as data, with the seconds that are left for it, as clocks differ."""
    return asdict(_moved(job, -monotonic()))


def _from_data(data: Mapping[str, Any]) -> Job:
    """Return the job of the data that :func:`_to_data` made, by the clock of this machine."""
    return _moved(Job(**data), monotonic())


def _moved(job: Job, seconds: float) -> Job:
    """Return a job whose times are later by ``seconds``."""
    until, latest = (t if t is None else t + seconds for t in (job.until, job.latest))
    return replace(job, until=until, latest=latest)


def _reason(why: Exception) -> str:
    return str(why) if isinstance(why, Broken) else first_line(why)


def _pause(retries: int, deadline: float | None) -> None:
    """Wait before the remaining jobs are sent again, longer after each failure."""
    seconds = min(LAST_PAUSE, FIRST_PAUSE * 2.0**retries)
    sleep(seconds if deadline is None else max(0.0, min(seconds, deadline - monotonic())))


def _only_first(waiting: dict[Future[dict[str, Any]], Job], count: int) -> None:
    """Cancel all but the first ``count`` jobs, which workers have begun."""
    for future in list(waiting)[count:]:
        future.cancel()
        del waiting[future]


def _wait_for_some(futures: Collection[Future[Any]], seconds: float) -> set[Future[Any]]:
    """Wait up to ``seconds``, and return the futures that ended or were cancelled.

    It checks for cancelled ones itself, since an executor that shuts down does not report them.
    """
    end = monotonic() + seconds
    while True:
        done, _ = wait(futures, max(0.0, min(POLL, end - monotonic())), FIRST_COMPLETED)
        done |= {future for future in futures if future.cancelled()}
        if done or monotonic() >= end:
            return done


def width(executor: Executor) -> int:
    """Return how many jobs the executor can run at once now."""
    try:
        client = getattr(executor, "_client", None)
        if client is not None:
            threads: Any = sum(client.nthreads().values())
        else:
            threads = getattr(executor, "_max_workers", None) or getattr(
                executor, "num_workers", None
            )
        return max(1, int(UNKNOWN if threads is None else threads))
    except Exception:
        return UNKNOWN


def measure_in_worker(
    task: str, command: Sequence[str], token: str, job: dict[str, Any], best: float | None
) -> dict[str, Any]:
    """Measure a candidate in a worker of an executor."""
    candidate = _from_data(job)
    with _as_broken(), _child(task, tuple(command)) as (box, known):
        measured = measure_one(box, candidate, known, best)
        if doubtful(box, measured):
            measured = measure_alone(box, candidate, known, best)
        return asdict(replace(measured, machine=machine_for(known.target)))


def race_in_worker(
    task: str, command: Sequence[str], token: str, jobs: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Run :func:`race` in a worker of an executor."""
    child = _child(task, tuple(command))
    with _as_broken(), child as (box, known), machine_lock(alone=known.timed):
        machine = machine_for(known.target)
        raced = race(box, [_from_data(job) for job in jobs], known)
        return [asdict(replace(measured, machine=machine)) for measured in raced]


@contextmanager
def _as_broken() -> Iterator[None]:
    """Raise any error of this process as :class:`Broken`, as candidates run in another process."""
    try:
        yield
    except Broken:
        raise
    except Exception as error:
        raise Broken(f"{type(error).__name__}: {first_line(error)}{needs(error)}") from None


@dataclass
class _Idle:
    """An idle child process, and the timer that ends it."""

    box: Sandbox
    folder: Path
    timer: threading.Timer | None = None

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.box.end()
        shutil.rmtree(self.folder, ignore_errors=True)


# process id, hash of the task, command: a forked process does not share its parent's children
_Key = tuple[int, str, tuple[str, ...]]
_IDLE: dict[_Key, list[_Idle]] = {}
_LOCK = threading.Lock()


def _key(task: str, command: tuple[str, ...]) -> _Key:
    return os.getpid(), hashlib.sha256(task.encode()).hexdigest(), command


@lru_cache(maxsize=2)
def _cached_task(task: str) -> Task:
    return task_from_data(json.loads(task))


@contextmanager
def _child(task: str, command: tuple[str, ...]) -> Iterator[tuple[Sandbox, Task]]:
    """Yield a child process for this thread alone, idle or new; it is kept for later jobs."""
    key, known = _key(task, command), _cached_task(task)
    with _LOCK:
        idle = _IDLE[key].pop() if _IDLE.get(key) else None
    if idle is None:
        folder = new_folder()
        idle = _Idle(Sandbox(known, folder, command or COMMAND), folder)
    elif idle.timer is not None:
        idle.timer.cancel()
    try:
        yield idle.box, known
    except BaseException:
        idle.end()
        raise
    idle.timer = timer = threading.Timer(IDLE, _expire, (key, idle))
    timer.daemon = True
    with _LOCK:
        _IDLE.setdefault(key, []).append(idle)
    timer.start()


def _expire(key: _Key, idle: _Idle) -> None:
    with _LOCK:
        if idle not in _IDLE.get(key, ()):
            return
        _IDLE[key].remove(idle)
    idle.end()


def _close_idle(key: _Key | None = None) -> None:
    """End the idle child processes of this process, of one task or of all."""
    with _LOCK:
        keys = [k for k in _IDLE if k == key or (key is None and k[0] == os.getpid())]
        ended = [idle for k in keys for idle in _IDLE.pop(k)]
    for idle in ended:
        idle.end()


atexit.register(_close_idle)
