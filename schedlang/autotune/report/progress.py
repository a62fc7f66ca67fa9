"""The progress of a search: one line on a terminal, a call per trial, or nothing."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol, Union

from schedlang.autotune.record import Trial
from schedlang.autotune.report.facts import span
from schedlang.errors import TuningError, missing_extra
from schedlang.markup.text import printable
from schedlang.runtime.evaluate import duration, number

# the values of ``progress=``
Setting = Union[bool, Callable[[Trial], object], None]
# least seconds between two updates of the line: more flickers, and disturbs the timing
PAUSE = 0.1


class Progress(AbstractContextManager["Progress"], Protocol):
    """The display of a search: a context that is entered at its start and left at its end."""

    def trial(self, trial: Trial) -> None:
        """Show that one more trial has ended."""

    def raced(self, best: Trial) -> None:
        """Show the best trial after the race."""

    def note(self, text: str) -> None:
        """Show a message to the user."""


def progress_for(setting: Setting, total: int | None, deadline: float | None = None) -> Progress:
    """Return the display of a search of ``total`` trials that ends by ``deadline``.

    With ``None`` it is a bar if standard error is a terminal and rich is installed, else nothing.
    ``True`` requires rich, and prints one line at the end if there is no terminal. ``False`` shows
    nothing. A function is called with each trial. The deadline is one of ``time.monotonic``.

    >>> seen = []
    >>> with progress_for(seen.append, total=1) as progress:
    ...     progress.trial(Trial(0, "ok", ""))
    >>> seen[0].outcome
    'ok'
    """
    if setting is False:
        return Silent()
    if setting is None or setting is True:
        if setting is None and not _terminal():
            return Silent()
        try:
            return Bar(total, deadline)
        except ImportError:
            if setting is None:
                return Silent()
            raise missing_extra("rich", "tune", "progress=True") from None
    if not callable(setting):
        raise TuningError(
            f"autotune(..., progress={setting!r}): give None, True, False or a function that takes "
            "a trial"
        )
    return Callback(setting)


def _terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        # no standard error (pythonw), or a closed one
        return False


class Silent:
    """A display that shows nothing."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        pass

    def trial(self, trial: Trial) -> None:
        pass

    def raced(self, best: Trial) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Callback(Silent):
    """A display that calls a function with each trial."""

    def __init__(self, function: Callable[[Trial], object]) -> None:
        self._function = function

    def trial(self, trial: Trial) -> None:
        self._function(trial)


class Tally:
    """The counts and times that the progress line shows.

    >>> tally = Tally(total=10, deadline=None, start=0.0)
    >>> tally.add(Trial(0, "ok", "", seconds=0.002))
    >>> tally.add(Trial(1, "crashed", ""))
    >>> tally.text(now=4.0)
    'best 2 ms, 0.5 trials/s, 16 s left, 1 crashed'
    """

    def __init__(self, total: int | None, deadline: float | None, start: float) -> None:
        self.total, self.deadline, self.start = total, deadline, start
        self.done = self.measured = 0
        self.best: float | None = None
        self.raced = False
        self.failures: Counter[str] = Counter()

    def add(self, trial: Trial) -> None:
        self.done += 1
        # trials from the database took no time: they do not count for the rate
        self.measured += not trial.resumed
        if trial.outcome != "ok":
            self.failures[trial.outcome] += 1
        elif trial.seconds is not None and trial.seconds == trial.seconds:
            # the untuned schedule may be added after the race, as the best trial
            self.raced = self.raced and self.best is not None and self.best <= trial.seconds
            self.best = trial.seconds if self.best is None else min(self.best, trial.seconds)

    def rate(self, now: float) -> float | None:
        """Return the trials per second; ``None`` if none is measured yet."""
        spent = now - self.start
        return self.measured / spent if self.measured and spent > 0 else None

    def left(self, now: float) -> float | None:
        """Return the seconds to the last trial or the deadline, whichever is sooner."""
        rate, ends = self.rate(now), []
        if self.total is not None and rate is not None:
            ends.append((self.total - self.done) / rate)
        if self.deadline is not None:
            ends.append(self.deadline - now)
        return max(0.0, min(ends)) if ends else None

    def text(self, now: float) -> str:
        rate, left = self.rate(now), self.left(now)
        # the most important first: a narrow terminal cuts off the end
        again = " when measured again" if self.raced else ""
        parts = [f"best {duration(self.best)}{again}" if self.best is not None else "no time yet"]
        if rate is not None:
            parts.append(f"{number(rate, 2)} trials/s")
        if left is not None and (self.total is None or self.done < self.total):
            parts.append(f"{span(left)} left")
        parts += [f"{n} {outcome}" for outcome, n in self.failures.most_common()]
        return ", ".join(parts)


class Bar(Silent):
    """A display of one line on a terminal, by rich.

    It is redrawn as trials end. A thread that redraws it would disturb the kernels being timed.
    """

    def __init__(
        self, total: int | None, deadline: float | None = None, console: Any = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
        from rich.progress import Progress as Lines
        from rich.table import Column

        self._clock, self._drawn = clock, -PAUSE
        self._tally = Tally(total, deadline, clock())
        text = TextColumn(
            "{task.description}", markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        )  # fmt: skip
        shown = Console(stderr=True) if console is None else console
        # redirect other prints above the line only if both go to the same terminal
        both = console is None and sys.stdout is not None and sys.stdout.isatty()
        self._lines = Lines(
            BarColumn(bar_width=16), MofNCompleteColumn(), text, console=shown, expand=True,
            auto_refresh=False, redirect_stdout=both, redirect_stderr=console is None,
        )  # fmt: skip
        self._task = self._lines.add_task("", total=total)

    def __enter__(self) -> Progress:
        self._tally.start = self._clock()
        self._lines.start()
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            self._draw()
        finally:
            # shows the cursor again, also after Ctrl-C
            self._lines.stop()

    def trial(self, trial: Trial) -> None:
        self._tally.add(trial)
        if self._clock() - self._drawn >= PAUSE:
            self._draw()

    def raced(self, best: Trial) -> None:
        self._tally.best, self._tally.raced = best.seconds, best.raced
        self._draw()

    def note(self, text: str) -> None:
        from rich.text import Text

        self._lines.console.print(Text(printable(text)))
        self._draw()

    def _draw(self) -> None:
        self._drawn = self._clock()
        text = printable(self._tally.text(self._drawn))
        # the untuned schedule is an extra trial if it is the best
        done, total = self._tally.done, self._tally.total
        total = None if total is None else max(total, done)
        self._lines.update(self._task, completed=done, total=total, description=text)
        self._lines.refresh()
