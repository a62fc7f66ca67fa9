"""The steps that a new schedule starts with: none, or those that a context manager sets."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule

# returns the schedule that sl.schedule returns instead of the one without steps; None keeps it
Starter = Callable[["Schedule"], Optional["Schedule"]]
STARTER: ContextVar[Starter | None] = ContextVar("schedlang_starter", default=None)
