"""The steps that a new schedule starts with: none, or those of a context manager."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from schedlang.schedule.schedule import Schedule

# given a schedule without steps, the one that sl.schedule returns in its place; None keeps it
Starter = Callable[["Schedule"], Optional["Schedule"]]
STARTER: ContextVar[Starter | None] = ContextVar("schedlang_starter", default=None)
