"""Turns on one machine: many may build at once, one times, and then nobody builds.

Every tuning process of a user on a machine takes part, whoever started it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# seconds to wait for a turn: one who holds it longer is stopped (Ctrl-Z), and does nothing
PATIENCE = 300.0
# seconds between two looks, at first and at most
SOON, LATE = 0.001, 0.02


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
    """Hold a lock file, beside others or ``alone``.

    The system frees what a process holds that ends. Where it has no ``fcntl`` (Windows), or the
    file cannot be opened, nothing is held.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    except OSError:
        yield
        return
    try:
        _wait(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        # a process forked meanwhile has the handle too, and closing it here would free nothing
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _wait(handle: int, kind: int) -> None:
    import fcntl

    end, pause = time.monotonic() + PATIENCE, SOON
    while time.monotonic() < end:
        try:
            return fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(pause)
            pause = min(2 * pause, LATE)
        except OSError:
            return None
    return None


__all__ = ["turn"]
