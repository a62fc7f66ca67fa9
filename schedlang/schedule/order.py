"""Whether a schedule folds a reduction in the order of its axes.

A combiner that commutes but for ties gives the first of equal values only in that order.
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
    """Return the reduction loops of ``stage``, outer to inner, in the order of its elements.

    ``None`` where loops were fused out of that order.
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
    """Return whether the loops of ``stage`` fold its elements in their order, by one thread."""
    wanted = ordered_axes(stage)
    if wanted is None:
        return False
    loops, wanted = _several(stage.reduce_leaves), _several(wanted)
    bound = any(stage.kinds.get(a) in THREADS for a in loops)
    return not bound and len(loops) == len(wanted) and all(a is b for a, b in zip(loops, wanted))


def _several(axes: Any) -> list[Axis]:
    """Return the axes of more than one point."""
    return [a for a in axes if not (isinstance(a.extent, int) and a.extent <= 1)]


def depends_on_order(stage: Stage) -> bool:
    """Return whether ties make the result of ``stage`` depend on the order of its fold."""
    return isinstance(stage.op, ComputeOp) and bool(stage.op.reducer and stage.op.reducer.ties)


def lost_order(
    before: State, after: State, primitive: str, name: str, args: Mapping[str, Any]
) -> str:
    """Return why a step would change the order of a fold; empty if it keeps the order."""
    stage = before.stages.get(name)
    if stage is None or not depends_on_order(stage) or not in_order(stage):
        return ""
    if primitive == "rfactor":
        outer = next(iter(_several(ordered_axes(stage) or ())), args["axis"])
        if args["axis"] is outer or args["axis"].extent == 1:
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
    """Warn at the user's line where a step takes the order of a fold away."""
    message = lost_order(before, after, primitive, name, args)
    if message:
        warn_user(message, OrderWarning)
