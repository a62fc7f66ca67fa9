"""The functions of a file that numba has compiled so far, told to whoever waits."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from threading import get_ident
from typing import Any

from numba.core.event import Listener, install_listener

from schedlang.markup.progress import tell


class _Told(Listener):
    """A listener that tells how many of ``names`` this thread has compiled."""

    def __init__(self, names: Collection[str], text: str) -> None:
        self._left, self._total = set(names), len(names)
        self._text, self._thread = text, get_ident()
        tell(text, 0, self._total)

    def on_start(self, event: Any) -> None:
        """Do nothing."""

    def on_end(self, event: Any) -> None:
        name = event.data["dispatcher"].py_func.__name__
        if get_ident() == self._thread and name in self._left:
            self._left.remove(name)
            tell(self._text, self._total - len(self._left), self._total)


def counting(names: Collection[str], text: str) -> AbstractContextManager[Any]:
    """Tell how many of the functions ``names`` numba has compiled, in place of ``{}``."""
    return install_listener("numba:compile", _Told(names, text))
