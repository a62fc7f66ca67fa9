"""The part of a stage that its methods share: which stage it is, and how a step is recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from schedlang.state.state import Stage

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule


class Recording:
    """A stage of a schedule, by name. Each family of primitives is a class that derives from it."""

    def __init__(self, schedule: Schedule, name: str) -> None:
        self._schedule = schedule
        self.name = name

    @property
    def _stage(self) -> Stage:
        return self._schedule.state.stages[self.name]

    @property
    def _apply(self) -> Callable[..., Any]:
        """The method ``apply`` of the schedule for this stage, without a frame in tracebacks."""
        return partial(self._schedule.apply, stage=self.name)
