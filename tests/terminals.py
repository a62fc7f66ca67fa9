"""A terminal and a clock for tests of lines that say what takes long."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from schedlang.markup import progress

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    """A stream that says that it is a terminal, or that it is none."""

    def __init__(self, is_terminal: bool = True) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def screen(self) -> list[str]:
        """Return the lines that a person sees."""
        lines, column = [""], 0
        for part in self.getvalue().replace(CLEAR, "\0").splitlines(keepends=True):
            for character in part:
                if character == "\0":
                    lines[-1], column = "", 0
                elif character == "\r":
                    column = 0
                elif character == "\n":
                    lines.append("")
                    column = 0
                else:
                    lines[-1] = lines[-1][:column] + character + lines[-1][column + 1 :]
                    column += 1
        return lines if lines[-1] else lines[:-1]


def drawn(terminal: Terminal) -> list[str]:
    """Return the texts that a line had, one after the other."""
    parts = terminal.getvalue().split(CLEAR)
    return [part[:-1] for part in parts if part.endswith("\r")]


def use(patch: pytest.MonkeyPatch, stream: Any) -> None:
    """Let lines go to ``stream`` as standard error, which pytest sets itself in each test."""
    patch.setattr(progress, "sys", SimpleNamespace(stderr=stream, modules=sys.modules))


class Clock:
    """A clock that advances by a step per reading."""

    def __init__(self, step: float) -> None:
        self.now, self._step = 0.0, step

    def __call__(self) -> float:
        self.now += self._step
        return self.now
