"""Cutting of tails: a split becomes a main loop without a guard, then a loop over the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedlang.errors import explain
from schedlang.expr.nodes import Axis, Binary
from schedlang.index.linear import ZERO, Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod
from schedlang.state.cuts import (
    axes_inside,
    axis_names,
    illegal_cut,
    plain_loop,
    unknown_count,
)
from schedlang.state.plan import Guard, Peel, Plan, thread_tag
from schedlang.state.relations import Split
from schedlang.state.state import TENSORIZE, Stage

MOST_COPIES = 4


@dataclass(frozen=True)
class Cut:
    """The loop ranges of the main part and of the tail.

    ``test`` is the guard of a tail that may be empty. If both parts share one loop, ``inside``
    holds the guards of the two parts.
    """

    main: Peel
    tail: Peel
    test: Guard | None
    inside: tuple[Guard, Guard] | None = None


def cut_at(
    stage: Stage,
    plan: Plan,
    peel: Peel,
    leaf: tuple[Axis, ...],
    axis: Axis,
    children: Mapping[tuple[str, Axis], tuple[Stage, ...]],
) -> Cut | str | None:
    """Return the cut of the split whose outer loop is ``axis``, or ``None`` for no cut.

    Return a refusal as text if a requested cut is impossible. ``tail="auto"`` cuts if the guard
    would otherwise be inside vector lanes, around the vectorized or unrolled tile of a stage
    computed inside (one of ``children``), among the unrolled updates of a reduction, or in the
    steps of a scan. A symbolic extent is cut for the first reason alone.
    """
    split = stage.split_of(axis)
    if split is None or split.outer is not axis or split.tail == "guard":
        return None
    chosen = dict(peel.extents)
    if axis in chosen or axis in dict(peel.fixed):
        return None
    extent, inner = plan.extents[split.parent], plan.strides[split]
    if extent.const == 0:
        return None
    ranges = Ranges(plan.ranges.known)
    rest = mod(extent, inner, ranges)
    if rest.const == 0:
        return None
    lanes = _kinds_inside(stage, split.inner)
    why = illegal_cut(stage, split, leaf) or unknown_count(split, extent, inner, plan)
    if split.tail == "cut" and why is not None:
        return _refused(split, stage, why)
    if split.tail == "auto":
        # threads that reduce together must share one loop over their elements
        shared = any(a.is_reduce and thread_tag(stage.kinds.get(a, "")) for a in stage.leaf)
        cheap = peel.copies < MOST_COPIES and not shared
        # a rest of unknown length has a form for lanes alone: masked ones
        fits = extent.const is not None or (lanes <= {"vectorize", ""} and "vectorize" in lanes)
        if why is not None or not cheap or not fits:
            return None
        gains = (
            stage.is_scan
            or not lanes.isdisjoint(("vectorize", TENSORIZE))
            or _among_updates(stage, split)
            or _holds_tile(stage, leaf, axis, children)
        )
        if not gains:
            return None
    count = floordiv(extent, inner, ranges)
    if count.const == 0:
        return None
    main = peel.with_({axis: count}, {})
    var = plan.variables.get(axis)
    if stage.kinds.get(axis) == "parallel" and rest.const is not None and var is not None:
        # the tail is one more iteration of the parallel loop
        at, note = Lin.of(var), f"rest of {split.parent.name} split by {inner}"
        tests = (
            Guard(Binary("<", var, to_expr(count), "bool"), at - count + 1, "", frozenset()),
            Guard(Binary("==", var, to_expr(count), "bool"), count - at, note, frozenset()),
        )
        left = peel.with_({axis: count + 1, split.inner: rest}, {}).from_(axis, var, count)
        return Cut(main.from_(axis, var, ZERO), left, None, tests)
    # a symbolic remainder has no fixed number of lanes: its guard masks them
    keep = rest.const is None and "vectorize" in lanes
    tail = peel.with_({} if keep else {split.inner: rest}, {axis: count})
    place = next(k for k, a in enumerate(leaf) if a is axis)
    if rest.const is not None or (not keep and leaf[place + 1] is split.inner):
        # a loop with zero iterations needs no guard
        return Cut(main, tail, None)
    start = count * inner
    nonempty = Binary("<", to_expr(start), to_expr(extent), "bool")
    note = f"rest of {split.parent.name} split by {inner}"
    return Cut(main, tail, Guard(nonempty, start - extent + 1, note, frozenset()))


def lost_cuts(stage: Stage, plan: Plan) -> list[str]:
    """Return the refusals of cuts that were asked for, but whose outer axis is not a loop any more.
    """
    refusals = []
    for split in stage.relations:
        if not isinstance(split, Split) or split.tail != "cut":
            continue
        user = stage.made_from(split.outer)
        rest = mod(plan.extents[split.parent], plan.strides[split], Ranges(plan.ranges.known))
        if user is None or rest.const == 0:
            continue
        why = f"{split.outer.name} was turned into {' and '.join(axis_names(user))}"
        refusals.append(_refused(split, stage, why))
    return refusals


def rest_of_cut(stage: Stage, peel: Peel, axis: Axis, kind: str) -> str:
    """Return advice on a cut that leaves the extent of ``axis`` unknown until the call."""
    splits = (s for s in stage.relations if isinstance(s, Split) and s.inner in dict(peel.extents))
    split = next((s for s in splits if axis in axes_inside(stage, s.inner)), None)
    if split is None:
        return ""
    name = split.parent.name
    return (
        f"They are the tail of split({name}, ..., tail='cut'). Use tail='guard', or compute a tile "
        "of fixed size in a stage of its own:\n"
        f"T = s.cache_write({stage.name}, 'local') before the other steps, s[T].compute_at a "
        f"loop outside {split.inner.name}, then {kind} the loop of T."
    )


def _refused(split: Split, stage: Stage, why: str) -> str:
    return explain(
        f"split({split.parent.name}, ..., tail='cut') on stage {stage.name}",
        why,
        plain_loop(split),
    )


def _holds_tile(
    stage: Stage,
    leaf: tuple[Axis, ...],
    axis: Axis,
    children: Mapping[tuple[str, Axis], tuple[Stage, ...]],
) -> bool:
    """Return whether a stage computed inside loop ``axis`` is vectorized, unrolled, or a scan."""
    start = next(k for k, a in enumerate(leaf) if a is axis)
    waiting = [c for a in leaf[start:] for c in children.get((stage.name, a), ())]
    while waiting:
        child = waiting.pop()
        if child.is_scan or {"vectorize", "unroll", TENSORIZE} & set(child.kinds.values()):
            return True
        waiting += [c for a in child.leaf for c in children.get((child.name, a), ())]
    return False


def _among_updates(stage: Stage, split: Split) -> bool:
    """Return whether the guard would be among the unrolled updates inside a reduction loop.

    Each step would evaluate it there, and the guarded sums could not stay in registers.
    """
    inner = set(axes_inside(stage, split.inner))
    if not any(stage.kinds.get(a) == "unroll" for a in inner):
        return False
    positions = [k for k, a in enumerate(stage.leaf) if a in inner]
    start = next((k for k, a in enumerate(stage.leaf) if a is split.outer), max(positions))
    return any(a.is_reduce for a in stage.leaf[start : max(positions) + 1])


def _kinds_inside(stage: Stage, axis: Axis) -> set[str]:
    return {stage.kinds.get(a, "") for a in axes_inside(stage, axis)}
