"""Search for schedules: ``schedlang.autotune(C)``.

A *template* is a function that applies steps to a schedule and asks ``Knobs`` for each decision.
Decisions are data, so a candidate can be drawn, replayed, mutated and crossed with another
(``knobs.py``, ``search.py``). The tactics in ``tactics/`` make a template for any computation. The
life of a candidate:

1. ``search.py`` proposes decisions. The first proposal is the schedule of ``sl.autoschedule``.
2. ``space.py`` turns them into a schedule, a verified nest and an estimate (``costs/``), or rejects
   them by its ``rules.py``. Every candidate is a draw of a space, also the plain schedule of
   ``sl.autoschedule`` and each of ``sl.next_steps``.
3. ``runner/measure.py`` builds, checks and times the kernel of a ``runner/task.py``, in a child
   process of this machine (``runner/local.py``) or on the workers of an executor
   (``runner/remote.py``).
4. ``database.py`` stores the trial as a line that ``records/`` writes and reads. ``best.py`` finds
   it again.

``tuner.py`` checks the arguments, ``run.py`` is the loop, and ``state.py`` holds what the search
knows. ``resume.py`` resumes from the database, and ``final_race.py`` measures the fastest
candidates again at the end. ``result.py`` holds the result, and ``report/`` shows it, during the
search and afterwards. ``model/`` makes the schedule that the cost model prefers, without measuring;
``at_once/`` is ``sl.autoschedule``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from schedlang.callable_module import CallableOnDemand, load_name, make_callable

if TYPE_CHECKING:
    from schedlang.autotune import best
    from schedlang.autotune.database import Database
    from schedlang.autotune.knobs import Knobs
    from schedlang.autotune.record import Trial
    from schedlang.autotune.result import TuningResult
    from schedlang.autotune.runner.task import Limits
    from schedlang.autotune.search import Evolve, Random
    from schedlang.autotune.tuner import autotune

# the modules of the names; a process that measures candidates needs few of the package's modules
_MODULES = {
    "Database": "database",
    "Evolve": "search",
    "Knobs": "knobs",
    "Limits": "runner.task",
    "Random": "search",
    "Trial": "record",
    "TuningResult": "result",
    "autotune": "tuner",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in ("__call_target__", "__signature__"):
            make_callable(__name__, __getattr__("autotune"))
            return globals()[name]
        if name not in _MODULES and any(m.name == name for m in iter_modules(__path__)):
            return import_module(f"{__name__}.{name}")
        return load_name(__name__, _MODULES, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


sys.modules[__name__].__class__ = CallableOnDemand

__all__ = [
    "Database",
    "Evolve",
    "Knobs",
    "Limits",
    "Random",
    "Trial",
    "TuningResult",
    "autotune",
    "best",
]
