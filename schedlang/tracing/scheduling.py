"""The schedule of a traced function's kernel."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.autotune.at_once.scheduler import choose
from schedlang.compute.tensor import Tensor
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


def schedule_for(outputs: Sequence[Tensor], target: Target, compiler: str) -> Schedule:
    """Return a schedule from the tuning database, for this size or a near one, or by the model."""
    return choose(list(outputs), target, compiler=compiler).schedule
