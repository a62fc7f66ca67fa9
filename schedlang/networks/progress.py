"""The progress of the searches for a network: one line, or a call per trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Union

from schedlang.autotune.record import Trial
from schedlang.errors import TuningError
from schedlang.markup.progress import Line, span
from schedlang.markup.progress import Setting as Shown
from schedlang.runtime.timing import duration

# the values of ``progress=``
Setting = Union[bool, Callable[[str, Trial], object], None]


class Progress(AbstractContextManager["Progress"], Protocol):
    """The display of several searches: a context around all of them."""

    def search(self, number: int, name: str, parts: int) -> None:
        """Show that the search of a kernel begins, which so many ``parts`` of a call run."""

    def trial(self, name: str, trial: Trial) -> None:
        """Show that a trial of that kernel has ended."""


def progress_for(setting: Setting, searches: int, deadline: float | None) -> Progress:
    """Return the display of ``searches`` searches that end by ``deadline``.

    ``setting`` takes the values that :func:`schedlang.autotune` takes, but a function is called
    with the name of the kernel and the trial. The deadline is one of ``time.monotonic``.

    >>> seen = []
    >>> with progress_for(lambda name, trial: seen.append((name, trial.outcome)), 1, None) as shown:
    ...     shown.search(1, "conv1", 2)
    ...     shown.trial("conv1", Trial(0, "ok", ""))
    >>> seen
    [('conv1', 'ok')]
    """
    if setting is None or isinstance(setting, bool):
        return Bar(searches, deadline, setting)
    if not callable(setting):
        raise TuningError(
            f"tune(..., progress={setting!r}): give None, True, False or a function that takes the "
            "name of a kernel and a trial"
        )
    return Callback(setting)


class Silent:
    """A display that shows nothing."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def search(self, number: int, name: str, parts: int) -> None:
        pass

    def trial(self, name: str, trial: Trial) -> None:
        pass


class Callback(Silent):
    """A display that calls a function with the name of the kernel and each trial."""

    def __init__(self, function: Callable[[str, Trial], object]) -> None:
        self._function = function

    def trial(self, name: str, trial: Trial) -> None:
        self._function(name, trial)


class Bar(Silent):
    """A display of one line: the searches done, and the one that runs."""

    def __init__(
        self,
        searches: int,
        deadline: float | None,
        setting: Shown = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deadline, self._total, self._number = deadline, searches, 0
        self._name, self._trials, self._best = "", 0, float("inf")
        # a thread that redraws it would disturb the kernels being timed
        self._clock, self._line = clock, Line(self._text, setting, ticks=False, clock=clock)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.close(self._text(self._clock()))

    def search(self, number: int, name: str, parts: int) -> None:
        self._name = f"{name}, {parts} in a call" if parts > 1 else name
        self._trials, self._best, self._number = 0, float("inf"), number
        # a choice of forms may make more kernels
        self._total = max(self._total, number)
        self._line.draw()

    def trial(self, name: str, trial: Trial) -> None:
        self._trials += 1
        if trial.outcome == "ok" and trial.seconds is not None:
            self._best = min(self._best, trial.seconds)
        self._line.draw()

    def _text(self, now: float) -> str:
        parts = [f"search {self._number} of {self._total}", self._name, f"trial {self._trials}"]
        if self._best < float("inf"):
            parts.append(f"best {duration(self._best)}")
        if self._deadline is not None:
            parts.append(f"{span(max(0.0, self._deadline - now))} left for all")
        return ", ".join(parts)
