"""The problem that a schedule solves: a computation, a target, its threads, and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from schedlang.autotune.rules import BY_TACTICS, estimate_cost
from schedlang.autotune.space import Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.tactic import Registry
from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import operations, variables
from schedlang.compute.tensor import Tensor
from schedlang.diagnostics.sites import SYMBOLIC
from schedlang.errors import BuildError, explain
from schedlang.runtime.environment import threads
from schedlang.target import Target

# the factor on bytes that no prefetcher fetches: with this one, estimates of some 40 schedules of
# products and convolutions came closest to their times
JUMPS = 3.0


def problem_of(
    outputs: Sequence[Tensor], target: Target, sizes: Mapping[str, int], compiler: str = ""
) -> Problem:
    """Return the problem for this machine's threads, with numbers for all sizes.

    ``sizes`` has numbers by name. The cost model assumes ``SYMBOLIC`` for all others. ``compiler``
    is one of the target's, empty for the default one.
    """
    values = {v: sizes.get(v.name, SYMBOLIC) for v in variables(outputs) if v.is_size}
    workers = 1 if target.facts.binds_threads else threads()
    return Problem(tuple(outputs), target, workers, values, compiler=compiler)


def refuse_calls(outputs: Sequence[Tensor], target: Target, asked: str) -> None:
    """Raise :class:`~schedlang.errors.BuildError` for a stage that cannot run on ``target``.

    The functions of users run on CPUs.
    """
    for op in operations(outputs):
        if isinstance(op, ExternOp) and target.facts.binds_threads:
            raise BuildError(
                explain(
                    f"{asked} for target={target.kind!r}",
                    f"stage {op.name} is computed by {op.function.name}, which runs on the CPU",
                    'Schedule for target="cpu" or "c", or divide the computation there.',
                )
            )


def assumed_sizes(problem: Problem, sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes that nobody gave, with the numbers assumed for them, by name."""
    return {v.name: n for v, n in problem.sizes.items() if v.name not in sizes}


def space_of(problem: Problem, registry: Registry | None = None) -> Space:
    """Return the candidates that tactics make for a problem, as the cost model starts them.

    ``registry`` has the tactics, by default those for the target.
    """
    # the schedule will have no useless threads
    estimated = partial(estimate_cost, jumps=JUMPS, all_threads=False)
    rules = replace(BY_TACTICS, estimate=estimated)
    space = Space(problem, registry=registry, rules=rules)
    return replace(space, pick=space.moves.start)
