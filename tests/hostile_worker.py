"""A worker of the tuner with hostile candidates, each with the fault that its pragma names.

``python tests/hostile_worker.py FOLDER`` replaces
``python -m schedlang.autotune.runner.worker``. It runs the real worker and workbench, and the
faults are real.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.autotune.runner.candidate_runner import CandidateRunner
from schedlang.autotune.runner.outputs import MARGIN
from schedlang.autotune.runner.worker import serve

PRAGMA = "drill.fault"
# the pipe for answers, before the worker redirects stdout
ANSWERS = os.dup(1) if __name__ == "__main__" else -1
COMMAND = (sys.executable, str(Path(__file__).resolve()))


def compiled(work: Callable[[int], object], start: int, **options: bool) -> None:
    """Compile ``work`` and call it; import numba only here, so that processes start fast."""
    from numba import njit

    njit(**options)(work)(start)


def loop(start: int) -> int:
    n = start
    while n != -1:
        n = (n + 1) % 1000
    return n


def allocate(size: int) -> float:
    total = 0.0
    kept = [np.empty(size)]
    while size > 0:
        kept.append(np.empty(size))
        total += kept[-1][size // 2]
    return total


def endless() -> None:
    compiled(loop, 0, nogil=True)


def endless_with_the_lock() -> None:
    compiled(loop, 0)


def hoard_compiled() -> None:
    compiled(allocate, 1 << 20)


def hoard() -> None:
    kept = []
    while True:
        kept.append(np.empty(1 << 20))


def refuse() -> None:
    raise ZeroDivisionError("a hostile candidate")


def sleep() -> None:
    time.sleep(1000)


def segfault() -> None:
    ctypes.string_at(0)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def leave() -> None:
    os._exit(3)


def system_exit() -> None:
    sys.exit("a hostile candidate")


def garbage() -> None:
    os.write(ANSWERS, b"\xff\xfe no answer\n")
    time.sleep(1000)


def endless_answer() -> None:
    while True:
        os.write(ANSWERS, b"x" * 65536)


def many_answers() -> None:
    while True:
        os.write(ANSWERS, b"{}\n" * 1000)


def made_up_answer() -> None:
    os.write(ANSWERS, b'{"seconds": 1e-12, "source": "", "resources": {}, "re": 1}\n')
    time.sleep(1000)


def close_pipe() -> None:
    os.closerange(3, 100)
    time.sleep(1000)


flooded: list[bool] = []


def flood() -> None:
    """Write megabytes to stdout and stderr, once, which must cost no trial."""
    for _ in range(0 if flooded else 64):
        os.write(1, b"out " * 16384)
        os.write(2, b"err " * 16384)
    flooded.append(True)


def write_without_end() -> None:
    while True:
        os.write(1, b"a candidate that says too much\n" * 4096)


def read_stdin() -> None:
    if sys.stdin.read() or os.read(0, 1):
        raise AssertionError("a candidate read a command")


def fork() -> None:
    """Start a child that keeps the pipe open and outlives the candidate."""
    if os.fork() == 0:
        time.sleep(1000)
    segfault()


def slow() -> None:
    time.sleep(0.004)


def flood_slowly() -> None:
    flood()
    slow()


def read_slowly() -> None:
    read_stdin()
    slow()


# faults before a build, and before a call
IN_BUILD: dict[str, Callable[[], object]] = {
    "build raises": refuse, "build sleeps": sleep, "build crashes": segfault,
    "build hoards": hoard, "build answers": made_up_answer,
}  # fmt: skip
IN_RUN: dict[str, Callable[[], object]] = {
    "raises": refuse, "endless": endless,
    "endless with the lock": endless_with_the_lock, "segfault": segfault,
    "abort": os.abort, "exits": leave, "system exit": system_exit, "kills itself": kill,
    "garbage": garbage, "endless answer": endless_answer,
    "many answers": many_answers, "made up answer": made_up_answer, "closes the pipe": close_pipe,
    "hoards": hoard, "compiled hoards": hoard_compiled, "floods": flood_slowly,
    "writes without end": write_without_end, "reads stdin": read_slowly, "forks": fork,
    "slow": slow, "slower": lambda: time.sleep(0.02), "ok": lambda: None,
}  # fmt: skip


def unwritten(values: list[np.ndarray[Any, Any]]) -> None:
    """Leave the output as it was."""


def half(values: list[np.ndarray[Any, Any]]) -> None:
    values[-1].reshape(-1)[::2] = values[0].reshape(-1)[::2] + 1


def off(values: list[np.ndarray[Any, Any]]) -> None:
    values[-1][...] = values[0] + 1
    values[-1].reshape(-1)[-1] *= 1.001


def past_the_end(values: list[np.ndarray[Any, Any]]) -> None:
    values[-1][...] = values[0] + 1
    ctypes.memset(values[-1].ctypes.data + values[-1].nbytes + MARGIN // 2, 0, 4)


def before_the_start(values: list[np.ndarray[Any, Any]]) -> None:
    values[-1][...] = values[0] + 1
    ctypes.memset(values[-1].ctypes.data - 4, 0, 4)


def input_written(values: list[np.ndarray[Any, Any]]) -> None:
    values[-1][...] = values[0] + 1
    values[0][...] = 0


# functions that replace a candidate for B = A + 1
IN_PLACE: dict[str, Callable[[list[np.ndarray[Any, Any]]], None]] = {
    "unwritten": unwritten, "half": half, "off": off,
    "past the end": past_the_end, "before the start": before_the_start,
    "input written": input_written,
}  # fmt: skip


# faults in later commands of the worker
LATER = ("when timed", "when timed again", "takes no time", "spoils the process")
FAULTS = [*IN_BUILD, *IN_RUN, *IN_PLACE, *LATER]


class HostileRunner(CandidateRunner):
    """A workbench with the fault that a candidate's pragma names; none without a pragma."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.faults: dict[int, str] = {}
        self.spoiled = False

    def build(self, number: int, steps: str) -> dict[str, Any]:
        pragmas = [s["args"] for s in json.loads(steps)["steps"] if s["primitive"] == "pragma"]
        fault = next((p["value"] for p in pragmas if p["name"] == PRAGMA), "ok")
        assert fault in FAULTS
        if self.spoiled:
            segfault()
        with noted("build"):
            IN_BUILD.get(fault, lambda: None)()
            self.faults[number] = fault
            return super().build(number, steps)

    def check(self, number: int) -> dict[str, Any]:
        if self.spoiled:
            segfault()
        return super().check(number)

    def time(self, number: int, best: float | None = None) -> dict[str, Any]:
        if self.faults[number] == "when timed":
            segfault()
        if self.faults[number] == "takes no time":
            return {"seconds": float("nan")}
        with noted("time"):
            found = super().time(number, best)
        self.spoiled = self.faults[number] == "spoils the process"
        return found

    def sample(self, number: int) -> dict[str, Any]:
        if self.faults[number] == "when timed again":
            segfault()
        return super().sample(number)

    def _call(self, number: int) -> Any:
        call = super()._call(number)
        fault = self.faults[number]
        values = [*self.inputs, *(out.array for out in self._outs)]

        def hostile() -> None:
            if fault in IN_PLACE:
                IN_PLACE[fault](values)
            else:
                IN_RUN.get(fault, lambda: None)()
                call()

        return hostile


@contextmanager
def noted(what: str) -> Iterator[None]:
    """Log when the block began and ended, in the file that the variable DRILL_LOG names."""
    start = time.monotonic()
    yield
    if "DRILL_LOG" in os.environ:
        with open(os.environ["DRILL_LOG"], "a", encoding="utf-8") as file:
            file.write(f"{what} {start} {time.monotonic()}\n")


if __name__ == "__main__":
    serve(Path(sys.argv[1]), HostileRunner)
