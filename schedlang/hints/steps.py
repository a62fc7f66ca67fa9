"""Steps of a schedule that may be refused, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schedlang.schedule.schedule import Schedule

# a function that takes a step, or a few that belong together
Take = Callable[[Schedule], object]


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
