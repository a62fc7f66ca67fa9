"""Turns on one machine: many may build at once, one times, and then nobody builds.

Every tuning process of a user on a machine takes part, whoever started it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from schedlang.autotune.locks import lock, unlock

# seconds to wait for a turn: one who holds it longer is stopped (Ctrl-Z), and is waited for once
PATIENCE = 300.0


@contextmanager
def turn(alone: bool) -> Iterator[None]:
    """Hold a turn: ``alone`` for timing, else beside others that build.

    Where it cannot be held, run one tuning process at a time.
    """
    # Windows has no such number
    own = os.getuid() if hasattr(os, "getuid") else 0
    with held(Path(tempfile.gettempdir()) / f"schedlang-turns-{own}", alone):
        yield


@contextmanager
def held(path: Path, alone: bool) -> Iterator[None]:
    """Hold a lock file, beside others or ``alone``; nothing where it cannot be opened."""
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
        # a process forked meanwhile has the handle too, and closing it here would free nothing
        unlock(handle)
        os.close(handle)


def _leave(path: Path, handle: int) -> None:
    """Leave a lock file to one that is stopped: the next turns are of a new file."""
    # Windows removes no file that is open, and another one may have been here before
    with suppress(OSError):
        if os.path.samestat(os.stat(path), os.fstat(handle)):
            path.unlink()


__all__ = ["held", "turn"]
