"""Checks of loops around and inside of scans: a scan's own, and loops of stages that read it."""

from __future__ import annotations

from typing import NoReturn

from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, ScanOp
from schedlang.errors import subscript
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import axes_in
from schedlang.state.cuts import axes_inside
from schedlang.state.primitives.arguments import names, update_axis
from schedlang.state.primitives.refusal import refuse
from schedlang.state.relations import Fuse, Split, position
from schedlang.state.state import TENSORIZE, At, Stage, State, participle


def check_loops_of_scan(state: State, stage: Stage, before: State, axis: Axis | None) -> None:
    """Refuse a step after which the loops of a scan are in no legal order.

    Its steps keep their order. A data axis inside of time is a loop of the stages of a step. So
    nothing is annotated or attached there, and its iterations compute a box.
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    inner, time = stage.in_step, [a for a in stage.leaf if a.kind == "scan"]
    in_order = axes_inside(stage, op.scan_axis)
    if time != in_order:
        refuse(
            f"{time[0].name} would be outside of {in_order[0].name}, and the steps of a scan run "
            "one after another",
            f"Keep the order {names(in_order)}.",
            before,
            axis,
        )
    for loop in inner:
        kind = stage.kinds.get(loop)
        if kind is not None:
            refuse(
                f"{loop.name} is {participle(kind)}, and would be inside of the time of "
                f"{stage.name}, whose update has the loop",
                f"Keep it outside of {stage.time.name}, or annotate the loop of the update"
                f"{update_axis(stage)}.",
                before,
                axis,
            )
        for other in state.attached(stage):
            if isinstance(other.attach, At) and other.attach.axis is loop:
                refuse(
                    f"{other.name} is computed at {loop.name}, which would be inside of the time "
                    f"of {stage.name}, whose update has the loop",
                    f"First attach {other.name} elsewhere, or call "
                    f"{subscript(other.name)}.compute_root().",
                    before,
                    axis,
                )
    for split in (r for r in stage.relations if isinstance(r, Split)):
        within = [a for a in axes_inside(stage, split.outer) if a in inner]
        around = [a for a in axes_inside(stage, split.inner) if a in stage.leaf and a not in inner]
        if within and around and split.outer.kind != "scan":
            refuse(
                f"{within[0].name} would be inside of the time of {stage.name} and "
                f"{around[0].name} outside, so that a step would compute elements that are not "
                "adjacent",
                f"Keep {around[0].name} inside too, or {within[0].name} outside.",
                before,
                axis,
            )
    for relation in (r for r in stage.relations if isinstance(r, Fuse)):
        parts = axes_inside(stage, relation.fused)
        inside = [a for a in parts if a in inner]
        if inside and len(inside) < len(parts):
            refuse(
                f"{inside[0].name} would be inside of the time of {stage.name}, and the elements "
                f"of this part of {names([relation.outer, relation.inner])} are not a box",
                "Split the data axes first, and fuse loops that are all outside of time.",
                before,
                axis,
            )


def refuse_time(stage: Stage, axis: Axis, what: str) -> NoReturn:
    """Refuse to run steps of a scan together, as ``"lanes"`` of a vector or as ``"iterations"``."""
    why = f"{axis.name} is the time axis of a scan, whose steps run one after another"
    update, data = update_axis(stage), [a for a in stage.roots if a.kind != "scan"]
    if not update:
        refuse(why, f"A step of {stage.name} computes one element, and has no loop for {what}.")
    hint = f"Use an axis of the scan's update instead{update}."
    if what == "lanes":
        hint = f"Lanes compute elements of one step: vectorize a loop of the update{update}."
        for root in data:
            if not any(a in stage.in_step for a in axes_inside(stage, root)):
                hint += (
                    f" All of {root.name} is outside of {stage.time.name} now; split it, and keep "
                    f"the inner loop inside of {stage.time.name}, for lanes along {root.name}."
                )
    elif data:
        hint += f" Loops over {names(data)} of {stage.name} may be reordered outside of it."
    refuse(why, hint)


def check_around_time(state: State, stage: Stage, axis: Axis, kind: str) -> None:
    """Refuse to annotate a data axis of a scan inside of time, or with the lanes of a step."""
    own = f"annotate the loop of the update{update_axis(stage)}"
    lanes = kind in ("vectorize", TENSORIZE)
    if axis in stage.in_step:
        outside = f"First reorder {axis.name} outside of {stage.time.name}, or {own}."
        refuse(
            f"{axis.name} is inside of the time of {stage.name}, whose update has the loop",
            f"{own[0].upper()}{own[1:]}." if lanes else outside,
            state,
            axis,
        )
    if lanes:
        refuse(
            f"{axis.name} is around the time of {stage.name}, and {participle(kind)} loops are "
            "inside of a step",
            f"Split it, keep the inner loop inside of {stage.time.name}, and {own}.",
            state,
            axis,
        )


def computes_box(state: State, stage: Stage) -> bool:
    """Return whether ``stage`` may compute less than its whole axes: at a loop, or in a scan."""
    depends = state.dependences.depends
    around = [state.stages[n] for n in state.dependences.scans if depends(n, stage.name)]
    split = any(scan.in_step != scan.roots[1:] for scan in around)
    return split or any(isinstance(s.attach, At) for s in (stage, *around))


def repeats(stage: Stage, place: int, loop: Axis) -> tuple[str, str] | None:
    """Return why ``loop``, which moves dimension ``place`` of a scan, computes it too often.

    The second text is advice. Return ``None`` if the elements of the scan are independent along
    this dimension.
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    axis = op.axis[place - 1] if place else op.scan_axis
    if axis in op.independent:
        return None
    others = "rows" if not place else f"elements along {axis.name}"
    why = (
        f"each iteration of {loop.name} reads other {others} of {stage.name}, which would compute "
        "all of its steps again"
    )
    if not op.independent:
        return why, f"Leave {stage.name} at root, or attach it outside of {loop.name}."
    apart = ", ".join(a.name for a in op.independent)
    return why, (
        f"Attach it outside of {loop.name}, at a loop that reads other elements along {apart} "
        "alone, or leave it at root."
    )


def repeated_steps(stage: Stage, reader: Stage, axis: Axis) -> tuple[str, str] | None:
    """Return why loop ``axis`` of ``reader``, which reads scan ``stage``, cannot compute it."""
    if not isinstance(reader.op, ComputeOp):
        return None
    around = reader.leaf[: position(reader.leaf, axis) + 1]
    moving = {
        root: axes
        for root in reader.roots
        if (axes := [a for a in axes_inside(reader, root) if a in around])
    }
    for read in reads(reader.op.roots):
        for place, index in enumerate(read.indices if read.tensor in stage.outputs else ()):
            for loop in axes_in([index]):
                why = repeats(stage, place, moving[loop][0]) if loop in moving else None
                if why is not None:
                    return why
    return None
