"""The progress of a search: one line, a call per trial, or nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, Union

from schedlang.autotune.record import Trial
from schedlang.errors import TuningError
from schedlang.markup.progress import Line, span
from schedlang.markup.progress import Setting as Shown
from schedlang.runtime.evaluate import duration, number

# the values of ``progress=``
Setting = Union[bool, Callable[[Trial], object], None]


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

    With ``None`` it is a line on a terminal or in a notebook, which is gone at the end. ``True``
    leaves the last one, and prints it also elsewhere. ``False`` shows nothing. A function is called
    with each trial. The deadline is one of ``time.monotonic``.

    >>> seen = []
    >>> with progress_for(seen.append, total=1) as progress:
    ...     progress.trial(Trial(0, "ok", ""))
    >>> seen[0].outcome
    'ok'
    """
    if setting is None or isinstance(setting, bool):
        return Bar(total, deadline, setting)
    if not callable(setting):
        raise TuningError(
            f"autotune(..., progress={setting!r}): give None, True, False or a function that takes "
            "a trial"
        )
    return Callback(setting)


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
    """A display of one line.

    It is redrawn as trials end. A thread that redraws it would disturb the kernels being timed.
    """

    def __init__(
        self,
        total: int | None,
        deadline: float | None = None,
        setting: Shown = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._tally = Tally(total, deadline, clock())
        self._line = Line(self._text, setting, ticks=False, clock=clock)

    def __enter__(self) -> Progress:
        self._tally.start = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._line.close(self._text(self._clock()))

    def trial(self, trial: Trial) -> None:
        self._tally.add(trial)
        self._line.draw()

    def raced(self, best: Trial) -> None:
        self._tally.best, self._tally.raced = best.seconds, best.raced
        self._line.draw()

    def note(self, text: str) -> None:
        self._line.note(text)

    def _text(self, now: float) -> str:
        # the untuned schedule is an extra trial if it is the best
        done, total = self._tally.done, self._tally.total
        count = f"{done} trials" if total is None else f"trial {done} of {max(total, done)}"
        return f"{count}, {self._tally.text(now)}"
