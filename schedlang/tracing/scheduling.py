"""The schedule of a traced function's kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from schedlang.autotune.at_once.scheduler import choose
from schedlang.compute.graph import variables
from schedlang.compute.tensor import Tensor
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

# no size is symbolic
NONE: Mapping[str, int] = MappingProxyType({})


def schedule_for(
    outputs: Sequence[Tensor], target: Target, compiler: str, sizes: Mapping[str, int] = NONE
) -> Schedule:
    """Return a schedule from the tuning database, for these sizes or near ones, or by the model."""
    names = {v.name for v in variables(outputs)}
    own = {name: size for name, size in sizes.items() if name in names}
    return choose(list(outputs), target, own, compiler=compiler).schedule
