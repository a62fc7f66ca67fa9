"""The order of reductions, and warnings where a step changes it.

Some combiners commute except for ties. They return the first of equal values only if the loops
combine the elements in the order of the reduction axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.compute.tensor import ComputeOp
from schedlang.errors import OrderWarning, explain, warn_user
from schedlang.expr.nodes import Axis
from schedlang.stage.relations import Fuse, Split
from schedlang.stage.state import THREADS, Stage, State


def ordered_axes(stage: Stage) -> list[Axis] | None:
    """Return the reduction loops of ``stage`` in the nesting that keeps the element order.

    Return ``None`` if loops were fused out of that order.
    """
    axes = list(stage.op.reduce_axis)
    for r in stage.relations:
        if isinstance(r, Split):
            at = _place(axes, r.parent)
            if at is not None:
                axes[at : at + 1] = [r.outer, r.inner]
        elif isinstance(r, Fuse):
            at, inner = _place(axes, r.outer), _place(axes, r.inner)
            if at is not None and inner is not None:
                if inner != at + 1:
                    return None
                axes[at : at + 2] = [r.fused]
    return axes


def _place(axes: list[Axis], axis: Axis) -> int | None:
    return next((k for k, a in enumerate(axes) if a is axis), None)


def in_order(stage: Stage) -> bool:
    """Return whether one thread combines the elements of ``stage`` in their order."""
    wanted = ordered_axes(stage)
    if wanted is None:
        return False
    loops, wanted = _nontrivial(stage.reduce_leaves), _nontrivial(wanted)
    bound = any(stage.kinds.get(a) in THREADS for a in loops)
    return not bound and len(loops) == len(wanted) and all(a is b for a, b in zip(loops, wanted))


def _nontrivial(axes: Any) -> list[Axis]:
    """Return the axes with more than one iteration."""
    return [a for a in axes if not (isinstance(a.extent, int) and a.extent <= 1)]


def depends_on_order(stage: Stage) -> bool:
    """Return whether ties make the result of ``stage`` depend on the order of combination."""
    return isinstance(stage.op, ComputeOp) and bool(stage.op.reducer and stage.op.reducer.ties)


def lost_order(
    before: State, after: State, primitive: str, name: str, args: Mapping[str, Any]
) -> str:
    """Return a warning if a step changes the order of a reduction, else an empty string."""
    stage = before.stages.get(name)
    if stage is None or not depends_on_order(stage) or not in_order(stage):
        return ""
    if primitive == "rfactor":
        axis = args["axis"]
        outer = next(iter(_nontrivial(ordered_axes(stage) or ())), axis)
        if axis is outer or not _nontrivial([axis]):
            return ""
        hint = f"rfactor over the outermost loop, {outer.name}, keeps the order."
    elif in_order(after.stages[name]):
        return ""
    else:
        hint = "Loops in the order of the elements, run by one thread, keep it."
    reducer = stage.op.reducer  # type: ignore[union-attr]
    assert reducer is not None
    return explain(
        f"{primitive} on stage {name}",
        f"it changes the order in which {reducer.name} combines values, and where values tie the "
        f"result depends on that order: {reducer.ties}",
        f"{hint}\nOr break ties in fcombine, e.g. by the smaller index, as sl.argmax does. If "
        "ties do not matter, say so: sl.comm_reducer(..., trusted=True).",
    )


def warn_of_lost_order(
    before: State, after: State, primitive: str, name: str, args: Mapping[str, Any]
) -> None:
    """Warn, at the user's line, if a step changes the order of a reduction."""
    message = lost_order(before, after, primitive, name, args)
    if message:
        warn_user(message, OrderWarning)
