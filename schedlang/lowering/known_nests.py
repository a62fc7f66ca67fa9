"""Nests of stages at root that lowering has built for another schedule of the same computation.

Such a nest depends on its stage, on the stages computed inside of it, and on little else. Schedules
that differ in another stage have it in common, and what later passes make of it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from schedlang.compute.tensor import Tensor
from schedlang.lowering.drafts import Draft
from schedlang.lowering.nesting import Job, Scope
from schedlang.lowering.region import Pending
from schedlang.state.plan import Dim
from schedlang.state.state import At, Stage


@dataclass(frozen=True)
class KnownNest:
    """The drafts of a stage, the boxes that they read, and what they add to a job."""

    drafts: tuple[Draft, ...]
    pending: Pending
    unclipped: frozenset[Tensor]
    clipped: frozenset[Tensor]


def nest_key(job: Job, stage: Stage, dims: Sequence[Dim], scope: Scope) -> Hashable:
    """Return all that the nest of ``dims`` of a stage at root depends on.

    It is ``None`` for a stage that is computed or stored inside of others, and where a scan or a
    problem of the schedule makes it depend on more.
    """
    placement = job.placement
    if not scope.at_root or job.alias or placement.problems or placement.store:
        return None
    inside, waiting = [], [stage]
    while waiting:
        inside.append(one := waiting.pop())
        for axis in one.leaf:
            waiting += placement.at.get((one.name, axis), ())
    defined = job.state.defined
    attached = frozenset(
        t for t in job.given if t in defined and isinstance(placement.attach[defined[t]], At)
    )
    return (
        "nest", *inside, *dims, *(job.names[s.name] for s in inside),
        tuple(placement.inline.items()), job.given, attached, job.prefetched,
        frozenset(job.unclipped), frozenset(job.clipped), job.folds,
    )  # fmt: skip
