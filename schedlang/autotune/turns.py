"""Turns on one machine: many may build at once, one times, and then nobody builds.

Every tuning process of a user on a machine takes part, whoever started it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(alone: bool) -> Iterator[None]:
    """Hold a turn: ``alone`` for timing, else beside others that build.

    The system frees the turn of a process that ends. Where it has no ``fcntl`` (Windows) nothing
    is held: run one tuning process at a time there.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    user = os.getuid()
    path = Path(tempfile.gettempdir()) / f"schedlang-turns-{user}"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)
