"""A child process that builds, checks and times candidates: commands in, answers out, as JSON lines.

``python -m schedlang.autotune.worker FOLDER``. Whatever a candidate does to this process ends
here: its parent sees the pipe close, or kills it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from schedlang.autotune.task import Limits, task_from_data
from schedlang.autotune.workbench import Workbench, Wrong
from schedlang.errors import SchedlangError

COMMANDS = ("build", "check", "time", "race", "forget")


def serve(folder: Path) -> None:
    """Answer until the pipe closes. What candidates print goes to the log."""
    end_with_parent(os.getppid())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    bench: Workbench | None = None
    for line in sys.stdin:
        command = json.loads(line)
        what = command.pop("do")
        try:
            if what == "open":
                task = task_from_data(command["task"])
                limit_memory(task.limits)
                bench = Workbench(task, folder)
                bench.expected()
                reply: dict[str, Any] = {}
            else:
                assert bench is not None and what in COMMANDS
                reply = getattr(bench, what)(**command)
        except MemoryError as error:
            reply = {"failed": "out of memory", "detail": first_line(error)}
        except Wrong as error:
            reply = {"failed": "wrong answer", "detail": first_line(error)}
        except Exception as error:
            kind = "" if isinstance(error, SchedlangError) else f"{type(error).__name__}: "
            reply = {"failed": "error", "detail": kind + first_line(error)}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent, also in the middle of a candidate that hangs."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def limit_memory(limits: Limits) -> None:
    """No more memory than what this process has now and the limit beyond it."""
    if not limits.memory:
        return
    try:
        import resource
    except ImportError:
        return
    held = _held()
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = held + limits.memory
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard < 0 else min(most, hard), hard))


def _held() -> int:
    """Bytes of private data, as RLIMIT_DATA counts them; 0 where the system does not say."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            found = next((line for line in file if line.startswith("VmData:")), "VmData: 0 kB")
    except OSError:
        return 0
    return int(found.split()[1]) * 1024


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
