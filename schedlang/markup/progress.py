"""Work that takes long says so: one line on a terminal or in a notebook, gone when it is done.

:func:`working` opens the line of a piece of work, and :func:`tell` says in any function below it
what is being done, and :func:`note` what stays; all cost next to nothing where nobody looks. A line
appears when its work has taken two seconds. Work inside of other work has no line of its own.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from time import monotonic
from typing import Any, Optional, Protocol, TextIO
from unicodedata import east_asian_width

from schedlang.errors import BuildError, explain
from schedlang.markup.text import printable

# the values of ``progress=``: False shows nothing; True shows the line from the start, leaves the
# last one, and prints that also where there is neither a terminal nor a notebook
Setting = Optional[bool]
# the seconds without a line, the least between two drawings, and those between two by a thread
QUIET, PAUSE, TICK = 2.0, 0.1, 0.5
# the output of a notebook's cell whose line is gone: a notebook can clear all outputs, but not one
GONE = {"text/plain": ""}


def span(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours.

    >>> span(0.25), span(42.4), span(61), span(7322)
    ('0.2 s', '42 s', '1 min 1 s', '2 h 2 min')
    """
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _cut(text: str, width: int) -> str:
    """Return the part of a text that fits into some columns of a terminal."""
    used = 0
    for k, character in enumerate(text):
        used += 2 if east_asian_width(character) in "WF" else 1
        if used > width:
            return text[:k]
    return text


class Display(Protocol):
    """A place where one line of text is shown."""

    def show(self, text: str) -> None:
        """Show a text in place of the last one."""

    def note(self, text: str) -> None:
        """Show a text that stays, above the line."""

    def end(self, last: str) -> None:
        """Remove the line, or leave ``last``."""


class Terminal:
    """The line of a terminal on which the cursor is; it stays at its start, where others print."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, text: str) -> None:
        self._write(f"\r\x1b[K{_cut(printable(text), self._width() - 1)}\r")

    def note(self, text: str) -> None:
        self._write(f"\r\x1b[K{printable(text)}\n")

    def end(self, last: str) -> None:
        self._write("\r\x1b[K")
        if last:
            self._write(f"{_cut(printable(last), self._width() - 1)}\n")

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def _write(self, text: str) -> None:
        # a terminal that was closed does not end the work
        with suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class Notebook:
    """An output of a cell that is updated, and empty at the end: :data:`GONE`."""

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display, self._handle = display, None

    def show(self, text: str) -> None:
        data = {"text/plain": printable(text)}
        if self._handle is None:
            self._handle = self._display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)

    def note(self, text: str) -> None:
        self._display({"text/plain": printable(text)}, raw=True)

    def end(self, last: str) -> None:
        if self._handle is not None:
            self.show(last)


class Log:
    """A stream other than a terminal: it gets only the lines that stay."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, text: str) -> None:
        pass

    def note(self, text: str) -> None:
        with suppress(OSError, ValueError):
            print(printable(text), file=self._stream)

    def end(self, last: str) -> None:
        if last:
            self.note(last)


def display_for(setting: Setting) -> Display | None:
    """Return where a line is shown by the value of ``progress=``, ``None`` for nowhere."""
    parent = getattr(sys.modules.get("multiprocessing"), "parent_process", lambda: None)()
    if setting is False or (setting is None and parent is not None):
        # the processes of a pool share the terminal with the one that waits for them
        return None
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        from IPython.display import display

        return Notebook(display)
    stream = sys.stderr
    try:
        if stream.isatty() and os.environ.get("TERM") != "dumb":
            return Terminal(stream)
    except (AttributeError, ValueError):
        # no standard error (pythonw), or a closed one
        return None
    return Log(stream) if setting else None


def check_setting(asked: str, progress: Any) -> None:
    """Raise :class:`~schedlang.errors.BuildError` for a value that ``progress`` does not have."""
    if progress is not None and not isinstance(progress, bool):
        raise BuildError(
            explain(
                f"{asked}(..., progress={progress!r})",
                "progress= says whether a line tells what takes more than two seconds",
                "Give None (on a terminal and in a notebook), True (also elsewhere, at the end) or "
                "False (never).",
            )
        )


class Line:
    """The line of one piece of work, whose present ``text`` it asks for when it draws.

    It is drawn by :meth:`draw` at most, and, if it ``ticks``, by a thread. One line is shown at a
    time: the work that has drawn first has it.
    """

    def __init__(
        self,
        text: Callable[[float], str],
        setting: Setting = None,
        ticks: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._text, self._clock, self._keeps = text, clock, setting is True
        self._display = display_for(setting)
        self._due = clock() + (0.0 if self._keeps else QUIET)
        self._ended = threading.Event()
        if ticks and self._display is not None:
            # a process that ends, or has too many threads, starts none
            with suppress(RuntimeError):
                threading.Thread(target=self._tick, name="schedlang-progress", daemon=True).start()

    def _tick(self) -> None:
        wait = max(0.0, self._due - self._clock())
        while not self._ended.wait(wait):
            self.draw()
            wait = TICK

    def draw(self) -> None:
        """Show the present text, unless it is too early."""
        now = self._clock()
        if self._display is None or now < self._due:
            return
        with _SHOWN.lock:
            if not self._ended.is_set() and _SHOWN.line in (None, self):
                _SHOWN.line, self._due = self, now + PAUSE
                self._display.show(self._text(now))

    def note(self, text: str) -> None:
        """Show a text that stays."""
        if self._display is not None:
            with _SHOWN.lock:
                self._display.note(text)

    def close(self, last: str) -> None:
        """Remove the line, or leave ``last`` if that was asked for."""
        with _SHOWN.lock:
            self._ended.set()
            was_shown = _SHOWN.line is self
            if was_shown:
                _SHOWN.line = None
            if self._display is not None and (was_shown or self._keeps):
                self._display.end(last if self._keeps else "")


class _Shown:
    """The line that is shown in this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.line: Line | None = None


_SHOWN = _Shown()
if hasattr(os, "register_at_fork"):
    # a thread of the parent that held the lock does not exist in the child
    os.register_at_fork(after_in_child=_SHOWN.__init__)  # type: ignore[misc]


@dataclass(frozen=True)
class Phase:
    """A part of the work. ``text`` describes it, with ``{}`` for the number of things done.

    It began, and the latest of them was done, at these times.
    """

    text: str
    began: float
    done: int = 0
    total: int = 0
    told: float = 0.0

    def at(self, now: float) -> str:
        """Return the phase as text.

        >>> Phase("compiling", 10.0).at(14.0)
        'compiling, 4.0 s so far'
        >>> Phase("scheduling {} kernels", 10.0, 5, 20, 15.0).at(15.4)
        'scheduling 5 of 20 kernels, about 15 s left'
        """
        spent = now - self.began
        text = self.text.format(f"{self.done} of {self.total}")
        # the first few say little of the others, and nobody knows how long the last one takes
        known = self.done >= max(2, self.total // 10) and spent >= 1
        left = self._left(now) if known else 0.0
        return f"{text}, about {span(left)} left" if left >= 1 else f"{text}, {span(spent)} so far"

    def _left(self, now: float) -> float:
        """Return the seconds left if each thing takes as long as those before."""
        each, rest = (self.told - self.began) / self.done, self.total - self.done
        return max(each * rest - (now - self.told), each * (rest - 1))


class Work:
    """A piece of work and what is being done of it."""

    def __init__(self, name: str, clock: Callable[[], float] = monotonic) -> None:
        self._name, self._clock, self._began = name, clock, clock()
        self.phase: Phase | None = None
        self.line: Line | None = None

    def tell(self, text: str, done: int = 0, total: int = 0) -> None:
        """Say what is being done, as :class:`Phase` has it."""
        before, now = self.phase, self._clock()
        same = before is not None and before.text == text
        self.phase = Phase(text, before.began if same and before else now, done, total, now)

    def text(self, now: float) -> str:
        """Return the text of the line."""
        return self._name if self.phase is None else f"{self._name}: {self.phase.at(now)}"

    def summary(self) -> str:
        """Return the text that stays."""
        return f"{self._name}: {span(self._clock() - self._began)}"


_current: ContextVar[Work | None] = ContextVar("work", default=None)


def tell(text: str, done: int = 0, total: int = 0) -> None:
    """Say what is being done in the work around, if there is some."""
    work = _current.get()
    if work is not None:
        work.tell(text, done, total)


def note(text: str) -> None:
    """Show a text that stays where the line of the work around is, if there is one."""
    work = _current.get()
    if work is not None and work.line is not None:
        work.line.note(text)


@contextmanager
def working(name: str, progress: Setting = None) -> Iterator[None]:
    """Show on a line what :func:`tell` says inside, if it takes long.

    Inside of other work nothing is shown but what that says: inside of things that it counts this
    count, else what is said inside.

    >>> with working("network resnet", progress=False):
    ...     tell("scheduling {} kernels", 3, 53)
    """
    around = _current.get()
    if around is not None:
        before = around.phase
        work = Work(name) if before and before.total else around
        work.line = around.line
        token = _current.set(work)
        try:
            yield
        finally:
            _current.reset(token)
            around.phase = before
        return
    work = Work(name)
    line = work.line = Line(work.text, progress)
    token = _current.set(work)
    try:
        yield
    finally:
        _current.reset(token)
        line.close(work.summary())
