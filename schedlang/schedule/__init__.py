"""Schedules: stages and the primitives that change them; the package itself is callable.

This is the face of ``state/``, above lowering because its errors show loop nests. ``Schedule``
(``schedule.py``, with the steps that add a stage in ``dataflow.py``) and ``s[C]`` (``stage.py``,
with its methods in ``stage_methods/``) record steps. ``steps.py`` replays them, ``step_memo.py``
takes equal ones once, and ``trace.py`` writes them as JSON and as Python. ``refuse.py`` turns a
refusal into an error with the call (``call_text.py``) and the nest; ``misfits.py`` refuses calls
with missing or unknown arguments. ``attached_cuts.py`` checks what needs lowering, and
``order_warning.py`` what is only a warning. ``nest_diff.py`` and ``film_strip.py`` show steps in
notebooks.
"""

from importlib import import_module
from typing import Any

from schedlang.callable_module import make_callable
from schedlang.schedule import schedule as _module
from schedlang.schedule.schedule import Schedule

__all__ = ["Schedule"]


def __getattr__(name: str) -> Any:
    """Return a function of te's ``tvm.schedule``, which older programs call."""
    if name.startswith("AutoInline"):
        return getattr(import_module("schedlang.schedule.auto_inline"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


make_callable(__name__, _module.schedule)
