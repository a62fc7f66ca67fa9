"""A candidate for the next step of a schedule."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from schedlang.schedule.schedule import Schedule

# a function that takes a step, or a few that belong together
Take = Callable[[Schedule], object]


@dataclass(frozen=True)
class Candidate:
    """A step to try: the primitive it is named after, its stage, and the function that takes it.

    ``vectors`` is the same for steps that differ in the width of a vector alone, else ``None``.
    """

    primitive: str
    stage: str
    take: Take
    vectors: object = None

    def taken(self, s: Schedule, warned: Literal["error", "ignore"]) -> Schedule:
        """Return a copy of ``s`` that has taken the step; raise why it is refused.

        A step that warns is refused, too, or its warnings are ignored.
        """
        copy = s.copy()
        with warnings.catch_warnings():
            warnings.simplefilter(warned)
            self.take(copy)
        return copy


def step(primitive: str, stage: str, *arguments: Any, **options: Any) -> Candidate:
    """Return the candidate of one step: a primitive of a stage, with its arguments."""
    return Candidate(
        primitive, stage, lambda s: getattr(s[stage], primitive)(*arguments, **options)
    )


def of_schedule(primitive: str, stage: str, *arguments: Any) -> Candidate:
    """Return the candidate of one step that a schedule takes itself, as ``s.rfactor`` is."""
    return Candidate(primitive, stage, lambda s: getattr(s, primitive)(*arguments))


# what each candidate does, for people who have not scheduled before
MEANINGS: Mapping[str, str] = {
    "vectorize": "compute several neighbouring elements with one instruction",
    "parallel": "run the iterations on several cores",
    "register tile": "keep the sums of several rows in registers, so that one load serves them all",
    "tile": "work on one block at a time, so that its data stay in the cache",
    "reorder": "make another loop the innermost one",
    "split": "cut a loop in two, so that its parts can be moved apart",
    "fuse": "make one loop of two",
    "unroll": "write the iterations of a short loop out, one after the other",
    "compute_at": "compute a part of the stage where it is needed, while it is in the cache",
    "compute_inline": "compute each value where it is used, and store none",
    "compute_root": "compute the whole stage first",
    "store_at": "slide a window over the rows, so that none is computed twice",
    "cache_read": "copy an operand first",
    "pack": "copy an operand in the order in which it is read",
    "cache_write": "compute into a buffer, and copy that",
    "rfactor": "add partial sums, in lanes of a vector or on cores of their own",
    "prefetch": "fetch what the next iteration reads",
    "storage_align": "lengthen rows, so that they do not compete for the same part of the cache",
}

__all__ = ["MEANINGS", "Candidate", "Take", "of_schedule", "step"]
