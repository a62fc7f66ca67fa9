"""A process that is told lines and answers lines, none of which may block or flood its parent."""

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

# bytes of an answer, and answers that may wait: more is not from schedlang's worker
LONGEST, MOST_WAITING = 1 << 20, 8
# seconds in which a process whose pipe is closed has ended
GRACE = 2.0
# seconds between two looks whether it lives: a process that it started may hold its pipe open
LOOK = 0.5
# letters of what it said last
SAID = 300


class Child:
    """Starts ``command``, in a group of its own; what it says otherwise goes to ``log``, a file."""

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
            (_tell, self._process.stdin, self._commands),
            (_listen, self._process.stdout, self._answers),
        ):
            threading.Thread(target=work, args=(pipe, lines), daemon=True).start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, line: bytes, seconds: float) -> bytes | None:
        """Return the answer to a line, or ``None`` where the pipe was closed.

        Raises ``queue.Empty`` where there is none in time.
        """
        self._commands.put(line + b"\n")
        end = time.monotonic() + seconds
        while True:
            alive = self.alive
            try:
                return self._answers.get(timeout=max(0.0, min(LOOK, end - time.monotonic())))
            except queue.Empty:
                if not alive:
                    return None
                if time.monotonic() >= end:
                    raise

    def end(self) -> None:
        """End the process and all that it started."""
        # a group may outlive its first process; of one that is gone there is nothing to end
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        self._commands.put(None)

    def ending(self) -> tuple[str, str]:
        """Return how a process whose pipe is closed ended, as an outcome, and that in words."""
        try:
            status = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return "crashed", "it closed its pipe"
        if status == -9 and _kills() > self._kills:
            return "out of memory", "the system killed it for lack of memory"
        if status == -9:
            return "crashed", "ended by signal SIGKILL, which a system short of memory may send"
        if status < 0:
            return "crashed", f"ended by signal {_signal(-status)}"
        return "crashed", f"ended with status {status}"

    def said(self) -> str:
        """Return the end of what it said otherwise."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - SAID))
                return file.read(SAID).decode("utf-8", "replace").strip()
        except OSError:
            return ""


def _tell(pipe: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    """Write what is to be told; a process that does not read blocks this thread alone."""
    with suppress(OSError, ValueError):
        while (line := lines.get()) is not None:
            pipe.write(line)
            pipe.flush()
    with suppress(OSError, ValueError):
        pipe.close()


def _listen(pipe: IO[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    """Read answers to the end, or to where they are too many or too long to be answers."""
    with suppress(OSError, ValueError), pipe:
        while lines.qsize() < MOST_WAITING:
            line = pipe.readline(LONGEST)
            if not line.endswith(b"\n"):
                break
            lines.put(line)
    lines.put(None)


def _kills() -> int:
    """Return how often the system killed a process for want of memory; 0 where it does not say."""
    with suppress(OSError, ValueError), open("/proc/vmstat", encoding="ascii") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    return 0


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
