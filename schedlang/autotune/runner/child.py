"""A child process that answers lines with lines, and cannot block or flood its parent."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from schedlang.runtime.exit_status import ended

# the most bytes of an answer, and the most unread answers: schedlang's worker sends no more
LONGEST, MOST_WAITING = 1 << 20, 8
# seconds for a process to end after its pipe is closed
GRACE = 2.0
# seconds between checks that the process lives: one that it started may hold its pipe open
POLL = 0.5
# bytes from the end of the log that an error message shows
LOG_TAIL = 300


class Child:
    """A process that runs ``command`` in its own group, with its error output in ``log``."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self._log = log
        self._kills = _kills()
        self._commands: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        log.unlink(missing_ok=True)
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                env=environment, start_new_session=True,
            )  # fmt: skip
        for work, pipe, lines in (
            (_write, self._process.stdin, self._commands),
            (_read_answers, self._process.stdout, self._answers),
        ):
            threading.Thread(target=work, args=(pipe, lines), daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, line: bytes, seconds: float) -> bytes | None:
        """Return the answer to a line, or ``None`` if the pipe was closed.

        Raise ``queue.Empty`` if there is no answer within ``seconds``.
        """
        self._commands.put(line + b"\n")
        end = time.monotonic() + seconds
        while True:
            alive = self.alive
            try:
                return self._answers.get(timeout=max(0.0, min(POLL, end - time.monotonic())))
            except queue.Empty:
                if not alive:
                    return None
                if time.monotonic() >= end:
                    raise

    def end(self) -> None:
        """Kill the process and all processes that it started."""
        # the group may outlive its first process, or be gone already
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        self._commands.put(None)

    def exit_reason(self) -> tuple[str, str]:
        """Return how a process with a closed pipe ended, as an outcome and in words."""
        try:
            status = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return "crashed", "it closed its pipe"
        if status == -9 and _kills() > self._kills:
            return "out of memory", "the system killed it for lack of memory"
        return "crashed", ended(status)

    def log_tail(self) -> str:
        """Return the end of the log."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
                return file.read(LOG_TAIL).decode("utf-8", "replace").strip()
        except OSError:
            return ""


def _write(pipe: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    """Write lines to the process; if it does not read, only this thread blocks."""
    with suppress(OSError, ValueError):
        while (line := lines.get()) is not None:
            pipe.write(line)
            pipe.flush()
    with suppress(OSError, ValueError):
        pipe.close()


def _read_answers(pipe: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    """Read answers until the pipe closes, or until they are too many or too long."""
    with suppress(OSError, ValueError), pipe:
        while lines.qsize() < MOST_WAITING:
            line = pipe.readline(LONGEST)
            if not line.endswith(b"\n"):
                break
            lines.put(line)
    lines.put(None)


def _kills() -> int:
    """Return how many processes the system has killed for lack of memory; 0 if unknown."""
    with suppress(OSError, ValueError), open("/proc/vmstat", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    return 0
