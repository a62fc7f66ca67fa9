"""Measurements in the background: one thread asks a child process for the time of each schedule.

The child can crash or hang: its schedule then has a message in place of a time, and the next
measurement starts another child.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from schedlang.autotune.runner.machine import this_machine
from schedlang.autotune.runner.measure import Job, Measured, measure_one
from schedlang.autotune.runner.sandbox import COMMAND, Broken, Sandbox, new_folder
from schedlang.autotune.runner.task import Limits, Task, tolerance_for
from schedlang.compute.graph import variables
from schedlang.compute.tensor import Tensor
from schedlang.target import Target

# seconds: a schedule without any step may be slow
LIMITS = Limits(build=60.0, run=60.0)
WAITING, RUNNING, OK, FAILED = "waiting", "running", "ok", "failed"


def without_sizes(names: Sequence[str]) -> str:
    """Return the end of a sentence about what needs numbers for the sizes of these names.

    >>> without_sizes(["n"])
    "need numbers for the sizes: sizes={'n': 1024}, or --size NAME=N"
    """
    example = ", ".join(f"{name!r}: 1024" for name in names)
    return f"need numbers for the sizes: sizes={{{example}}}, or --size NAME=N"


@dataclass(frozen=True)
class Timing:
    """The time of a schedule: the ``status`` of its measurement, and seconds or a message.

    ``quiet`` is False if other work disturbed every sample.
    """

    status: str
    seconds: float | None = None
    quiet: bool = True
    text: str = ""


def better(before: Timing | None, after: Timing) -> Timing:
    """Return the better of two timings: a quiet one, or the shorter. A failure counts as a timing.
    """
    if before is None or before.status != OK or after.status != OK:
        return after
    return min(before, after, key=lambda timing: (not timing.quiet, timing.seconds))


class Measurer:
    """A queue of schedules to measure, as JSON steps, and what is known of their times.

    ``changed`` is called, in the thread that measures, with the steps whose timing changed. The
    child starts with the first schedule. ``command`` is its command line. ``untimed`` says why
    nothing is measured, if nothing is.
    """

    def __init__(
        self,
        outputs: Sequence[Tensor],
        target: Target,
        sizes: Mapping[str, int],
        changed: Callable[[str], None],
        limits: Limits = LIMITS,
        command: Sequence[str] = COMMAND,
        untimed: str = "",
    ) -> None:
        self.known: dict[str, Timing] = {}
        # the best time of each schedule that was measured, in the thread that measures
        self._best: dict[str, Timing] = {}
        self._changed = changed
        self._missing = [v.name for v in variables(outputs) if v.is_size and v.name not in sizes]
        self._untimed = untimed
        self._task = Task(
            tuple(outputs),
            target,
            dict(sizes),
            tolerance=tolerance_for(outputs),
            limits=limits.on(this_machine(target).memory),
        )
        self._command, self._folder = command, new_folder()
        self._queue: deque[str] = deque()
        self._more = threading.Condition()
        self._box: Sandbox | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def impossible(self) -> str:
        """The reason why nothing can be measured, or an empty text."""
        if self._untimed or not self._missing:
            return self._untimed
        return f"Times {without_sizes(self._missing)}."

    def ask(self, steps: str, first: bool = True, again: bool = False) -> None:
        """Measure a schedule, ``first`` of all or last, unless that was done or is awaited.

        With ``again``, one that was measured is measured again.
        """
        with self._more:
            timing = self.known.get(steps)
            status = "" if timing is None else timing.status
            if status == WAITING and first and steps in self._queue:
                self._queue.remove(steps)
                self._queue.appendleft(steps)
            is_measured = status in (OK, FAILED) and not again
            if self._closed or self.impossible or is_measured or status in (WAITING, RUNNING):
                return
            self.known[steps] = Timing(WAITING)
            (self._queue.appendleft if first else self._queue.append)(steps)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()
            self._more.notify()
        self._changed(steps)

    def close(self) -> None:
        """End the child and the thread, and remove the child's files. What is known stays."""
        with self._more:
            self._closed = True
            self._queue.clear()
            self._more.notify()
            box = self._box
        if box is not None:
            box.end()
            # a child that is killed does not remove them itself
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        number = 0
        while True:
            with self._more:
                while not self._queue and not self._closed:
                    self._more.wait()
                if self._closed:
                    return
                steps = self._queue.popleft()
                if self._box is None:
                    self._box = Sandbox(self._task, self._folder, self._command)
                box = self._box
            number += 1
            self._tell(steps, Timing(RUNNING))
            try:
                timing = self._timing(measure_one(box, Job(number, steps), self._task, None))
                timing = self._best[steps] = better(self._best.get(steps), timing)
            except Broken as error:
                timing = Timing(FAILED, text=str(error).removeprefix("autotune: "))
            except Exception as error:
                # whatever it is, the thread lives on, and the page says what happened
                timing = Timing(FAILED, text=f"{type(error).__name__}: {error}")
            self._tell(steps, timing)

    def _tell(self, steps: str, timing: Timing) -> None:
        self.known[steps] = timing
        if not self._closed:
            with suppress(RuntimeError):
                # the event loop of a page that was closed meanwhile
                self._changed(steps)

    def _timing(self, trial: Measured) -> Timing:
        if trial.outcome == "ok":
            return Timing(OK, trial.seconds, trial.quiet)
        limits = self._task.limits
        what = {
            "build timed out": f"Building the kernel took more than {limits.build:g} s.",
            "run timed out": f"A call took more than {limits.run:g} s.",
            "build failed": f"The kernel was not built: {trial.detail}",
            "run failed": f"A call of the kernel failed: {trial.detail}",
            "wrong answer": f"The result is wrong: {trial.detail}",
            "out of memory": f"The kernel needs too much memory: {trial.detail}",
            "crashed": f"The process that measures crashed: {trial.detail}. Measure again to start "
            "another one.",
        }
        return Timing(FAILED, text=what.get(trial.outcome, f"{trial.outcome}: {trial.detail}"))


def timing_data(timing: Timing) -> dict[str, Any]:
    """Return a timing as JSON data."""
    return {"status": timing.status, "seconds": timing.seconds, "quiet": timing.quiet,
            "text": timing.text}  # fmt: skip
