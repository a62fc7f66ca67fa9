"""Warnings that point at the user's line."""

from __future__ import annotations

import sys
import warnings

from schedlang.errors import DatabaseWarning


def warn(message: str, category: type[Warning] = DatabaseWarning) -> None:
    """Emit a warning at the first caller outside schedlang."""
    level, frame = 2, sys._getframe(1)
    inner = ("schedlang", "contextlib")
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in inner:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
