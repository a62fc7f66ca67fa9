"""The conditions under which the tail of a split becomes a loop of its own."""

from __future__ import annotations

from schedlang.compute.tensor import ComputeOp
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import mod
from schedlang.index.simplify import to_lin
from schedlang.state.plan import Peel, Plan, Threads, make_plan, whole
from schedlang.state.relations import Relation, Split, parts, sources
from schedlang.state.state import TENSORIZE, Stage, participle


def broken_cut(stage: Stage) -> tuple[Split, str, str] | None:
    """Return a split of ``stage`` whose requested cut is impossible, the reason, and advice.

    The stage is assumed to be computed whole.
    """
    splits = [r for r in stage.relations if isinstance(r, Split) and r.tail == "cut"]
    if not splits or not isinstance(stage.op, ComputeOp):
        return None
    sizes = (*stage.op.outputs[0].shape, *(axis.extent for axis in stage.op.reduce_axis))
    if all(isinstance(size, int) for size in sizes) and all(is_cut(stage, s) for s in splits):
        return None
    plan = make_plan(stage, whole(stage.op.outputs[0].shape), Ranges(), Peel(), Threads())
    for split in splits:
        extent, inner = plan.extents[split.parent], plan.strides[split]
        if extent.const == 0 or mod(extent, inner, Ranges(plan.ranges.known)).const == 0:
            continue
        user = stage.made_from(split.outer)
        if user is not None:
            why = f"{split.outer.name} was turned into {' and '.join(axis_names(user))}"
            return split, why, plain_loop(split)
        illegal = illegal_cut(stage, split, stage.leaf)
        if illegal is not None:
            return split, illegal, plain_loop(split)
        unknown = unknown_count(split, extent, inner, plan)
        if unknown is not None:
            return split, unknown, _known_count(stage, split)
    return None


def plain_loop(split: Split) -> str:
    """Return advice that makes the cut of ``split`` possible."""
    return f"Keep {split.outer.name} a plain loop around {split.inner.name}, or use tail='guard'."


def _known_count(stage: Stage, split: Split) -> str:
    """Return how to make the number of whole parts of ``split`` known."""
    parent = split.parent
    own = any(parent is a for a in (*stage.op.axis, *stage.op.reduce_axis))
    may_be_negative = not Ranges().nonneg(to_lin(parent.extent))
    if own and may_be_negative and to_lin(parent.lo).const == 0:
        return f"Give {parent.name} the extent sl.max({parent.extent}, 0), or use tail='guard'."
    return "Use tail='guard'."


def is_cut(stage: Stage, split: Split) -> bool:
    """Return whether the loops of ``stage`` allow the cut of ``split``, if its extent is known."""
    return stage.made_from(split.outer) is None and illegal_cut(stage, split, stage.leaf) is None


def illegal_cut(stage: Stage, split: Split, leaf: tuple[Axis, ...]) -> str | None:
    """Return why the tail of ``split`` cannot be cut, or ``None``."""
    outer = split.outer
    kind = stage.kinds.get(outer, "")
    if kind not in ("", "parallel"):
        return f"{outer.name} is not a plain loop: it is {participle(kind)}"
    start = next(k for k, a in enumerate(leaf) if a is outer)
    inner = axes_inside(stage, split.inner)
    behind = set(leaf[start + 1 :])
    early = next((a for a in inner if a not in behind and a in stage.leaf), None)
    if early is not None:
        return f"{early.name} is not inside {outer.name}"
    plain = ("", "vectorize", "unroll", "parallel", TENSORIZE)
    threads = next((a for a in inner if stage.kinds.get(a, "") not in plain), None)
    if threads is not None:
        return f"{threads.name} is bound to {stage.kinds[threads]}"
    return None


def unknown_count(split: Split, extent: Lin, inner: Lin, plan: Plan) -> str | None:
    """Return why the sizes of a call do not determine the number of whole parts, or ``None``."""
    if inner.const is None:
        return (f"the extent of {split.inner.name}, {inner}, is known only at run time and may be "
                "0, so the number of whole parts is undefined")  # fmt: skip
    if not Ranges(plan.ranges.known).nonneg(extent):
        return (f"the extent of {split.parent.name}, {extent}, may be negative at run time, which "
                "leaves nothing to cut")  # fmt: skip
    return None


def axis_names(relation: Relation) -> list[str]:
    return [a.name for a in parts(relation)]


def axes_inside(stage: Stage, axis: Axis) -> list[Axis]:
    """Return the leaf axes that derive from ``axis``."""
    current = [axis]
    for relation in stage.relations:
        used = [a for a in current if any(a is s for s in sources(relation))]
        if used:
            current = [a for a in current if not any(a is s for s in sources(relation))]
            current += parts(relation)
    return current
