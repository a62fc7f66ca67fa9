"""Steps to try on a copy of a schedule, which may be refused.

What the tuner draws, the plain schedule of ``sl.autoschedule``, the candidates of ``sl.next_steps``
and the refusals are all tried in this way: the primitives themselves know what is legal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from schedlang.schedule.schedule import Schedule

# a function that takes a step, or a few that belong together
Take = Callable[[Schedule], object]


def taken(
    s: Schedule, take: Take, warned: Literal["error", "ignore", "default"],
    category: type[Warning] = Warning,
) -> Schedule:  # fmt: skip
    """Return a copy of ``s`` that has taken some steps; raise why one of them is refused.

    With ``"error"``, a step that gives a warning of ``category`` is refused, too: the warning is
    raised. ``"ignore"`` drops such warnings, and ``"default"`` leaves them alone.
    """
    copy = s.copy()
    if warned == "default":
        # all threads share the filters: they are left alone, too
        take(copy)
        return copy
    with warnings.catch_warnings():
        warnings.simplefilter(warned, category)
        take(copy)
    return copy


@dataclass(frozen=True)
class Steps:
    """Steps to try: the primitive they are named after, its stage, and what takes them.

    ``vectors`` is the same for steps that differ in the width of a vector alone, else ``None``.
    """

    primitive: str
    stage: str
    take: Take
    vectors: object = None


def step(primitive: str, stage: str, *arguments: Any, **options: Any) -> Steps:
    """Return one step: a primitive of a stage, with its arguments."""
    return Steps(primitive, stage, lambda s: getattr(s[stage], primitive)(*arguments, **options))


def of_schedule(primitive: str, stage: str, *arguments: Any) -> Steps:
    """Return one step that a schedule takes itself, as ``s.rfactor`` is."""
    return Steps(primitive, stage, lambda s: getattr(s, primitive)(*arguments))
