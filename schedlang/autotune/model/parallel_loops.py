"""Parallel loops that cost more to start than they save."""

from __future__ import annotations

from collections import defaultdict

from schedlang.autotune.costs.estimate import (
    LAUNCH,
    costs,
    launching,
    overlap,
    parallel_loop,
    slowest_share,
)
from schedlang.autotune.model.problems import JUMPS
from schedlang.autotune.tactics.facts import Problem
from schedlang.ir.extern_call import Extern
from schedlang.ir.nest import Nest
from schedlang.ir.specialize import at_sizes
from schedlang.ir.trimmed import running
from schedlang.lowering.lower import lower_state
from schedlang.schedule import trace
from schedlang.schedule.schedule import Schedule

# threads must save so many times what their first start costs, about 60 microseconds: a machine
# that has other work starts one of them some milliseconds late
# nobody has measured this value
MARGIN = 32.0
# so many times, if threads wait for work, as they do between the kernels of a network
# nobody has measured this value
TEAM_MARGIN = 2.0
# the operations and the bytes of a cycle of one core, at most
# nobody has measured these values
FLOPS, BYTES = 64, 16


def without_useless_threads(s: Schedule, problem: Problem) -> Schedule:
    """Return a schedule of ``problem``, on a CPU, without threads where one alone is as fast.

    The ``parallel`` steps of such loops are left out.
    """
    nest = lower_state(s.state)
    if nest.sizes:
        nest = at_sizes(nest, {v.name: n for v, n in problem.sizes.items()})
    useless = _useless(nest, problem) - _with_calls(nest)
    kept = [x for x in s.steps if x.primitive != "parallel" or x.stage not in useless]
    if len(kept) == len(s.steps):
        return s
    return Schedule.from_json(trace.to_json(kept), list(s.outputs))


def worth_threads(flops: int, moved: int) -> bool:
    """Return whether threads save enough time of a kernel with these operations and bytes.

    The rates are the highest of one core, which never waits: so this is the least that threads
    save.
    """
    return flops / FLOPS + moved / BYTES >= 2 * MARGIN * LAUNCH


def _with_calls(nest: Nest) -> set[str]:
    """Return the stages in whose parallel loops a user's function runs: nobody knows its time."""
    return {
        loop.stage
        for loop in nest.loops
        if loop.kind == "parallel"
        and any(isinstance(stmt, Extern) for stmt in running(loop.body))
    }


def _useless(nest: Nest, problem: Problem) -> set[str]:
    """Return the stages whose parallel loops save less than it takes to start the threads."""
    saved: dict[str, float] = defaultdict(float)
    starts: dict[str, dict[object, int]] = defaultdict(dict)
    for cost in costs(nest, problem.target, jumps=JUMPS, cold=problem.cold):
        outer = parallel_loop(cost.loops)
        if outer is None:
            continue
        loop, times = outer
        alone = overlap(cost.compute, sum(cost.traffic))
        saved[loop.stage] += alone * (1 - slowest_share(loop, problem.threads))
        starts[loop.stage][loop.axis] = times
    margin = TEAM_MARGIN if problem.team else MARGIN
    least = {
        stage: sum((margin - 1) * LAUNCH + launching(n) for n in times.values())
        for stage, times in starts.items()
    }
    return {stage for stage, gain in saved.items() if gain <= least[stage]}
