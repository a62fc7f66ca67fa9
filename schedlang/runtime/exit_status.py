"""How a process ended, in words."""

from __future__ import annotations

import signal

# what ends a process that did nothing wrong
FROM_OUTSIDE = (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM))


def ended(status: int) -> str:
    """Return how a process ended whose status is ``status``, as :mod:`subprocess` has it.

    >>> ended(-11), ended(1)
    ('ended by signal SIGSEGV', 'ended with status 1')
    """
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    lacks = ", which a system short of memory may send" if name == "SIGKILL" else ""
    return f"ended by signal {name}{lacks}"


def has_crashed(status: int) -> bool:
    """Return whether a signal ended a process for what it did itself."""
    return status < 0 and -status not in FROM_OUTSIDE
