"""Advisory locks on open files; the system frees those of a process that ends."""

from __future__ import annotations

import time
from contextlib import suppress

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None  # type: ignore[assignment]

# seconds between two looks, at first and at most
SOON, LATE = 0.0005, 0.02


def lock(descriptor: int, alone: bool, patience: float) -> bool:
    """Hold the file ``alone``, or beside others that do not.

    Nothing is held where no lock is to be had (Windows, some network disks). False where another
    one holds it for ``patience`` seconds: that is likely to be stopped.
    """
    if fcntl is None:
        return True
    kind = (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB
    end, pause = time.monotonic() + patience, SOON
    while time.monotonic() < end:
        try:
            fcntl.flock(descriptor, kind)
            return True
        except BlockingIOError:
            time.sleep(pause)
            pause = min(2 * pause, LATE)
        except OSError:
            return True
    return False


def unlock(descriptor: int) -> None:
    """Free it for others, also where a process forked meanwhile has the descriptor too."""
    if fcntl is not None:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)


__all__ = ["lock", "unlock"]
