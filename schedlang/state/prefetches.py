"""The checks that loops still read what they prefetch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.state.placement import ahead_of_init, inside
from schedlang.state.relations import position
from schedlang.state.state import At, Inline, Prefetch, Stage, State


def is_inside(stage: Stage, hint: Prefetch) -> bool:
    """Return whether the loop that prefetches is the loop of ``hint`` or is inside it."""
    return position(stage.leaf, hint.at) >= position(stage.leaf, hint.axis)


def concurrent_loop(stage: Stage, hint: Prefetch) -> Axis | None:
    """Return the loop whose iterations run at once, and so cannot share the lines of ``hint``.

    It is one of the loops between the loop of ``hint`` and the loop that prefetches, both included.
    """
    first, last = (position(stage.leaf, axis) for axis in (hint.axis, hint.at))
    between = stage.leaf[first + 1 : last + 1]
    return next((a for a in between if stage.kinds.get(a) in ("vectorize", "parallel")), None)


def fetches(state: State, stage: Stage, tensor: Tensor, axis: Axis) -> bool:
    """Return whether the loop over ``axis`` uses ``tensor`` from outside of the loop.

    The tensor is one that ``stage`` writes, or that it reads, or a stage computed inside the loop.
    """
    if any(t is tensor for t in stage.outputs):
        return True
    if axis in stage.scattered_leaves:
        # the loop only initializes a scatter
        return False
    attach = {name: other.attach for name, other in state.stages.items()}

    def is_within(loop: object) -> bool:
        """Return whether ``loop`` is the loop over ``axis``, or inside of it."""
        if not isinstance(loop, At):
            return False
        if loop.stage == stage.name:
            return position(stage.leaf, loop.axis) >= position(stage.leaf, axis)
        return inside(state, attach, loop.stage, stage.name, axis)

    producer = state.of(tensor)
    if producer is not None:
        loop = producer.attach if producer.store is None else producer.store
        if isinstance(loop, Inline) or is_within(loop):
            return False
    held = [other for other in state.stages.values() if is_within(other.attach)]
    return any(used is tensor for used in _inputs(state, stage, axis, held))


def _inputs(state: State, stage: Stage, axis: Axis, held: Iterable[Stage]) -> Iterator[Tensor]:
    """Yield the tensors that the loop over ``axis`` reads, also through inlined stages.

    ``held`` are the stages computed in the loop.
    """
    waiting = [*_own(stage, axis), *(t for s in held for t in s.op.input_tensors)]
    visited: set[Tensor] = set()
    while waiting:
        tensor = waiting.pop()
        if tensor in visited:
            continue
        visited.add(tensor)
        yield tensor
        producer = state.of(tensor)
        if producer is not None and isinstance(producer.attach, Inline):
            waiting += producer.op.input_tensors


def _own(stage: Stage, axis: Axis) -> Iterable[Tensor]:
    """Return the tensors that ``stage`` itself reads in the loop."""
    op = stage.op
    if not isinstance(op, ComputeOp) or ahead_of_init(stage, axis):
        return op.input_tensors
    roots: list[Expr] = [*op.updates, *([] if op.where is None else [op.where])]
    return [read.tensor for read in reads(roots)]
