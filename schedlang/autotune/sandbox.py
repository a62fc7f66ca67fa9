"""The parent's end of a child process that may crash, hang, or be killed: it is started again."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedlang.autotune.task import Task
from schedlang.errors import TuningError

COMMAND = (sys.executable, "-m", "schedlang.autotune.worker")
# seconds in which a process starts and the oracle computes what is right
PATIENCE = 300.0


class Lost(Exception):  # noqa: N818
    """The child did not answer: ``how`` is ``"timed out"``, ``"crashed"`` or ``"out of memory"``."""

    def __init__(self, how: str, detail: str) -> None:
        super().__init__(detail)
        self.how = how
        self.detail = detail


class Sandbox:
    """One child process; ``folder`` is for what candidates write. It starts with the first command.

    ``command`` runs something in place of schedlang's worker; the folder follows it.
    """

    def __init__(self, task: Task, folder: Path, command: Sequence[str] = COMMAND) -> None:
        self._task = json.dumps(task.to_data())
        self._folder = folder
        self._command = [*command, str(folder)]
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def ask(self, what: str, seconds: float, **arguments: Any) -> dict[str, Any]:
        """The answer to a command. Raises :class:`Lost` where there is none in time."""
        if not self.alive:
            self._start()
        return self._ask(json.dumps({"do": what, **arguments}), seconds)

    def close(self) -> None:
        """End the process and all that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        except ProcessLookupError:
            pass
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _ask(self, line: str, seconds: float) -> dict[str, Any]:
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise Lost("timed out", f"no answer within {seconds:g} s") from None
        except (BrokenPipeError, OSError):
            answer = None
        if answer is None:
            status = process.wait()
            self.close()
            raise Lost(*_ending(status))
        try:
            found = json.loads(answer)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.close()
            raise Lost("crashed", "its answer is not one")
        return found

    def _start(self) -> None:
        self.close()
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "log.txt").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
                env=_environment(self._folder), start_new_session=True,
            )  # fmt: skip
        answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._answers = answers
        pipe = self._process.stdout

        def listen() -> None:
            assert pipe is not None
            try:
                for line in pipe:
                    answers.put(line)
            except (ValueError, OSError):
                pass
            answers.put(None)

        threading.Thread(target=listen, daemon=True).start()
        try:
            reply = self._ask(f'{{"do": "open", "task": {self._task}}}', PATIENCE)
        except Lost as lost:
            raise TuningError(
                f"autotune: the process that measures candidates does not start: {lost.detail}; "
                f"its log is {self._folder / 'log.txt'}"
            ) from None
        if "failed" in reply:
            self.close()
            raise TuningError(f"autotune: the computation cannot be evaluated: {reply['detail']}")


def _ending(status: int) -> tuple[str, str]:
    """How a process ended, and that in words."""
    if status == -9:
        return "out of memory", "killed by the system, most often for want of memory"
    if status < 0:
        return "crashed", f"ended by signal {signal.Signals(-status).name}"
    return "crashed", f"ended with status {status}"


def _environment(folder: Path) -> dict[str, str]:
    """Candidates are cached in the folder and not among the user's kernels."""
    path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ, "SCHEDLANG_CACHE": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join(p for p in path if p),
    }  # fmt: skip


__all__ = ["COMMAND", "Lost", "Sandbox"]
