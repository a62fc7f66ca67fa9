"""A good schedule at once: ``schedlang.autoschedule(C)``."""

from __future__ import annotations

from schedlang.autotune.at_once.scheduler import Choice, autoschedule, choose
from schedlang.callable_module import make_callable

make_callable(__name__, autoschedule)

__all__ = ["Choice", "autoschedule", "choose"]
