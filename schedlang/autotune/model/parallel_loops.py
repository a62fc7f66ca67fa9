"""Parallel loops that cost more to start than they save."""

from __future__ import annotations

from schedlang.autotune.costs.estimate import LAUNCH, costs, useless_threads
from schedlang.autotune.model.problems import JUMPS
from schedlang.autotune.tactics.facts import MARGIN, Problem
from schedlang.ir.specialize import at_sizes
from schedlang.lowering.lower import lower_state
from schedlang.schedule import trace
from schedlang.schedule.schedule import Schedule

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
    known = costs(nest, problem.target, jumps=JUMPS, cold=problem.cold)
    useless = useless_threads(nest, known, problem.threads, problem.margin)
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
