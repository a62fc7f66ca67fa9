"""The template that schedules any computation with the tactics of a registry."""

from __future__ import annotations

from collections.abc import Callable

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.driver import schedule_stages
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.tactic import Registry
from schedlang.schedule.schedule import Schedule


def template_for(problem: Problem, registry: Registry) -> Callable[[Schedule, Knobs], None]:
    """Return the template that solves ``problem`` with the tactics of ``registry``."""

    def template(s: Schedule, knobs: Knobs) -> None:
        schedule_stages(registry, s, problem, knobs)

    return template
