"""A plain schedule, for computations that the tactics cannot schedule."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import nan

from schedlang.autotune.costs.estimate import Estimate
from schedlang.autotune.knobs import Knobs, Rejected
from schedlang.autotune.rules import Rules
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.cpu.nest import LEAST_STEPS
from schedlang.autotune.tactics.facts import Dataflow, Problem, StageFacts
from schedlang.autotune.tactics.loops import in_blocks
from schedlang.autotune.tactics.scan_stages import scan_stages
from schedlang.errors import SchedlangError
from schedlang.schedule.schedule import Schedule, empty_schedule

# threads of a block
BLOCK = 128
# no estimate is asked
RULES = Rules((SchedlangError,), lambda lowered: Estimate(nan, nan))


def plain_schedule(problem: Problem) -> Schedule:
    """Return a schedule whose stages stay at root, each with its outer loops parallel.

    The last data axis of an elementwise stage is vectorized. For a GPU, all data axes are bound to
    blocks and threads. A stage for which these steps are not legal keeps its loops. No tactic and
    no estimate is asked: the schedule has to be there when one of them fails.
    """
    s = empty_schedule(list(problem.outputs))
    flow = Dataflow(problem, s.state)
    flow = replace(flow, scan_stages=scan_stages(flow))
    apply = _bind if problem.target.facts.binds_threads else _share_and_vectorize
    space = Space(problem, rules=RULES)
    for tensor in flow.stages:
        template = partial(apply, stage=flow.stage(tensor))
        with suppress(Rejected):
            s = replace(space, template=template, start=s).draw(None).schedule
    return s


def _share_and_vectorize(s: Schedule, knobs: Knobs, stage: StageFacts) -> None:
    axes, tensor = stage.data_axes, stage.tensor
    if not axes:
        return
    if not stage.is_reduction:
        inner = axes[-1]
        if stage.extents([inner])[0] > stage.width:
            over, inner = s[tensor].split(inner, factor=stage.width)
            axes[-1] = over
        if len(axes) > 1 or axes[0] is not inner:
            s[tensor].vectorize(inner)
    if stage.evaluations >= LEAST_STEPS and not stage.time_axes:
        s[tensor].parallel(axes[0])


def _bind(s: Schedule, knobs: Knobs, stage: StageFacts) -> None:
    in_blocks(s, stage.tensor, stage.data_axes, BLOCK)
