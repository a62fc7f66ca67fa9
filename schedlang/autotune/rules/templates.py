"""The template that applies the rules for a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.rules.cpu import schedule_cpu
from schedlang.autotune.rules.cuda import schedule_cuda
from schedlang.expr.nodes import Var
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target


def template_for(
    target: Target, threads: int, sizes: Mapping[Var, int] | None = None
) -> Callable[[Schedule, Knobs], None]:
    """Return the template of the rules for ``target``, on a CPU with ``threads`` cores.

    ``sizes`` are the values of symbolic sizes to tune for.
    """

    def rules(s: Schedule, knobs: Knobs) -> None:
        if target.is_gpu:
            schedule_cuda(s, knobs, target, sizes)
        else:
            schedule_cpu(s, knobs, target, threads, sizes)

    return rules
