"""The child process that builds, checks and times candidates.

It runs as ``python -m schedlang.autotune.runner.worker FOLDER``, and reads commands and writes
answers as JSON lines. A candidate can only harm this process: its parent sees the pipe close, or
kills it.
"""

from __future__ import annotations

import errno
import faulthandler
import json
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from schedlang.autotune.runner.candidate_runner import CandidateRunner, Wrong
from schedlang.autotune.runner.sandbox import DISK_FULL, PREFIX, WRITING
from schedlang.autotune.runner.task import Limits, Task, task_from_data
from schedlang.errors import SchedlangError, first_line
from schedlang.runtime.collection import no_collection
from schedlang.runtime.environment import threads

COMMANDS = ("build", "check", "emulate", "time", "sample", "forget")
# seconds past a time limit after which the process ends itself, as its parent is gone or suspended
GRACE = 5.0
# the most bytes of a file that a candidate writes, and of a log that is not truncated
MOST_WRITTEN, LONG_LOG = 64 << 20, 1 << 20
# bytes of address space that a new thread reserves: glibc's heap and a stack
THREAD_BYTES = 72 << 20
# file descriptors that the guard closes
MOST_OPEN = 1 << 12


RunnerFor = Callable[[Task, Path], CandidateRunner]


def serve(folder: Path, runner_for: RunnerFor = CandidateRunner) -> None:
    """Answer commands until the pipe closes. The output of candidates goes to the log."""
    end_with_parent(folder)
    commands = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    runner: CandidateRunner | None = None
    for line in commands:
        command = json.loads(line)
        what, command_id, limit = (command.pop(key) for key in ("do", "id", "limit"))
        if os.fstat(2).st_size > LONG_LOG:
            os.ftruncate(2, 0)
        # in case the parent cannot end this process
        faulthandler.dump_traceback_later(limit + GRACE, exit=True)
        try:
            if what == "open":
                runner = open_runner(task_from_data(command["task"]), folder, runner_for)
                reply: dict[str, Any] = {}
            else:
                assert runner is not None and what in COMMANDS
                # a collection would visit all objects of numba, and disturb times
                with no_collection():
                    reply = getattr(runner, what)(**command)
        except MemoryError as error:
            reply = {"failed": "out of memory", "detail": first_line(error)}
        except Wrong as error:
            detail = first_line(error)
            reply = {"failed": "wrong answer", "detail": detail, "spoiled": error.spoiled}
        except Exception as error:
            kind = "" if isinstance(error, SchedlangError) else f"{type(error).__name__}: "
            how = DISK_FULL if what in WRITING and is_disk_full(error) else "error"
            reply = {"failed": how, "detail": kind + first_line(error)}
        faulthandler.cancel_dump_traceback_later()
        answers.write(json.dumps({**reply, "re": command_id}) + "\n")
        answers.flush()
    remove(folder)


def open_runner(task: Task, folder: Path, runner_for: RunnerFor) -> CandidateRunner:
    """Limit the memory and files of this process, and return its candidate runner."""
    limit_memory(task.limits)
    runner = runner_for(task, folder)
    runner.expected()
    limit_files()
    return runner


def end_with_parent(folder: Path) -> None:
    """End this process with its parent, also while a candidate hangs."""
    parent, pipe = os.getppid(), sys.stdin.fileno()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        remove(folder)
        os._exit(1)

    # this thread cannot run while a candidate holds the GIL: hence the guard below
    threading.Thread(target=watch, daemon=True).start()
    if not hasattr(os, "fork"):
        return
    worker = os.getpid()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        forked = os.fork()
    if not forked:
        try:
            guard(worker, pipe, folder)
        finally:
            os._exit(0)


def guard(worker: int, pipe: int, folder: Path) -> None:
    """Wait until the parent's end of the pipe is closed, then kill the worker.

    It runs in a process forked from the worker.
    """
    import select

    # only the worker may hold the pipe for answers open
    os.closerange(pipe + 1, MOST_OPEN)
    poll = select.poll()
    # without events: only a hang-up is reported
    poll.register(pipe, 0)
    poll.poll()
    if os.getppid() == worker:
        os.kill(worker, signal.SIGKILL)
    remove(folder)


def remove(folder: Path) -> None:
    """Remove the folder that candidates wrote to, if it is one of schedlang's."""
    if folder.name.startswith(PREFIX):
        shutil.rmtree(folder, ignore_errors=True)


def is_disk_full(error: BaseException) -> bool:
    """Return whether a full disk is the error or one of its causes."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def limit_memory(limits: Limits) -> None:
    """Limit memory to what this process and its threads start with, plus the limit of the task."""
    # if the machine runs out of memory, the system kills this process before its parent
    with suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("1000")
    if not limits.memory:
        return
    try:
        import resource
    except ImportError:
        return
    held = _held()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    # the threads of a kernel start later, at its first call
    most = held + (threads() - 1) * THREAD_BYTES + limits.memory
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def limit_files() -> None:
    """Forbid core dumps and limit the size of files, including what candidates print."""
    try:
        import resource
    except ImportError:
        return
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, MOST_WRITTEN)):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (most if hard < 0 else min(most, hard), hard))


def _held() -> int:
    """Return the bytes of private data, as RLIMIT_DATA counts them; 0 if unknown."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            size = next((line for line in file if line.startswith("VmData:")), "VmData: 0 kB")
    except OSError:
        return 0
    return int(size.split()[1]) * 1024


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
