"""Child processes that compile parts of a kernel beside this one, which takes a part itself.

Threads would not help: llvmlite holds one lock around every call. The children live as long as one
compilation. One that ends before its time costs nothing but time: this process compiles its part,
unless what it does itself ended it, as a lack of memory ends LLVM.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import llvmlite

from schedlang.errors import CompilerWarning, warn_user
from schedlang.runtime.environment import threads
from schedlang.runtime.exit_status import ended, has_crashed
from schedlang.runtime.llvm import objects
from schedlang.runtime.llvm.objects import ERROR, Job, Machine, receive, send

# the most children, and seconds for one to end after its pipe is closed
MOST, GRACE = 8, 5.0
# a child finds the modules of Python and llvmlite, and runs no other code of the user's packages
COMMAND = (
    sys.executable, "-I", "-S", "-c",
    "import sys; from runpy import run_path; sys.path.append(sys.argv[1]); "
    "run_path(sys.argv[2], run_name='__main__')",
    str(Path(llvmlite.__file__).parents[1]), objects.__file__,
)  # fmt: skip


T = TypeVar("T")


class Ended(Exception):
    """Raised for a child that ended before it answered, and how; ``crashed``: by its own fault."""

    def __init__(self, how: str, crashed: bool) -> None:
        super().__init__(how)
        self.crashed = crashed


class _Child:
    """A child process that compiles one job at a time."""

    def __init__(self, options: str) -> None:
        # what LLVM prints before it ends its process
        self._printed = tempfile.TemporaryFile()
        try:
            # an interrupt from the keyboard goes to this process alone, which ends its children
            self._process = subprocess.Popen(
                [*COMMAND, options], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=self._printed, start_new_session=True,
            )  # fmt: skip
        except BaseException:
            self._printed.close()
            raise
        assert self._process.stdin is not None and self._process.stdout is not None
        self._jobs, self._answers = self._process.stdin, self._process.stdout

    def object_of(self, job: Job) -> bytes:
        """Return the object file of a job; raise :class:`RuntimeError` for what LLVM refuses."""
        try:
            send(self._jobs, *job)
            kind, (content,) = receive(self._answers)
        except (OSError, ValueError):
            raise self._ended() from None
        if kind == ERROR:
            raise RuntimeError(content.decode())
        return content

    def _ended(self) -> Ended:
        try:
            status = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return Ended("closed its pipe", False)
        self._printed.seek(0)
        lines = self._printed.read().decode("utf-8", "replace").strip().splitlines()
        # LLVM's own error, or the last line of Python's
        reasons = [line for line in lines if "LLVM ERROR" in line] or lines[-1:]
        return Ended(": ".join([ended(status), *reasons[:1]]), has_crashed(status))

    def end(self) -> None:
        """End the process, and close its files."""
        with suppress(OSError), self._printed, self._process:
            self._process.kill()


def _beside(function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns, which runs in a thread of its own.

    An interrupt from the keyboard reaches the main thread alone, at once. During a call of llvmlite
    it would leave a module with two owners, or be lost where an object is disposed of.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(function(*arguments))
        except BaseException as error:
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    return result.result()


class Task(NamedTuple):
    """A job to do, what it compiles, and its object file."""

    job: Job
    what: str
    result: Future[bytes]


class Pool:
    """The processes that compile up to ``parts`` modules at once; ``with`` ends them.

    ``known`` modules are submitted in any case, so as many processes start at once. The others
    start when there are more modules.

    ``options`` are the options of :class:`~schedlang.runtime.llvm.objects.Machine`.
    """

    def __init__(self, parts: int, options: Mapping[str, Any], known: int = 1) -> None:
        self._options, self._count = options, min(threads(), parts, MOST + 1) - 1
        self._open: SimpleQueue[Task | None] = SimpleQueue()
        self._known, self._submitted = known, 0
        self._children: list[_Child] = []

    def __enter__(self) -> Pool:
        try:
            self._start(self._known)
        except BaseException:
            # an interrupt, after which nobody ends the processes
            self.__exit__()
            raise
        return self

    def _start(self, modules: int) -> None:
        """Start processes until there is one for each of so many modules, or all."""
        try:
            while len(self._children) < min(self._count, modules):
                child = _Child(json.dumps(self._options))
                self._children.append(child)
                Thread(target=self._work, args=(child,), daemon=True).start()
        except OSError as error:
            # one warning is enough
            self._count = len(self._children)
            warn_user(
                f"no process compiles parts of a kernel beside this one ({error}), so that it "
                "takes longer",
                CompilerWarning,
            )

    def __exit__(self, *_: object) -> None:
        with suppress(Empty):
            # after an interrupt, nobody wants what is not begun
            while True:
                self._open.get_nowait()
        for child in self._children:
            child.end()
            self._open.put(None)

    def submit(self, job: Job, what: str) -> Task:
        """Let the next process that is free compile a module; ``what`` it is stands in errors."""
        task = Task(job, what, Future())
        self._open.put(task)
        self._submitted += 1
        self._start(self._submitted)
        return task

    def take_part(self) -> None:
        """Compile in this process, too, until each module is begun."""
        _beside(self._take_part)

    def _take_part(self) -> None:
        with suppress(Empty):
            while True:
                task = self._open.get_nowait()
                assert task is not None
                try:
                    task.result.set_result(self._machine.object_of(task.job))
                except RuntimeError as error:
                    task.result.set_exception(error)

    def object_of(self, task: Task) -> bytes:
        """Return an object file; raise :class:`RuntimeError` for what LLVM refuses or ends it."""
        try:
            return task.result.result()
        except Ended as end:
            why = f"the process that compiled {task.what} {end}"
            if end.crashed:
                raise RuntimeError(why) from None
            warn_user(f"{why}, so that this process compiles it", CompilerWarning)
            return _beside(lambda: self._machine.object_of(task.job))

    @cached_property
    def _machine(self) -> Machine:
        return Machine(**self._options)

    def _work(self, child: _Child) -> None:
        """Let a child compile what nobody has begun."""
        while (task := self._open.get()) is not None:
            try:
                task.result.set_result(child.object_of(task.job))
            except Exception as error:
                task.result.set_exception(error)
                if isinstance(error, Ended):
                    return
