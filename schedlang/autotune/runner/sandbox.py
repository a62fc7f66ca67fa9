"""The parent's end of a child process that may crash, hang, or be killed: it is started again."""

from __future__ import annotations

import json
import os
import queue
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

from schedlang.autotune.runner.child import Child
from schedlang.autotune.runner.task import Task
from schedlang.errors import TuningError

COMMAND = (sys.executable, "-m", "schedlang.autotune.runner.worker")
# of the folders that children may remove
PREFIX = "schedlang-tune-"
# seconds in which a process starts and the oracle computes what is right
PATIENCE = 300.0
SLOW_ORACLE = (
    "autotune: the process that measures candidates was not ready within {:g} s, in which NumPy "
    "computes the reference\n  tune for smaller sizes; a search for larger sizes starts from the "
    "result"
)
# the commands that write files, and how they fail where the disk is full: that says nothing of a
# candidate
WRITING, NO_ROOM = ("open", "build"), "no room"
FULL = (
    "autotune: no space is left in {}, where candidates are built: {}\n  set TMPDIR to a folder on "
    "another disk"
)
_NUMBERS = count()


def new_folder() -> Path:
    """Return a name for a folder, which the first process creates and later removes."""
    return Path(tempfile.gettempdir()) / f"{PREFIX}{uuid4().hex}"


class Broken(TuningError):
    """There is nothing to measure with, or not any more."""


class OracleTimeout(Broken):
    """It would be the same anywhere."""


class Lost(Exception):
    """The child did not answer: ``how`` is "timed out", "crashed" or "out of memory"."""

    def __init__(self, how: str, detail: str) -> None:
        super().__init__(detail)
        self.how = how
        self.detail = detail


class Sandbox:
    """One child process; ``folder`` is for what candidates write. It starts with the first command.

    ``command`` runs something in place of schedlang's worker; the folder follows it. ``starts``
    counts the processes so far, ``starting`` has the seconds that the last command waited for one
    to start, and ``met`` has the numbers of the jobs that the last one was
    asked about.
    """

    def __init__(self, task: Task, folder: Path, command: Sequence[str] = COMMAND) -> None:
        self.starts = 0
        self.starting = 0.0
        self.met: set[int] = set()
        self._task = task.data
        self._folder = folder
        self._log = folder / f"log-{next(_NUMBERS)}.txt"
        self._command = [*command, str(folder)]
        self._child: Child | None = None
        self._asked = 0
        self._over = False
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        child = self._child
        return child is not None and child.alive

    def ask(self, what: str, seconds: float, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a command. Raises :class:`Lost` where there is none in time.

        To build is what a process starts for; what else is asked of one that ended is lost.
        """
        self.starting = 0.0
        if what == "build" and not self.alive:
            began = perf_counter()
            try:
                self._start()
            finally:
                self.starting = perf_counter() - began
        if "number" in arguments:
            self.met.add(arguments["number"])
        return self._ask({"do": what, **arguments}, seconds)

    def close(self) -> None:
        """End the process and all that it started; the next command starts another one."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.end()

    def end(self) -> None:
        """Close for good: no process is started again.

        Another thread may call this.
        """
        self._over = True
        self.close()

    def _ask(self, command: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        child, self._asked = self._child, self._asked + 1
        if child is None:
            raise Lost("crashed", "it was ended")
        told = {**command, "id": self._asked, "limit": seconds}
        try:
            answer = child.ask(json.dumps(told).encode(), seconds)
        except queue.Empty:
            self.close()
            raise Lost("timed out", f"no answer within {seconds:g} s") from None
        if answer is None:
            how = child.ending()
            self.close()
            raise Lost(*how)
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.pop("re", None) != self._asked:
            self.close()
            raise Lost("crashed", "its answer is malformed")
        # a candidate that runs may answer anything
        if command["do"] in WRITING and found.get("failed") == NO_ROOM:
            self.close()
            raise Broken(FULL.format(self._folder.parent, found.get("detail", "")))
        return found

    def _start(self) -> None:
        self.close()
        failed = "autotune: the process that measures candidates did not start: "
        with self._lock:
            if self._over:
                raise Lost("crashed", "it was ended")
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                self._child = child = Child(self._command, self._log, _environment(self._folder))
            except OSError as error:
                raise Broken(failed + str(error)) from None
        self.starts += 1
        self.met = set()
        try:
            reply = self._ask({"do": "open", "task": self._task}, PATIENCE)
        except Lost as lost:
            if self._over:
                raise
            if lost.how == "timed out":
                raise OracleTimeout(SLOW_ORACLE.format(PATIENCE)) from None
            said = child.said()
            raise Broken(f"{failed}{lost.detail}" + (f"\n{said}" if said else "")) from None
        if "failed" in reply:
            self.close()
            detail = str(reply.get("detail", ""))
            if reply["failed"] == "out of memory":
                detail += "\n  limits=Limits(memory=...) gives it more memory"
            elif self._task["inputs"] is None:
                detail += "\n  on random data; inputs= gives the data to run on"
            raise Broken(f"autotune: the computation cannot be evaluated: {detail}")


def _environment(folder: Path) -> dict[str, str]:
    """Return the environment of a child process, whose kernels are cached in ``folder``."""
    path = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ, "SCHEDLANG_CACHE": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(p for p in path if p),
    }  # fmt: skip


__all__ = [
    "COMMAND", "NO_ROOM", "PREFIX", "WRITING", "Broken", "OracleTimeout", "Lost", "Sandbox",
    "new_folder",
]  # fmt: skip
