"""A schedule by the cost model alone: the tuner's tactics, and a descent for each group of stages.

As Halide's autoschedulers (Mullapudi et al., SIGGRAPH 2016; Adams et al., "Learning to optimize
Halide with tree search and random programs", SIGGRAPH 2019), it measures nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from schedlang.autotune.knobs import Decision, Decisions, Rejected
from schedlang.autotune.model.descent import MOST_DRAWS, descend
from schedlang.autotune.model.groups import Group, groups
from schedlang.autotune.model.parallel_loops import without_useless_threads
from schedlang.autotune.model.problems import space_of
from schedlang.autotune.model.rename import rename_decisions
from schedlang.autotune.space import Candidate, Space
from schedlang.autotune.tactics.facts import Problem
from schedlang.autotune.tactics.tactic import Registry
from schedlang.compute.data import structure
from schedlang.compute.rename import Names, names_of
from schedlang.compute.work import flops
from schedlang.schedule.schedule import Schedule, empty_schedule

# the origin of the schedule of the cost model, among candidates
MODEL = "model"
# evaluations of one stage for a whole computation, and for one group of it
# nobody has measured these values
BUDGET, MOST = 48, 28
# the fewest evaluations of a group: its starting point and some changes
# nobody has measured this value
LEAST = 4
# from how many distinct groups on, each has fewer evaluations, and how many: 200 stages of a
# stencil, which are 40 groups, were measured to take 0.7 times as long by them
MANY, FEW = 16, 2


def by_model(problem: Problem, registry: Registry | None = None) -> tuple[Schedule | None, str]:
    """Return the schedule that the cost model prefers, and what there is to say about it.

    It is ``None``, with the reason, if the tactics make no schedule of the computation. The tactics
    are ``registry``, by default the one for the target.
    """
    s, _, note = _plan(space_of(problem, registry))
    return s, note


def _plan(space: Space) -> tuple[Schedule | None, Decisions, str]:
    """Return the results of :func:`by_model`, and the decisions that make the schedule, if any."""
    problem, space = space.problem, space.remembering()
    decided = _decisions(space, groups(problem))
    candidate = _whole(space, decided)
    if candidate is None:
        why = space.reasons.most_common(1)
        return None, {}, why[0][0] if why else "no tactic applies"
    if problem.target.facts.binds_threads:
        return candidate.schedule, candidate.decisions, ""
    s = without_useless_threads(candidate.schedule, problem)
    untouched = empty_schedule(list(problem.outputs))
    same = s is candidate.schedule
    seconds = candidate.estimate.seconds if same else space.seconds(s)
    if space.seconds(untouched) <= seconds:
        return untouched, {}, "no step lowers the estimate of the loops as they are"
    return s, candidate.decisions if same else {}, ""


def candidate_by_model(space: Space) -> Candidate | None:
    """Return the schedule of :func:`by_model` as a candidate of ``space``, if there is one."""
    s, decisions, _ = _plan(space_of(space.problem, space.registry))
    return None if s is None or not s.steps else space.of(s, decisions, MODEL)


def _decisions(whole: Space, parts: Sequence[Group]) -> dict[str, Decision]:
    """Return the decisions for all groups, each from a descent of its own.

    Groups that are equal but for names share one descent.
    """
    decided: dict[str, Decision] = {}
    known: dict[str, tuple[Names, Decisions]] = {}
    keys = [_key(group) for group in parts]
    evaluations = _evaluations(whole.problem, parts, keys)
    for group, key in zip(parts, keys):
        names = names_of(group.outputs)
        twin = known.get(key)
        own = None if twin is None else rename_decisions(twin[1], twin[0], names)
        if own is None:
            space = space_of(replace(whole.problem, outputs=group.outputs), whole.registry)
            if group.outputs == whole.problem.outputs:
                space.earlier = whole.earlier
            best = descend(space, evaluations[key])
            own = {} if best is None else best.decisions
            known.setdefault(key, (names, own))
        decided |= own
        for name in group.cut if len(parts) > 1 else ():
            decided |= {f"{name}.fuse": False, f"{name}.at": -1}
    return decided


def _evaluations(problem: Problem, parts: Sequence[Group], keys: Sequence[str]) -> dict[str, int]:
    """Return the evaluations of each distinct group, by its part of all operations.

    An evaluation of several stages counts once for every two.
    """
    distinct = dict(zip(keys, parts))
    count = Counter(keys)
    work = {key: count[key] * flops(g.outputs, problem.sizes) for key, g in distinct.items()}
    total = sum(work.values()) or 1
    least = LEAST if len(distinct) < MANY else FEW
    return {
        key: max(least, min(MOST, round(BUDGET * work[key] / total / max(1, len(g.heads) / 2))))
        for key, g in distinct.items()
    }


def _key(group: Group) -> str:
    """Return a text that is equal for groups that are equal but for names."""
    form = structure(group.outputs)
    return f"{form.key} {form.extents} {len(group.heads)}"


def _whole(space: Space, decided: dict[str, Decision]) -> Candidate | None:
    """Return the candidate for the whole computation that the decisions make.

    If it is rejected, decisions of all groups at once, or random ones, may not be.
    """
    given: tuple[dict[str, Decision], ...] = (decided, {})
    for decisions in given:
        try:
            return space.draw(None, decisions)
        except Rejected:
            continue
    for seed in range(MOST_DRAWS):
        try:
            return space.draw(Random(seed), decided)
        except Rejected:
            continue
    return None
