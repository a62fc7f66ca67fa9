"""The parent's side of a child process, which is started again after a crash or a hang."""

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
# name prefix of the folders that children may remove
PREFIX = "schedlang-tune-"
# seconds for a process to start, which includes the oracle's computation
PATIENCE = 300.0
SLOW_ORACLE = (
    "autotune: the process that measures candidates was not ready within {:g} s, in which NumPy "
    "computes the reference\n  tune for smaller sizes; a search for larger sizes starts from the "
    "result"
)
# the commands that write files, and their failure if the disk is full: no candidate is to blame
WRITING, DISK_FULL = ("open", "build"), "no room"
FULL = (
    "autotune: no space is left in {}, where candidates are built: {}\n  set TMPDIR to a folder on "
    "another disk"
)
_NUMBERS = count()


def new_folder() -> Path:
    """Return a name for a folder, which the first process creates and later removes."""
    return Path(tempfile.gettempdir()) / f"{PREFIX}{uuid4().hex}"


class Broken(TuningError):
    """Raised when nothing can be measured, or not any more."""


class OracleTimeout(Broken):
    """Raised when the oracle takes too long. Another worker would be no faster."""


class Lost(Exception):
    """Raised when a child does not answer: it "timed out", "crashed" or went "out of memory"."""

    def __init__(self, how: str, detail: str) -> None:
        super().__init__(detail)
        self.how = how
        self.detail = detail


class Sandbox:
    """A child process that measures candidates. A command to build starts it if there is none.

    * ``folder``: the folder for the files of candidates.
    * ``command``: the command line of the process, to which the folder is added.
    * ``starts``: how many processes were started so far.
    * ``starting``: the seconds that the last command waited for a process to start.
    * ``met``: the numbers of the jobs that the current process has seen.
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
        self._commands = 0
        self._closed = False
        self._lock = threading.Lock()

    @property
    def alive(self) -> bool:
        child = self._child
        return child is not None and child.alive

    def start_first(self) -> None:
        """Start the first process now, so that no command waits for it."""
        if not self.starts:
            self._start()

    def ask(self, what: str, seconds: float, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a command; raise :class:`Lost` if there is none in time.

        Only the command to build starts a process. Any other raises :class:`Lost` if there is none.
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
        """End the process and all that it started; the next command to build starts another."""
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.end()

    def end(self) -> None:
        """Close for good, so that no process is started again. Any thread may call this."""
        self._closed = True
        self.close()

    def _ask(self, command: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        child, self._commands = self._child, self._commands + 1
        if child is None:
            raise Lost("crashed", "it was ended")
        message = {**command, "id": self._commands, "limit": seconds}
        try:
            answer = child.ask(json.dumps(message).encode(), seconds)
        except queue.Empty:
            self.close()
            raise Lost("timed out", f"no answer within {seconds:g} s") from None
        if answer is None:
            how = child.exit_reason()
            self.close()
            raise Lost(*how)
        try:
            reply = json.loads(answer)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict) or reply.pop("re", None) != self._commands:
            self.close()
            raise Lost("crashed", "its answer is malformed")
        # only for commands that run no candidate, as a candidate may forge any answer
        if command["do"] in WRITING and reply.get("failed") == DISK_FULL:
            self.close()
            raise Broken(FULL.format(self._folder.parent, reply.get("detail", "")))
        return reply

    def _start(self) -> None:
        self.close()
        failed = "autotune: the process that measures candidates did not start: "
        with self._lock:
            if self._closed:
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
            if self._closed:
                raise
            if lost.how == "timed out":
                raise OracleTimeout(SLOW_ORACLE.format(PATIENCE)) from None
            log = child.log_tail()
            raise Broken(f"{failed}{lost.detail}" + (f"\n{log}" if log else "")) from None
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
        **os.environ,
        "SCHEDLANG_CACHE": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(p for p in path if p),
    }
