"""The template that schedules any computation with the tactics for a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.driver import schedule_stages
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.registries import registry_for
from schedlang.autotune.tactics.tactic import Registry
from schedlang.expr.nodes import Var
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


def template_for(
    target: Target, threads: int, sizes: Mapping[Var, int] | None = None,
    registry: Registry | None = None,
) -> Callable[[Schedule, Knobs], None]:  # fmt: skip
    """Return the template of the tactics for ``target``, on a CPU with ``threads`` cores.

    ``sizes`` are the values of symbolic sizes to tune for. ``registry`` replaces the tactics of
    :func:`~schedlang.autotune.tactics.registries.registry_for`.
    """
    tactics = registry_for(target) if registry is None else registry

    def template(s: Schedule, knobs: Knobs) -> None:
        schedule_stages(tactics, s, Problem(s.outputs, target, threads, sizes or {}), knobs)

    return template
