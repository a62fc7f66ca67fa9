"""Helpers for tests of the tuner: a computation, a template of faults, strategies, measurers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Knobs, Rejected
from schedlang.autotune.record import Trial, Where
from schedlang.autotune.run import run
from schedlang.autotune.runner.local import Local
from schedlang.autotune.runner.measure import Job, Measured, Measurer
from schedlang.autotune.runner.task import Limits, Task
from schedlang.autotune.search import Exhausted, Strategy
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.state import Search
from schedlang.autotune.tactics.facts import Problem
from schedlang.compute.tensor import Tensor
from schedlang.schedule.schedule import Schedule
from tests.hostile_worker import COMMAND, FAULTS, PRAGMA

ROOT = Path(__file__).parents[1]


def plus_one(shape: tuple[int, ...] = (16, 16)) -> Tensor:
    """Return ``B = A + 1``, which hostile candidates compute as Python, with nothing to compile."""
    A = sl.placeholder(shape, name="A")
    return sl.compute(shape, lambda *i: A[i] + 1, name="B")


def faulty(s: Schedule, knobs: Knobs) -> None:
    """Schedule a fault, with a number that tells candidates with the same fault apart."""
    B = s.outputs[0]
    axis = B.op.axis[0]
    s[B].pragma(axis, PRAGMA, knobs.choice("fault", FAULTS))
    s[B].pragma(axis, "drill.copy", knobs.choice("copy", list(range(100))))


class InOrder:
    """A strategy that proposes the given decisions in order and records every trial."""

    name = "in order"

    def __init__(self, decisions: Sequence[Mapping[str, Any]]) -> None:
        self._left = list(decisions)
        self.learned: list[Trial] = []

    def propose(self, space: Space) -> Candidate:
        while self._left:
            with suppress(Rejected):
                return space.draw(None, self._left.pop(0))
        raise Exhausted

    def learn(self, trial: Trial) -> None:
        self.learned.append(trial)


def of_faults(faults: Sequence[str]) -> InOrder:
    """Return a strategy that proposes one candidate for each fault."""
    return InOrder([{"fault": fault, "copy": n} for n, fault in enumerate(faults)])


def task_of(output: Tensor, limits: Limits, target: str = "python") -> Task:
    return Task((output,), sl.Target(target), {}, limits=limits)


def search_of(
    task: Task, measurer: Measurer, strategy: Strategy, database: Path, trials: int = 1000,
    template: Callable[[Schedule, Knobs], object] = faulty, deadline: float | None = None,
    **options: Any,
) -> Search:  # fmt: skip
    """Return the search that ``autotune`` builds from these options, with the given measurer."""
    space = Space(Problem(task.outputs, task.target), template, by_tactics=False, deadline=deadline)
    where = Where.here(task.outputs, task.target, task.sizes)
    return Search(
        task, where, task.outputs[0].name, space, strategy, measurer, Database(database), trials,
        **options,
    )  # fmt: skip


def drill(
    faults: Sequence[str], database: Path, limits: Limits, workers: int = 2
) -> sl.autotune.TuningResult:
    """Return the result of a search whose candidates have these faults, in this order."""
    task = task_of(plus_one(), limits)
    search = search_of(task, Local(task, workers, COMMAND), of_faults(faults), database)
    return run(search, resume=False, seed=0)


class Pretended:
    """A measurer without processes: a candidate's time is a function of its steps."""

    batch = 4

    def __init__(self, seconds: Callable[[str], float]) -> None:
        self._seconds = seconds
        self.measured: list[str] = []

    def measure(
        self, jobs: Iterable[Job], best: float | None, deadline: float | None = None
    ) -> Iterator[Measured]:
        for job in [*jobs]:
            self.measured.append(job.steps)
            yield Measured(job.number, "ok", self._seconds(job.steps))

    def race(self, jobs: Sequence[Job]) -> list[Measured]:
        return [Measured(job.number, "ok", self._seconds(job.steps)) for job in jobs]

    def close(self) -> None:
        """Do nothing: there are no processes to end."""


def by_fault(trials: Sequence[Trial]) -> dict[str, Trial]:
    return {str(trial.decisions["fault"]): trial for trial in trials}


def pragma(steps: str, name: str) -> Any:
    """Return the value of a pragma in a schedule's steps, or ``None``."""
    found = [s["args"] for s in json.loads(steps)["steps"] if s["primitive"] == "pragma"]
    return next((p["value"] for p in found if p["name"] == name), None)


def processes(folder: Path) -> list[int]:
    """Return the processes whose command line names a path in ``folder``; none without ``/proc``.

    The script of :func:`script` lies beside the folder, and is none of them.
    """
    inside = f"{folder}{os.sep}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        if int(entry.name) != os.getpid():
            with suppress(OSError):
                if inside in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def until(done: Callable[[], Any], seconds: float = 30.0) -> bool:
    """Return whether ``done()`` becomes true within ``seconds``."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def left_behind(folder: Path, seconds: float = 10.0) -> list[str]:
    """Return the processes and folders that a search with temporary ``folder`` leaves behind."""

    def left() -> list[str]:
        folders = [str(p) for p in folder.glob("schedlang-tune-*")]
        return folders + [f"process {n}" for n in processes(folder)]

    until(lambda: not left(), seconds)
    return left()


@contextmanager
def script(text: str, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script with its temporary files in ``folder``, and kill it in the end."""
    path = folder.parent / f"{folder.name}.py"
    path.write_text(text, encoding="utf-8")
    folder.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, str(path), *arguments], cwd=ROOT, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
