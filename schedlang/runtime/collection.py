"""A pause of the collection of garbage, in which Python looks for cycles of objects."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """The pauses of all threads.

    The first one stops the collection, and the end of the last one starts it again if it was on.
    """

    def __init__(self) -> None:
        self._lock, self._own = threading.Lock(), threading.local()
        self._count, self._was_on = 0, False

    def begin(self) -> None:
        with self._lock:
            if not self._count:
                self._was_on = gc.isenabled()
                gc.disable()
            self._count += 1
            self._own.count = self._of_thread() + 1

    def end(self) -> None:
        with self._lock:
            self._own.count = self._of_thread() - 1
            self._set(self._count - 1)

    def after_fork(self) -> None:
        """Forget the pauses of other threads, which a child process lacks."""
        self._lock = threading.Lock()
        if self._count:
            self._set(self._of_thread())

    def _of_thread(self) -> int:
        count: int = getattr(self._own, "count", 0)
        return count

    def _set(self, count: int) -> None:
        self._count = count
        if not count and self._was_on:
            gc.enable()


_pauses = _Pauses()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pauses.after_fork)


@contextmanager
def collection_at_the_end() -> Iterator[None]:
    """Collect no garbage inside of a ``with`` block, but at its end what is young.

    Nothing older is visited. A collection that starts by itself would not come between two blocks.
    """
    with no_collection():
        try:
            yield
        finally:
            gc.collect(0)


@contextmanager
def no_collection() -> Iterator[None]:
    """Collect no garbage inside of a ``with`` block, in no thread.

    >>> with no_collection():
    ...     print(gc.isenabled())
    False
    """
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
