"""The progress of a search: one line on a terminal, or nothing."""

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
from schedlang.autotune.text import plain
from schedlang.errors import TuningError, missing_extra
from schedlang.runtime.evaluate import duration, number

# what ``progress=`` takes
Setting = Union[bool, Callable[[Trial], object], None]
# seconds between two drawings of the line: more is flicker, and time taken from what is timed
PAUSE = 0.1


class Progress(AbstractContextManager["Progress"], Protocol):
    """Told of each trial: entered when it starts, left however it ends."""

    def trial(self, trial: Trial) -> None:
        """Take note that one more trial has ended."""

    def raced(self, best: Trial) -> None:
        """Take note of the best trial after the fastest were measured again, in turns."""

    def note(self, text: str) -> None:
        """Show the user a sentence, such as what is being waited for."""


def progress_for(setting: Setting, total: int | None, deadline: float | None = None) -> Progress:
    """Return what shows a search of ``total`` trials that ends by ``deadline`` (of
    ``time.monotonic``).

    ``None`` is a bar where the standard error is a terminal and rich is installed, else nothing;
    ``True`` insists on rich, and off a terminal prints its one line at the end; ``False`` is
    nothing; a function is called with each trial.

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
    return Told(setting)


def _terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        # there is none (pythonw), or it is closed
        return False


class Silent:
    """Shows nothing."""

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


class Told(Silent):
    """Hands each trial to a function, and leaves the terminal to it."""

    def __init__(self, tell: Callable[[Trial], object]) -> None:
        self._tell = tell

    def trial(self, trial: Trial) -> None:
        self._tell(trial)


class Tally:
    """The numbers of the line, kept from trial to trial.

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
        # what a database had took no time, and says nothing of how long the rest takes
        self.measured += not trial.resumed
        if trial.outcome != "ok":
            self.failures[trial.outcome] += 1
        elif trial.seconds is not None and trial.seconds == trial.seconds:
            # the untuned schedule may come after the race, and is the best then
            self.raced = self.raced and self.best is not None and self.best <= trial.seconds
            self.best = trial.seconds if self.best is None else min(self.best, trial.seconds)

    def rate(self, now: float) -> float | None:
        """Return the trials a second; ``None`` if there is no measured trial yet."""
        spent = now - self.start
        return self.measured / spent if self.measured and spent > 0 else None

    def left(self, now: float) -> float | None:
        """Return seconds to the last trial or the deadline, whichever is sooner."""
        rate, ends = self.rate(now), []
        if self.total is not None and rate is not None:
            ends.append((self.total - self.done) / rate)
        if self.deadline is not None:
            ends.append(self.deadline - now)
        return max(0.0, min(ends)) if ends else None

    def text(self, now: float) -> str:
        rate, left = self.rate(now), self.left(now)
        # what matters most stands first: a narrow terminal cuts the end off
        again = " when measured again" if self.raced else ""
        parts = [f"best {duration(self.best)}{again}" if self.best is not None else "no time yet"]
        if rate is not None:
            parts.append(f"{number(rate, 2)} trials/s")
        if left is not None and (self.total is None or self.done < self.total):
            parts.append(f"{span(left)} left")
        parts += [f"{n} {outcome}" for outcome, n in self.failures.most_common()]
        return ", ".join(parts)


class Bar(Silent):
    """The line on a terminal, by rich.

    It is drawn when a trial ends, not by a thread: one that wakes ten times a second would run
    beside the kernels that are being timed.
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
        # prints of others go above the line only where both are the same terminal
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

        self._lines.console.print(Text(plain(text)))
        self._draw()

    def _draw(self) -> None:
        self._drawn = self._clock()
        said = plain(self._tally.text(self._drawn))
        # the untuned schedule is one trial more where it is the best
        done, total = self._tally.done, self._tally.total
        total = None if total is None else max(total, done)
        self._lines.update(self._task, completed=done, total=total, description=said)
        self._lines.refresh()


__all__ = ["Progress", "Setting", "progress_for"]
