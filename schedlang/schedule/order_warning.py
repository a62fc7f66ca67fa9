"""Warnings where a step changes the result of a reduction.

Some combiners commute except for ties. They return the first of equal values only if the loops
combine the elements in the order of the reduction axes. The identity may tie with a value too, or
be neutral only for some elements. Then the result depends on where partial results start from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.compute.tensor import ComputeOp
from schedlang.errors import OrderWarning, explain, warn_user
from schedlang.expr.lazy import conditions, is_choice
from schedlang.index.conditions import truth
from schedlang.index.linear import ZERO
from schedlang.index.ranges import Ranges
from schedlang.state.order import in_order, nontrivial, ordered_axes
from schedlang.state.state import THREADS, Stage, State

TRUSTED = "If ties do not matter, say so: sl.comm_reducer(..., trusted=True)."


def lost_order(
    before: State, after: State, primitive: str, name: str, args: Mapping[str, Any]
) -> str:
    """Return a warning if a step makes the result of a reduction another, else an empty string."""
    stage = before.stages.get(name)
    op = None if stage is None else stage.op
    if stage is None or not isinstance(op, ComputeOp) or op.reducer is None:
        return ""
    asked, reducer = f"{primitive} on stage {name}", op.reducer
    if reducer.ties and in_order(stage):
        hint = _order_hint(stage, after, primitive, name, args)
        if hint:
            why = (
                f"it changes the order in which {reducer.name} combines values, and where "
                f"values tie the result depends on that order: {reducer.ties}"
            )
            return explain(
                asked,
                why,
                f"{hint}\nOr break ties in fcombine, e.g. by the smaller index, as sl.argmax does. "
                f"{TRUSTED}",
            )
    if reducer.identity_ties and primitive == "rfactor" and _may_be_empty(before, after, op):
        why = (
            f"a partial result without elements is the identity of {reducer.name}, which "
            f"replaces a value that ties with it: {reducer.identity_ties}"
        )
        hint = "Let fcombine choose the first of its operands on ties, or an identity that "
        return explain(asked, why, f"{hint}no element ties with.\n{TRUSTED}")
    if reducer.restarts and op.init is not None and _restarts(stage, after, primitive, name):
        why = (
            f"partial results start from the identity of {reducer.name}, which is not neutral, "
            f"while a reduction without them starts from init=: {reducer.restarts}"
        )
        return explain(
            asked,
            why,
            "Give sl.comm_reducer an identity that leaves every element as it is.\nIf such "
            "elements do not occur, pass typical ones, samples=[...], or trusted=True.",
        )
    return ""


def _order_hint(
    stage: Stage, after: State, primitive: str, name: str, args: Mapping[str, Any]
) -> str:
    """Return advice for a step that changes the order, or an empty string if it keeps it."""
    if primitive == "rfactor":
        axis = args["axis"]
        outer = next(iter(nontrivial(ordered_axes(stage) or ())), axis)
        if axis is outer or not nontrivial([axis]):
            return ""
        return f"rfactor over the outermost loop, {outer.name}, keeps the order."
    if in_order(after.stages[name]):
        return ""
    return "Loops in the order of the elements, run by one thread, keep it."


def _restarts(stage: Stage, after: State, primitive: str, name: str) -> bool:
    """Return whether a step adds partial results, which start from the identity."""
    return primitive == "rfactor" or (not _across(stage) and _across(after.stages[name]))


def _across(stage: Stage) -> bool:
    """Return whether threads reduce together."""
    return any(stage.kinds.get(a) in THREADS for a in stage.reduce_leaves)


def _may_be_empty(before: State, after: State, op: ComputeOp) -> bool:
    """Return whether a partial result that rfactor added to ``after`` may have no elements."""
    partial = next(s.op for n, s in after.stages.items() if n not in before.stages)
    if op.where is not None or not isinstance(partial, ComputeOp):
        return True
    # the guards of splits: they hold in the first iteration of all loops, or they may never hold
    if partial.reducer is None:
        return any(is_choice(value) for value in partial.body)
    first = Ranges({axis: (ZERO, ZERO) for axis in partial.reduce_axis})
    return not all(truth(test, first) for test in conditions(partial.where))


def warn_of_lost_order(
    before: State, after: State, primitive: str, name: str, args: Mapping[str, Any]
) -> None:
    """Warn, at the user's line, if a step makes the result of a reduction another."""
    message = lost_order(before, after, primitive, name, args)
    if message:
        warn_user(message, OrderWarning)
