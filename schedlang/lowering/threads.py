"""Stages inside thread loops: what fits the threads that are around already."""

from __future__ import annotations

from collections.abc import Container, Mapping

from schedlang.compute.tensor import Tensor
from schedlang.errors import explain
from schedlang.expr.nodes import Axis
from schedlang.ir.nodes import Block, Store, walk
from schedlang.ir.threads import unknown_threads
from schedlang.lowering.placement import Problem
from schedlang.lowering.plan import Plan, Threads, thread_tag
from schedlang.stage.state import At, Attach, Stage, State


def too_few_threads(stage: Stage, plan: Plan, threads: Threads) -> list[str]:
    """Return the axes bound to threads that are around already, and are fewer than the axis is
    long."""
    found = []
    for axis in stage.leaf:
        around = threads.find(stage.kinds.get(axis, ""))
        extent = plan.extents[axis]
        if around is not None and not plan.ranges.le(extent, around[1]):
            kind = stage.kinds[axis]
            found.append(
                explain(
                    f"bind({axis.name}, {kind!r}) on stage {stage.name}",
                    f"it is {extent} long, and it is computed inside {around[1]} {kind}",
                    f"Split it, and bind the part that is {around[1]} long: the inner one of "
                    f"factor={around[1]}, or the outer one of nparts={around[1]}.",
                )
            )
    return found


def thread_variables(stage: Stage, plan: Plan, threads: Threads) -> set[Axis]:
    """Return the variables that tell the threads of a block apart: of the stage's loops, and around
    it."""
    bound = (a for a in stage.leaf if stage.kinds.get(a, "").startswith("threadIdx"))
    found = {var for a in bound if (var := plan.variables.get(a)) is not None}
    return found | {var for tag, var, _ in threads.known if tag.startswith("threadIdx")}


def no_thread(state: State, body: Block) -> list[Problem]:
    """Return the store predicates over a thread that their kernel does not have."""
    if all(s.predicate is None for s in state.stages.values()):
        return []
    found = []
    for guard, axis in unknown_threads(body):
        stage = next(s.stage for s, _ in walk(guard) if isinstance(s, Store))
        why = explain(
            f"set_store_predicate({state.stages[stage].predicate}) on stage {stage}",
            f"no loop of its kernel is bound to {axis.tag}",
            f"Bind a loop of {stage}, or of a stage that is computed in the same kernel, to "
            f"{axis.tag}, or leave the predicate out.",
        )
        found.append(Problem(why, stage))
    return found


def fetched(
    state: State, attach: Mapping[str, Attach], given: Container[Tensor], tensor: Tensor
) -> bool:
    """Return whether threads read ``tensor`` from shared storage, directly or by local copies.

    That is as large as what they read; elements past the tensor's end are not set, and what is
    made of them is not stored.
    """
    stage = state.of(tensor)
    if stage is None or tensor in given or not isinstance(attach[stage.name], At):
        return False
    if stage.scope == "shared":
        return True
    inputs = stage.op.input_tensors
    return (
        stage.scope == "local"
        and bool(inputs)
        and all(fetched(state, attach, given, t) for t in inputs)
    )


def wrong_threads(
    child: Stage, scope_name: str, threads: Threads, shared: Container[str]
) -> list[str]:
    """Return a loop spread over threads that are around already needs storage they share."""
    found = []
    for axis, kind in child.kinds.items():
        if not thread_tag(kind) or threads.find(kind) is None:
            continue
        asked = f"bind({axis.name}, {kind!r}) on stage {child.name}"
        if axis.is_reduce:
            why = (
                f"it is computed inside {kind}, so that each thread would add up all of it, and "
                "none can wait for the others' parts"
            )
            hint = (
                f"Compute {child.name} at a loop outside of {kind}, where its own loops are bound "
                f"to it, or leave {axis.name} unbound."
            )
            found.append(explain(asked, why, hint))
        elif kind not in shared:
            why = (
                f"it is computed inside {kind}, and each {kind} has {scope_name} storage of its "
                "own, of which it would fill one part"
            )
            hint = (
                f'Give it storage that they share, s[{child.name}].set_scope("shared"), or leave '
                f"{axis.name} unbound."
            )
            found.append(explain(asked, why, hint))
    return found
