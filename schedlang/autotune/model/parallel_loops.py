"""Parallel loops that cost more to start than they save."""

from __future__ import annotations

from collections import defaultdict

from schedlang.autotune.costs.estimate import (
    LAUNCH,
    costs,
    joined,
    launching,
    parallel_loop,
    slowest_share,
)
from schedlang.autotune.model.problems import JUMPS
from schedlang.autotune.tactics.facts import Problem
from schedlang.ir.nest import Nest
from schedlang.ir.specialize import at_sizes
from schedlang.lowering.lower import lower_state
from schedlang.schedule import trace
from schedlang.schedule.schedule import Schedule
from schedlang.target import Target

# threads must save so many times what their first start costs, about 60 microseconds: a machine
# that has other work starts one of them some milliseconds late
MARGIN = 32.0


def without_useless_threads(s: Schedule, problem: Problem) -> Schedule:
    """Return a schedule of ``problem``, on a CPU, without threads where one alone is as fast.

    The ``parallel`` steps of such loops are left out.
    """
    nest = lower_state(s.state)
    if nest.sizes:
        nest = at_sizes(nest, {v.name: n for v, n in problem.sizes.items()})
    useless = _useless(nest, problem.target, problem.threads)
    kept = [x for x in s.steps if x.primitive != "parallel" or x.stage not in useless]
    if len(kept) == len(s.steps):
        return s
    return Schedule.from_json(trace.to_json(kept), list(s.outputs))


def _useless(nest: Nest, target: Target, threads: int) -> set[str]:
    """Return the stages whose parallel loops save less than it takes to start the threads."""
    saved: dict[str, float] = defaultdict(float)
    starts: dict[str, dict[object, int]] = defaultdict(dict)
    for cost in costs(nest, target, jumps=JUMPS):
        outer = parallel_loop(cost.loops)
        if outer is None:
            continue
        loop, times = outer
        alone = joined(cost.compute, sum(cost.traffic))
        saved[loop.stage] += alone * (1 - slowest_share(loop, threads))
        starts[loop.stage][loop.axis] = times
    least = {
        stage: sum((MARGIN - 1) * LAUNCH + launching(n) for n in times.values())
        for stage, times in starts.items()
    }
    return {stage for stage, gain in saved.items() if gain <= least[stage]}


__all__ = ["without_useless_threads"]
