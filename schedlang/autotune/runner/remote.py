"""Measuring on the workers of an executor, each of which has child processes of its own."""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any
from uuid import uuid4

from schedlang.autotune.record import machine_for
from schedlang.autotune.runner.answers import Nonsense, kind_of, measured_of, raced_of
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
from schedlang.autotune.runner.site import needs
from schedlang.autotune.runner.task import Task, task_from_data
from schedlang.autotune.runner.turns import turn
from schedlang.errors import first_line

# seconds after which a child process that nobody needs is ended
IDLE = 30.0
# how often a job is sent whose worker is lost
TRIES = 2
# what a worker fails by that cannot measure, whatever the candidate
UNFIT = (Broken, ImportError, AttributeError, Nonsense)
# how often what is left is sent again though nothing has come of it, where no worker has ever
# measured and says why, and elsewhere; the seconds before that grow from the first to the last
NONE_FIT, SOME_FIT = 2, 8
FIRST_PAUSE, LAST_PAUSE = 0.02, 1.0
# so many jobs in a row that no worker can measure end a search
MOST_LEFT_OUT = 4
# how often a race is sent, and how often an executor may refuse a job in a row
RACES, REFUSALS = 3, 8
NOTHING = "autotune: the workers of the executor cannot measure: {}{}"
# seconds between two looks at what was cancelled
LOOK = 1.0
# workers of an executor that does not say how many it has
UNKNOWN = 4
# seconds in which an answer has come
ANSWER = 2.0


class Remote:
    """The workers of an executor, which may come and go.

    Jobs are data: a worker needs schedlang, and nothing of the caller's. A job that is lost with
    its worker is sent once more; one whose worker cannot measure, or answers nonsense, when the
    others are done. ``lost`` counts them by their kinds.
    ``patience``: seconds in which at least one job ends.
    """

    def __init__(
        self, task: Task, executor: Executor, command: Sequence[str] = COMMAND,
        patience: float | None = None,
    ) -> None:  # fmt: skip
        self._task = json.dumps(task.data)
        self._executor = executor
        # of a worker's own Python, where it is the usual one
        self._command = () if tuple(command) == COMMAND else tuple(command)
        self._limits = task.limits
        self._patience = patience or PATIENCE + task.limits.build + 2 * task.limits.run
        self._timed = task.timed
        self._answered = False
        # jobs that no worker could measure since one was measured
        self._left_out = 0
        # how jobs were lost, and how many each way
        self.lost: Counter[str] = Counter()

    @property
    def batch(self) -> int:
        """A few for each worker that there is now."""
        return EACH * width(self._executor)

    def measure(
        self, jobs: Sequence[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        """Yield the outcome of each job as it ends.

        After the deadline running jobs may end, until one works. A job that no worker can measure
        is left out if others are measured.
        """
        waiting: dict[Future[dict[str, Any]], Job] = {}
        lost: Counter[int] = Counter()
        to_send, held, in_vain, answered = list(jobs), list[Job](), 0, False
        try:
            while to_send or waiting or held:
                if late(deadline):
                    if best is not None:
                        return
                    to_send, held = [], []
                    _only_first(waiting, width(self._executor))
                elif not to_send and not waiting:
                    # who cannot measure is free at once, and would get all: now the others are, too
                    to_send, held = held, []
                    in_vain += 1
                    _pause(in_vain, deadline)
                for job in to_send:
                    waiting[self._submit(measure_there, _sent(job), best)] = job
                to_send, failed = [], []
                for job, future in self._next(waiting, deadline):
                    try:
                        found = measured_of(future.result(), job, self._timed)
                    except Exception as error:
                        failed.append((job, error))
                        continue
                    self._answered, answered, in_vain, self._left_out = True, True, 0, 0
                    if given_up(job, found, best):
                        continue
                    best = faster(best, found)
                    yield found
                for job, why in failed:
                    self.lost[kind_of(why)] += 1
                    unfit = isinstance(why, UNFIT)
                    lost[job.number] += not unfit
                    at_once = isinstance(why, OracleTimeout) and not self._answered
                    patience = NONE_FIT if unfit and not self._answered else SOME_FIT
                    if not unfit and lost[job.number] < TRIES:
                        to_send.append(job)
                    elif not unfit and self._answered:
                        detail = f"its worker was lost twice: {_said(why)}"
                        yield Measured(job.number, "crashed", detail=detail)
                    elif not at_once and in_vain < patience:
                        held.append(job)
                    else:
                        self._left_out += 1
                        long = not self._answered or self._left_out >= MOST_LEFT_OUT
                        if long and not answered:
                            raise Broken(NOTHING.format(_said(why), needs(why)))
        finally:
            for future in waiting:
                future.cancel()

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        """Return all on one worker; nothing, where it is lost, and others after it."""
        limits = self._limits
        each = limits.build + (1 + RACE_ROUNDS) * limits.run
        # one that fails may be built once more, and for a GPU also for the emulator
        end = monotonic() + PATIENCE + 2 * len(jobs) * (each + limits.build)
        # a worker that ends in time says so a little later
        end = min([end, *(job.until + ANSWER for job in jobs if job.until is not None)])
        for _ in range(RACES):
            left = end - monotonic()
            if left <= 0:
                break
            future = self._submit(race_there, [_sent(job) for job in jobs])
            try:
                return raced_of(future.result(left), jobs, self._timed)
            except Exception as error:
                # whatever an executor raises for a worker that is lost, another one may do
                self.lost[kind_of(error)] += 1
                future.cancel()
        return []

    def close(self) -> None:
        """End what this task uses in this process; the executor stays the caller's."""
        _close_idle(_key(self._task, self._command))
        # it holds the inputs
        _known.cache_clear()

    def _submit(self, work: Any, *arguments: Any) -> Future[Any]:
        why: Exception | None = None
        for _ in range(REFUSALS):
            # an executor may take equal calls for one call (dask does): each is made another one
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
        """Return what ended, taken out of what is waited for.

        Nothing where the deadline comes first.
        """
        left = self._patience
        if deadline is not None and not late(deadline):
            left = min(left, deadline - monotonic())
        done = _over(waiting, left) if waiting else set()
        if waiting and not done and left == self._patience:
            raise Broken(
                f"autotune: no worker of the executor has answered within {self._patience:g} s"
            )
        return sorted(((waiting.pop(f), f) for f in done), key=lambda ended: ended[0].number)


def _sent(job: Job) -> dict[str, Any]:
    """Return a job as data, with the seconds that it has: clocks differ from machine to machine."""
    left = None if job.until is None else job.until - monotonic()
    return asdict(replace(job, until=left))


def _received(data: Mapping[str, Any]) -> Job:
    """Return the job that :func:`_sent` made data of, by the clock of this machine."""
    job = Job(**data)
    return job if job.until is None else replace(job, until=monotonic() + job.until)


def _said(why: Exception) -> str:
    return str(why) if isinstance(why, Broken) else first_line(why)


def _pause(in_vain: int, deadline: float | None) -> None:
    """Wait before what is left is sent again, the longer the more often that was in vain."""
    seconds = min(LAST_PAUSE, FIRST_PAUSE * 2.0**in_vain)
    sleep(seconds if deadline is None else max(0.0, min(seconds, deadline - monotonic())))


def _only_first(waiting: dict[Future[dict[str, Any]], Job], count: int) -> None:
    """Take back what is not being worked on, as those sent first are."""
    for future in list(waiting)[count:]:
        future.cancel()
        del waiting[future]


def _over(futures: Collection[Future[Any]], seconds: float) -> set[Future[Any]]:
    """Return the futures that ended or were cancelled.

    Cancelled ones are looked for, since an executor that shuts down does not report them.
    """
    end = monotonic() + seconds
    while True:
        done, _ = wait(futures, max(0.0, min(LOOK, end - monotonic())), FIRST_COMPLETED)
        done |= {future for future in futures if future.cancelled()}
        if done or monotonic() >= end:
            return done


def width(executor: Executor) -> int:
    """Return how many jobs an executor says it works on at once, now."""
    try:
        client = getattr(executor, "_client", None)
        if client is not None:
            found: Any = sum(client.nthreads().values())
        else:
            found = getattr(executor, "_max_workers", None) or getattr(
                executor, "num_workers", None
            )
        return max(1, int(UNKNOWN if found is None else found))
    except Exception:
        return UNKNOWN


def measure_there(
    task: str, command: Sequence[str], token: str, job: dict[str, Any], best: float | None
) -> dict[str, Any]:
    """Return a candidate's outcome; runs in a worker of an executor."""
    candidate = _received(job)
    with _own_failures(), _kept(task, tuple(command)) as (box, known):
        found = measure_one(box, candidate, known, best)
        if doubtful(box, found):
            found = measure_alone(box, candidate, known, best)
        return asdict(replace(found, machine=machine_for(known.target)))


def race_there(
    task: str, command: Sequence[str], token: str, jobs: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Run :func:`race` in a worker of an executor."""
    with _own_failures(), _kept(task, tuple(command)) as (box, known), turn(alone=known.timed):
        machine = machine_for(known.target)
        raced = race(box, [_received(job) for job in jobs], known)
        return [asdict(replace(found, machine=machine)) for found in raced]


@contextmanager
def _own_failures() -> Iterator[None]:
    """Raise failures of this process as its own: a candidate runs in another one."""
    try:
        yield
    except Broken:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {first_line(error)}{needs(error)}"
        raise Broken(said) from None


@dataclass
class _Idle:
    """A child process without work, and what will end it."""

    box: Sandbox
    folder: Path
    timer: threading.Timer | None = None

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.box.end()
        shutil.rmtree(self.folder, ignore_errors=True)


# by what they were started for, and the process that did so: one that is forked has none
_Key = tuple[int, str, tuple[str, ...]]
_IDLE: dict[_Key, list[_Idle]] = {}
_LOCK = threading.Lock()


def _key(task: str, command: tuple[str, ...]) -> _Key:
    return os.getpid(), hashlib.sha256(task.encode()).hexdigest(), command


@lru_cache(maxsize=2)
def _known(task: str) -> Task:
    return task_from_data(json.loads(task))


@contextmanager
def _kept(task: str, command: tuple[str, ...]) -> Iterator[tuple[Sandbox, Task]]:
    """Yield a child process to this thread alone; it is kept for more work afterwards."""
    key, known = _key(task, command), _known(task)
    with _LOCK:
        found = _IDLE[key].pop() if _IDLE.get(key) else None
    if found is None:
        folder = new_folder()
        found = _Idle(Sandbox(known, folder, command or COMMAND), folder)
    elif found.timer is not None:
        found.timer.cancel()
    try:
        yield found.box, known
    except BaseException:
        found.end()
        raise
    found.timer = timer = threading.Timer(IDLE, _expire, (key, found))
    timer.daemon = True
    with _LOCK:
        _IDLE.setdefault(key, []).append(found)
    timer.start()


def _expire(key: _Key, idle: _Idle) -> None:
    with _LOCK:
        if idle not in _IDLE.get(key, ()):
            return
        _IDLE[key].remove(idle)
    idle.end()


def _close_idle(key: _Key | None = None) -> None:
    """End the child processes of this process that wait for work: for one task, or all."""
    with _LOCK:
        keys = [k for k in _IDLE if k == key or (key is None and k[0] == os.getpid())]
        ended = [idle for k in keys for idle in _IDLE.pop(k)]
    for idle in ended:
        idle.end()


atexit.register(_close_idle)
