"""Advisory locks on open files, which the system releases when a process ends."""

from __future__ import annotations

import time
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

# Windows has none
fcntl = import_module("fcntl") if find_spec("fcntl") else None

# seconds between two attempts, at first and at most
FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02


def lock(descriptor: int, alone: bool, patience: float) -> bool:
    """Lock the file, exclusively if ``alone``, otherwise shared.

    Returns True without a lock where the system has none (Windows, some network disks). Returns
    False if another process holds the file for ``patience`` seconds: that process is likely to be
    suspended.
    """
    if fcntl is None:
        return True
    kind = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB
    end, pause = time.monotonic() + patience, FIRST_PAUSE
    while time.monotonic() < end:
        try:
            fcntl.flock(descriptor, kind)
            return True
        except BlockingIOError:
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        except OSError:
            return True
    return False


def unlock(descriptor: int) -> None:
    """Release the lock, also if a process forked since then has the descriptor too."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
