"""Cutting of tails: a split becomes a main loop without a guard, then a loop over the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedlang.compute.tensor import ComputeOp
from schedlang.errors import explain
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import ZERO, Lin, to_expr
from schedlang.expr.nodes import Axis, Binary
from schedlang.expr.rules import floordiv, mod
from schedlang.expr.simplify import to_lin
from schedlang.lowering.plan import Guard, Peel, Plan, Threads, make_plan, thread_tag
from schedlang.lowering.region import whole
from schedlang.stage.relations import Relation, Split, parts, sources
from schedlang.stage.state import Stage, participle

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
    stage: Stage, plan: Plan, peel: Peel, leaf: tuple[Axis, ...], axis: Axis,
    children: Mapping[tuple[str, Axis], tuple[Stage, ...]],
) -> Cut | str | None:  # fmt: skip
    """Return the cut of the split whose outer loop is ``axis``, or ``None`` for no cut.

    Return a refusal as text if a requested cut is impossible. ``tail="auto"`` cuts if the guard
    would otherwise be inside vector lanes, around the vectorized or unrolled tile of a stage
    computed inside (one of ``children``), or among the unrolled updates of a reduction.
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
    why = _illegal(stage, split, leaf) or _unknown_count(split, extent, inner, plan)
    if split.tail == "cut" and why is not None:
        return _refused(split, stage, why)
    if split.tail == "auto":
        # threads that reduce together must share one loop over their elements
        shared = any(a.is_reduce and thread_tag(stage.kinds.get(a, "")) for a in stage.leaf)
        cheap = extent.const is not None and peel.copies < MOST_COPIES and not shared
        if why is not None or not cheap:
            return None
        gains = (
            "vectorize" in lanes
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
        left = peel.with_({axis: count + 1, split.inner: rest}, {}).from_(axis, count)
        return Cut(main.from_(axis, ZERO), left, None, tests)
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
    """Return the refusals of requested cuts whose outer axis is no longer a loop."""
    found = []
    for split in stage.relations:
        if not isinstance(split, Split) or split.tail != "cut":
            continue
        user = stage.made_from(split.outer)
        rest = mod(plan.extents[split.parent], plan.strides[split], Ranges(plan.ranges.known))
        if user is None or rest.const == 0:
            continue
        why = f"{split.outer.name} was turned into {' and '.join(_axis_names(user))}"
        found.append(_refused(split, stage, why))
    return found


def broken_cut(stage: Stage) -> tuple[Split, str, str] | None:
    """Return a split of ``stage`` whose requested cut is impossible, the reason, and advice.

    The stage is assumed to be computed whole.
    """
    splits = [r for r in stage.relations if isinstance(r, Split) and r.tail == "cut"]
    if not splits or not isinstance(stage.op, ComputeOp):
        return None
    plan = make_plan(stage, whole(stage.op.outputs[0].shape), Ranges(), Peel(), Threads())
    for split in splits:
        extent, inner = plan.extents[split.parent], plan.strides[split]
        if extent.const == 0 or mod(extent, inner, Ranges(plan.ranges.known)).const == 0:
            continue
        user = stage.made_from(split.outer)
        if user is not None:
            why = f"{split.outer.name} was turned into {' and '.join(_axis_names(user))}"
            return split, why, _plain_loop(split)
        illegal = _illegal(stage, split, stage.leaf)
        if illegal is not None:
            return split, illegal, _plain_loop(split)
        unknown = _unknown_count(split, extent, inner, plan)
        if unknown is not None:
            return split, unknown, _known_count(stage, split)
    return None


def _plain_loop(split: Split) -> str:
    return f"Keep {split.outer.name} a plain loop around {split.inner.name}, or use tail='guard'."


def _known_count(stage: Stage, split: Split) -> str:
    """Return how to make the number of whole parts of ``split`` known."""
    parent = split.parent
    own = any(parent is a for a in (*stage.op.axis, *stage.op.reduce_axis))
    may_be_negative = not Ranges().nonneg(to_lin(parent.extent))
    if own and may_be_negative and to_lin(parent.lo).const == 0:
        return f"Give {parent.name} the extent sl.max({parent.extent}, 0), or use tail='guard'."
    return "Use tail='guard'."


def _axis_names(relation: Relation) -> list[str]:
    return [a.name for a in parts(relation)]


def _unknown_count(split: Split, extent: Lin, inner: Lin, plan: Plan) -> str | None:
    """Return why the sizes of a call do not determine the number of whole parts, or ``None``."""
    if inner.const is None:
        return (f"the extent of {split.inner.name}, {inner}, is known only at run time and may be "
                "0, so the number of whole parts is undefined")  # fmt: skip
    if not Ranges(plan.ranges.known).nonneg(extent):
        return (f"the extent of {split.parent.name}, {extent}, may be negative at run time, which "
                "leaves nothing to cut")  # fmt: skip
    return None


def rest_of_cut(stage: Stage, peel: Peel, axis: Axis, kind: str) -> str:
    """Return advice on a cut that leaves the extent of ``axis`` unknown until the call."""
    made = (s for s in stage.relations if isinstance(s, Split) and s.inner in dict(peel.extents))
    split = next((s for s in made if axis in _inside(stage, s.inner)), None)
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
        _plain_loop(split),
    )


def _holds_tile(
    stage: Stage, leaf: tuple[Axis, ...], axis: Axis,
    children: Mapping[tuple[str, Axis], tuple[Stage, ...]],
) -> bool:  # fmt: skip
    """Return whether a stage computed inside loop ``axis`` is vectorized or unrolled."""
    start = next(k for k, a in enumerate(leaf) if a is axis)
    waiting = [c for a in leaf[start:] for c in children.get((stage.name, a), ())]
    while waiting:
        child = waiting.pop()
        if {"vectorize", "unroll"} & set(child.kinds.values()):
            return True
        waiting += [c for a in child.leaf for c in children.get((child.name, a), ())]
    return False


def _among_updates(stage: Stage, split: Split) -> bool:
    """Return whether the guard would be among the unrolled updates inside a reduction loop.

    Each step would evaluate it there, and the guarded sums could not stay in registers.
    """
    inner = set(_inside(stage, split.inner))
    if not any(stage.kinds.get(a) == "unroll" for a in inner):
        return False
    spots = [k for k, a in enumerate(stage.leaf) if a in inner]
    start = next((k for k, a in enumerate(stage.leaf) if a is split.outer), max(spots))
    return any(a.is_reduce for a in stage.leaf[start : max(spots) + 1])


def _inside(stage: Stage, axis: Axis) -> list[Axis]:
    """Return the leaf axes that derive from ``axis``."""
    current = [axis]
    for relation in stage.relations:
        used = [a for a in current if any(a is s for s in sources(relation))]
        if used:
            current = [a for a in current if not any(a is s for s in sources(relation))]
            current += parts(relation)
    return current


def _kinds_inside(stage: Stage, axis: Axis) -> set[str]:
    return {stage.kinds.get(a, "") for a in _inside(stage, axis)}


def _illegal(stage: Stage, split: Split, leaf: tuple[Axis, ...]) -> str | None:
    """Return why the tail of ``split`` cannot be cut, or ``None``."""
    outer = split.outer
    kind = stage.kinds.get(outer, "")
    if kind not in ("", "parallel"):
        return f"{outer.name} is not a plain loop: it is {participle(kind)}"
    start = next(k for k, a in enumerate(leaf) if a is outer)
    inner = _inside(stage, split.inner)
    behind = set(leaf[start + 1 :])
    early = next((a for a in inner if a not in behind and a in stage.leaf), None)
    if early is not None:
        return f"{early.name} is not inside {outer.name}"
    plain = ("", "vectorize", "unroll", "parallel")
    threads = next((a for a in inner if stage.kinds.get(a, "") not in plain), None)
    if threads is not None:
        return f"{threads.name} is bound to {stage.kinds[threads]}"
    return None
