"""Sizes of memory as text."""

from __future__ import annotations


def bytes_text(count: int | None) -> str:
    """Return a size in readable form: exact below 10 KiB, else in KiB or MiB.

    >>> bytes_text(256), bytes_text(4 << 20), bytes_text(None)
    ('256 B', '4.00 MiB', 'size known at run time')
    """
    if count is None:
        return "size known at run time"
    if count < 10 * 1024:
        return f"{count} B"
    if count < 1024 * 1024:
        return f"{count / 1024:.4g} KiB"
    return f"{count / 1024 / 1024:.2f} MiB"
