"""Turns on one machine: many processes may build at once, but only one times, and then none builds.

All tuning processes of a user on a machine take turns.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schedlang.runtime.locks import lock, unlock

# seconds to wait for a turn: a process that holds it longer is suspended (Ctrl-Z)
PATIENCE = 300.0


@contextmanager
def machine_lock(alone: bool) -> Iterator[None]:
    """Hold a turn: ``alone`` for timing, otherwise shared with others that build.

    On systems without file locks it has no effect: run only one tuning process at a time there.
    """
    # Windows has no user ids
    own = os.getuid() if hasattr(os, "getuid") else 0
    with file_lock(Path(tempfile.gettempdir()) / f"schedlang-turns-{own}", alone):
        yield


@contextmanager
def file_lock(path: Path, alone: bool) -> Iterator[None]:
    """Hold a lock file, exclusively if ``alone``; hold nothing if it cannot be opened."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:
        yield
        return
    try:
        if not lock(handle, alone, PATIENCE):
            _leave(path, handle)
        yield
    finally:
        # closing is not enough: a process forked since then has the handle too
        unlock(handle)
        os.close(handle)


def _leave(path: Path, handle: int) -> None:
    """Remove a lock file that a suspended process holds, so that the next turns use a new one."""
    # Windows cannot remove an open file, and another process may have replaced it already
    with suppress(OSError):
        if os.path.samestat(os.stat(path), os.fstat(handle)):
            path.unlink()
