"""Jobs that wait for a process that builds them, while the search draws the next ones."""

from __future__ import annotations

from collections import deque
from threading import Condition
from time import monotonic

from schedlang.autotune.runner.measure import Job

# seconds between two looks at the clock
LONGEST = 60.0


class Waiting:
    """A line of jobs, which any thread may put and take until it is ``closed``."""

    def __init__(self) -> None:
        self._jobs: deque[Job] = deque()
        self._changed = Condition()
        self._closed = self._begun = False

    def __bool__(self) -> bool:
        """True if there are jobs, or may be later."""
        return bool(self._jobs) or not self._closed

    def put(self, job: Job) -> None:
        with self._changed:
            self._jobs.append(job)
            self._changed.notify()

    def close(self) -> None:
        """Say that there are no more jobs."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def clear(self) -> None:
        """Drop the jobs that wait, and close."""
        with self._changed:
            self._jobs.clear()
        self.close()

    def take(self, until: float, or_first: bool = False) -> Job | None:
        """Wait for a job; return ``None`` if there are no more, or at ``until``.

        The time is one of ``time.monotonic``. With ``or_first``, the first job of all may be taken
        later.
        """
        with self._changed:
            while not self._jobs and not self._closed and self._takes(until, or_first):
                self._changed.wait(min(max(until - monotonic(), 0.0) or LONGEST, LONGEST))
            if not self._jobs or not self._takes(until, or_first):
                return None
            self._begun = True
            self._changed.notify_all()
            return self._jobs.popleft()

    def _takes(self, until: float, or_first: bool) -> bool:
        return monotonic() < until or (or_first and not self._begun)
