"""What to say of a name that is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

OF_SCHEDULE = ("cache_read", "cache_write", "rfactor")


def no_attribute(name: str, known: Iterable[str]) -> str:
    """Why a stage has no attribute ``name``; ``known`` are those it has."""
    if name in OF_SCHEDULE:
        return f"{name} is a step of the schedule: s.{name}(...)"
    public = [n for n in known if not n.startswith("_")]
    return f"a stage has no {name!r}{nearest(name, public)}"


def nearest(name: str, known: list[str]) -> str:
    """The end of a message about ``name``: the one of ``known`` that may be meant."""
    close = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {close[0]!r}?" if close else ""
