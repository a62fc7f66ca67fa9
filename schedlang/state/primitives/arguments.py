"""Checks of a primitive's arguments: axes that are loops, integers, loops without annotations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.tensor import ScanOp, divide_whole
from schedlang.errors import subscript, text_of
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.state.primitives.refusal import refuse
from schedlang.state.relations import parts, sources
from schedlang.state.state import TE_PRAGMAS, Stage, State, participle

LARGEST = 2**62


def shown_thread(thread: object) -> str:
    """Return the text of a thread in a call of ``bind``: a thread axis is shown by its tag."""
    tag = getattr(thread, "tag", "") if isinstance(thread, Axis) else thread
    return text_of(thread) if isinstance(thread, Axis) and not tag else repr(tag)


def names(values: Iterable[object]) -> str:
    return ", ".join(text_of(v) for v in values)


def count(value: Any, what: str, least: int = 1, hint: str = "") -> int:
    """Return ``value`` as an integer of ``least`` or more."""
    if isinstance(value, Expr) and not isinstance(value, Const):
        refuse(f"{what} is {value}, which is known only at run time", "Give an integer.")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        why = f"{what} is {text_of(value)}, but must be an integer{divide_whole(value)}"
        refuse(why)
    number = int(value)
    if number < least:
        refuse(f"{what} is {number}, but must be {least} or more", hint)
    if number >= LARGEST:
        refuse(
            f"{what} is {text_of(number)}: offsets would overflow 64-bit integers",
            f"Use a smaller {what}.",
        )
    return number


def leaf_position(state: State, stage: Stage, axis: object) -> int:
    """Return the position of ``axis`` among the loops of ``stage``; refuse if it has none."""
    if isinstance(stage.op, ExternOp):
        refuse(
            f"{stage.name} has no loops: one call of {stage.op.function.name} computes it",
            f"Call {subscript(stage.name)}.compute_at(...) at a loop of its reader, which needs "
            "reads=, or write the loops into the function.",
        )
    if not isinstance(axis, Axis):
        hint = f"The loops of {stage.name}: {_loops(stage)}.{_axis_suggestion(stage, axis)}"
        refuse(f"{text_of(axis)} is not an axis", hint)
    for position, leaf in enumerate(stage.leaf):
        if leaf is axis:
            return position
    relation = stage.made_from(axis)
    if relation is not None:
        results, loops = parts(relation), _loops_made_from(stage, axis)
        use = f"Use {names(results)}, the ax{'i' if len(results) == 1 else 'e'}s that it returned."
        if set(loops) != set(results):
            use = f"Use the loops that later steps made of it: {names(loops)}."
        refuse(
            f"{axis.name} is no longer a loop: a split or fuse turned it into {names(results)}",
            f"{use} The loops of {stage.name}, {subscript(stage.name)}.leaf_axes: {_loops(stage)}.",
        )
    owner = next(
        (s for s in state.stages.values() if any(a is axis for a in (*s.leaf, *s.roots))), None
    )
    of_none = "belongs to no stage of this schedule"
    whose = f"belongs to stage {owner.name}" if owner is not None else of_none
    hint = f"The loops of {stage.name}: {_loops(stage)}."
    namesake = next((a for a in stage.leaf if a.name == axis.name), None)
    if namesake is not None:
        hint += f" The {axis.name} of {stage.name} is {_axis_expression(stage, namesake)}."
    elif owner is None:
        hint += f" They are {subscript(stage.name)}.leaf_axes."
    if owner is None:
        hint += (
            "\nrfactor, cache_write and cache_read make stages with new axes; axes of another "
            "schedule, or of a copy, are not axes of this one."
        )
    refuse(f"{axis.name} {whose}", hint)


def _loops_made_from(stage: Stage, axis: Axis) -> list[Axis]:
    """Return the loops of ``stage`` that ``axis`` was split and fused into, outermost first."""
    descendants = {axis}
    for relation in stage.relations:
        if descendants & set(sources(relation)):
            descendants |= set(parts(relation))
    return [leaf for leaf in stage.leaf if leaf in descendants]


def _axis_suggestion(stage: Stage, value: object) -> str:
    """Return a suggestion for an axis given by its name, or by its position among the loops."""
    for position, axis in enumerate(stage.leaf):
        if isinstance(value, str) and value == axis.name:
            return f" Write {_axis_expression(stage, axis)}."
        if type(value) is int and value in (position, position - len(stage.leaf)):
            return f" Write {_axis_expression(stage, axis)} instead of {value}."
    if isinstance(value, (tuple, list)):
        return f" Give one axis, not a {type(value).__name__} of them."
    return ""


def _axis_expression(stage: Stage, axis: Axis) -> str:
    """Return the expression that gets ``axis`` from its stage in a program."""
    for field, axes in (
        ("op.axis", stage.op.axis),
        ("op.reduce_axis", stage.op.reduce_axis),
        ("leaf_axes", stage.leaf),
    ):
        for position, own in enumerate(axes):
            if own is axis:
                return f"{subscript(stage.name)}.{field}[{position}]"
    return axis.name


def _loops(stage: Stage) -> str:
    return ", ".join(a.name for a in stage.leaf) or "none"


def update_axis(stage: Stage) -> str:
    """Return the expression for the first axis of a scan's update that may be scheduled, if any."""
    if isinstance(stage.op, ScanOp):
        for update in stage.op.update:
            if update.ndim > 1:
                return f": {subscript(update.name)}.op.axis[1]"
    return ""


def scan_of_part(state: State, stage: Stage) -> tuple[Stage, str] | None:
    """Return the scan whose ``"init"`` or ``"update"`` is ``stage``, and which of them it is."""
    for scan in (state.stages[name] for name in state.dependences.scans):
        if isinstance(scan.op, ScanOp):
            for role, tensors in (("init", scan.op.init), ("update", scan.op.update)):
                if any(t in tensors for t in stage.outputs):
                    return scan, role
    return None


def check_not_time(state: State, stage: Stage, axis: Axis) -> None:
    """Refuse the first axis of a scan's update, over which the scan itself loops."""
    if not stage.op.axis or axis is not stage.op.axis[0]:
        return
    part = scan_of_part(state, stage)
    if part is not None and part[1] == "update":
        others = ", ".join(a.name for a in stage.op.axis[1:]) or "it has none"
        refuse(
            f"{axis.name} is the time axis of scan {part[0].name}, which runs its steps "
            "one after another in a loop of its own",
            f"Schedule the other axes, {subscript(stage.name)}.op.axis[1:] ({others}).",
        )


def check_unannotated(state: State, stage: Stage, axis: Axis) -> None:
    """Refuse an axis that is annotated already, or that has no loop of its own."""
    check_not_time(state, stage, axis)
    kind = stage.kinds.get(axis)
    if kind is not None:
        refuse(
            f"{axis.name} is already {participle(kind)}",
            "Split and fuse a loop first, then annotate each resulting loop once.",
            state,
            axis,
        )


def check_removable(state: State, stage: Stage, axis: Axis, attached: bool = False) -> None:
    """Refuse an axis with annotations or attached stages, which would be lost with it.

    With ``attached`` the step keeps the stages attached.
    """
    check_unannotated(state, stage, axis)
    for other in () if attached else state.attached(stage):
        for loop, what in ((other.attach, "computed"), (other.store, "stored")):
            if getattr(loop, "axis", None) is axis:
                refuse(
                    f"stage {other.name} is {what} at {axis.name}, which this step removes",
                    f"Split and fuse first, then call {subscript(other.name)}.compute_at(...).",
                    state,
                    axis,
                )
    pragmas = [name for a, name, _ in stage.pragmas if a is axis]
    # te's pragmas that tune have no effect, which nothing can remove
    carried = [f"the pragma {name!r}" for name in pragmas if name not in TE_PRAGMAS]
    carried += [
        f"a prefetch of {p.tensor.name}"
        for p in stage.prefetches
        if any(loop is axis for loop in p.loops)
    ]
    if carried:
        refuse(
            f"{axis.name} has {carried[0]}, which this step would remove",
            "Split and fuse first, then annotate the new loops.",
            state,
            axis,
        )
