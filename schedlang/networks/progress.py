"""The progress of the searches for a network: one line on a terminal, or a call per trial."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Union

from schedlang.autotune.record import Trial
from schedlang.autotune.report.facts import span
from schedlang.errors import TuningError, missing_extra
from schedlang.runtime.timing import duration

# the values of ``progress=``
Setting = Union[bool, Callable[[str, Trial], object], None]
# least seconds between two updates of the line: more flickers, and disturbs the timing
PAUSE = 0.1


class Progress(AbstractContextManager["Progress"], Protocol):
    """The display of several searches: a context around all of them."""

    def search(self, number: int, name: str, parts: int) -> None:
        """Show that the search of a kernel begins, which so many ``parts`` of a call run."""

    def trial(self, name: str, trial: Trial) -> None:
        """Show that a trial of that kernel has ended."""


def progress_for(setting: Setting, searches: int, deadline: float | None) -> Progress:
    """Return the display of ``searches`` searches that end by ``deadline``.

    The values of ``setting`` are those of :func:`schedlang.autotune`, but a function is called with
    the name of the kernel and the trial. The deadline is one of ``time.monotonic``.

    >>> seen = []
    >>> with progress_for(lambda name, trial: seen.append((name, trial.outcome)), 1, None) as shown:
    ...     shown.search(1, "conv1", 2)
    ...     shown.trial("conv1", Trial(0, "ok", ""))
    >>> seen
    [('conv1', 'ok')]
    """
    if setting is False:
        return Silent()
    if setting is None or setting is True:
        try:
            terminal = sys.stderr.isatty()
        except (AttributeError, ValueError):
            # no standard error (pythonw), or a closed one
            terminal = False
        if setting is None and not terminal:
            return Silent()
        try:
            return Bar(searches, deadline)
        except ImportError:
            if setting is None:
                return Silent()
            raise missing_extra("rich", "tune", "progress=True") from None
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
    """A display of one line on a terminal, by rich: the searches done, the one that runs."""

    def __init__(self, searches: int, deadline: float | None, console: Any = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Lines
        from rich.table import Column

        self._deadline, self._drawn, self._total = deadline, 0.0, searches
        self._text, self._trials, self._best = "", 0, float("inf")
        text = TextColumn(
            "{task.description}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        )
        self._lines = Lines(
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            text,
            console=Console(stderr=True) if console is None else console,
            expand=True,
            auto_refresh=False,
            redirect_stdout=False,
        )
        self._task = self._lines.add_task("", total=searches)

    def __enter__(self) -> Progress:
        self._lines.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # shows the cursor again, also after Ctrl-C
        self._lines.stop()

    def search(self, number: int, name: str, parts: int) -> None:
        self._text = f"{name}, {parts} in a call" if parts > 1 else name
        self._trials, self._best = 0, float("inf")
        # a choice of forms may make more kernels
        self._total = max(self._total, number)
        self._draw(completed=number - 1, total=self._total)

    def trial(self, name: str, trial: Trial) -> None:
        self._trials += 1
        if trial.outcome == "ok" and trial.seconds is not None:
            self._best = min(self._best, trial.seconds)
        if time.monotonic() - self._drawn >= PAUSE:
            self._draw()

    def _draw(self, **changed: Any) -> None:
        self._drawn = time.monotonic()
        parts = [self._text, f"trial {self._trials}"]
        if self._best < float("inf"):
            parts.append(f"best {duration(self._best)}")
        if self._deadline is not None:
            parts.append(f"{span(max(0.0, self._deadline - self._drawn))} left for all")
        self._lines.update(self._task, description=", ".join(parts), refresh=True, **changed)
