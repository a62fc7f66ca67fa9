"""Search for schedules: ``schedlang.autotune(C)``."""

from __future__ import annotations

from schedlang.autotune import best
from schedlang.autotune.database import Database
from schedlang.autotune.knobs import Knobs
from schedlang.autotune.record import Trial
from schedlang.autotune.result import TuningResult
from schedlang.autotune.runner.task import Limits
from schedlang.autotune.search import Evolve, Random
from schedlang.autotune.tuner import autotune
from schedlang.callable_module import make_callable

make_callable(__name__, autotune)

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
