"""A check that the order of attachments, which te programs choose freely, changes no nest."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from schedlang.errors import ScheduleError
from tests.fuzz.record import Mismatch

_CALL = re.compile(r"(s\[[^\]]+\])\.(compute_at|store_at|compute_inline|compute_root|store_root)\(")
_NEW_STAGES = re.compile(r"\.(cache_read|cache_write|rfactor)\(")


def reordered(rng: Random, text: str) -> str | None:
    """Return the schedule ``text`` with its attachments last and shuffled.

    Return ``None`` if fewer than two stages can move. A stage that is attached more than once
    keeps its place, and so do attachments before a step that makes new stages.
    """
    lines = text.splitlines()
    start = max((k + 1 for k, line in enumerate(lines) if _NEW_STAGES.search(line)), default=0)
    moved: dict[str, list[str]] = {}
    for k, line in enumerate(lines):
        call = _CALL.match(line)
        if call:
            stage, how = call.groups()
            known = moved.setdefault(stage, [])
            first, second = ("compute_at", "compute_inline"), ("store_at",)
            fits = how in (first, second, ())[min(len(known), 2)]
            known += [line] if fits and k >= start else [line, "stays"]
    moving = [calls for calls in moved.values() if "stays" not in calls]
    if len(moving) < 2:
        return None
    rng.shuffle(moving)
    last = [line for calls in moving for line in calls]
    return "\n".join([*(line for line in lines if line not in last), *last]) + "\n"


def check_attach_order(rng: Random, text: str, nest: str, space: dict[str, Any]) -> bool:
    """Return whether there was something to reorder.

    Raise :class:`Mismatch` if the reordered schedule gives another nest.
    """
    other = reordered(rng, text)
    if other is None:
        return False
    replayed = dict(space)
    try:
        exec(other, replayed)
    except ScheduleError as error:
        # the extents of a box are fixed only once its stage is attached, and at root are longer
        texts = ("known only at run time", "no longer be cut", "an uneven distance along")
        if any(text in str(error) for text in texts):
            return False
        raise
    if str(replayed["s"]) != nest:
        raise Mismatch(f"attached in another order:\n{other}\n{replayed['s']}\nis not\n{nest}")
    return True


__all__ = ["check_attach_order"]
