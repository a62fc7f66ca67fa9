"""Checks of stages inside thread loops against the threads in scope."""

from __future__ import annotations

from collections.abc import Container, Mapping

from schedlang.compute.tensor import Tensor
from schedlang.errors import explain, subscript
from schedlang.expr.nodes import Axis
from schedlang.ir.nodes import Block, Store, walk
from schedlang.ir.predicate_threads import unknown_threads
from schedlang.state.placement import Problem
from schedlang.state.plan import Plan, Threads, thread_tag
from schedlang.state.state import PRIVATE, At, Attach, Stage, State


def too_few_threads(stage: Stage, plan: Plan, threads: Threads) -> list[str]:
    """Return the refusals of axes that are longer than the thread loop in scope they use."""
    refusals = []
    for axis in stage.leaf:
        around = threads.find(stage.kinds.get(axis, ""))
        extent = plan.extents[axis]
        if around is not None and not plan.ranges.le(extent, around[1]):
            kind = stage.kinds[axis]
            refusals.append(
                explain(
                    f"bind({axis.name}, {kind!r}) on stage {stage.name}",
                    f"{axis.name} has {extent} iterations, but {stage.name} is computed inside a "
                    f"loop of {around[1]} {kind} thread{'s' * (str(around[1]) != '1')}",
                    f"Split {axis.name} and bind the loop of extent {around[1]}: the inner loop of "
                    f"factor={around[1]}, or the outer loop of nparts={around[1]}.",
                )
            )
    return refusals


def thread_variables(stage: Stage, plan: Plan, threads: Threads) -> set[Axis]:
    """Return the ``threadIdx`` variables of the stage's loops and of the enclosing ones."""
    bound = (a for a in stage.leaf if stage.kinds.get(a, "").startswith("threadIdx"))
    own = {var for a in bound if (var := plan.variables.get(a)) is not None}
    return own | {var for tag, var, _ in threads.known if tag.startswith("threadIdx")}


def no_thread(state: State, body: Block) -> list[Problem]:
    """Return a problem for each store predicate over a thread that its kernel does not have."""
    if all(s.predicate is None for s in state.stages.values()):
        return []
    problems = []
    for guard, axis in unknown_threads(body):
        stage = next(s.stage for s, _ in walk(guard) if isinstance(s, Store))
        why = explain(
            f"set_store_predicate({state.stages[stage].predicate}) on stage {stage}",
            f"no loop of its kernel is bound to {axis.tag}",
            f"Bind a loop of {stage}, or of another stage of the same kernel, to {axis.tag}, or "
            "leave out the predicate.",
        )
        problems.append(Problem(why, stage))
    return problems


def threads_fetch(
    state: State, attach: Mapping[str, Attach], given: Container[Tensor], tensor: Tensor
) -> bool:
    """Return whether threads read ``tensor`` from shared storage, directly or by local copies.

    Such storage is as large as the region read. Elements past the tensor's end are undefined, and
    results computed from them are never stored.
    """
    stage = state.of(tensor)
    if stage is None or tensor in given or not isinstance(attach[stage.name], At):
        return False
    if stage.scope == "shared":
        return True
    inputs = stage.op.input_tensors
    return (
        stage.scope in PRIVATE
        and bool(inputs)
        and all(threads_fetch(state, attach, given, t) for t in inputs)
    )


def wrong_threads(
    child: Stage, scope_name: str, threads: Threads, shared: Container[str]
) -> list[str]:
    """Return refusals of loops bound to threads in scope that need storage these do not share."""
    refusals = []
    for axis, kind in child.kinds.items():
        if not thread_tag(kind) or threads.find(kind) is None:
            continue
        asked = f"bind({axis.name}, {kind!r}) on stage {child.name}"
        if axis.is_reduce:
            why = (
                f"{child.name} is computed inside a loop bound to {kind}, so each thread would "
                "compute the whole reduction by itself, without the other threads"
            )
            hint = (
                f"Compute {child.name} at a loop outside {kind} and bind its own loops to {kind}, "
                f"or leave {axis.name} unbound."
            )
            refusals.append(explain(asked, why, hint))
        elif kind not in shared:
            why = (
                f"{child.name} is computed inside a loop bound to {kind}, and each {kind} has its "
                f"own {scope_name} storage, of which it would fill only a part"
            )
            hint = (
                f"Use storage that the threads share, {subscript(child.name)}"
                '.set_scope("shared"), or leave '
                f"{axis.name} unbound."
            )
            refusals.append(explain(asked, why, hint))
    return refusals
