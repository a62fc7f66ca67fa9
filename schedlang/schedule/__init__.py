"""Schedules: stages and the primitives that change them; the package itself is callable."""

from schedlang.callable_module import make_callable
from schedlang.schedule import schedule as _module
from schedlang.schedule.schedule import Schedule

__all__ = ["Schedule"]

make_callable(__name__, _module.schedule)
