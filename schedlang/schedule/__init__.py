"""How to compute: stages and the primitives that change them. The package is callable."""

from schedlang.callable_module import make_callable
from schedlang.schedule.schedule import Schedule, schedule

__all__ = ["Schedule", "schedule"]

make_callable(__name__, schedule)
