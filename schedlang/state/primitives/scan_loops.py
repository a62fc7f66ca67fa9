"""Checks of the loops of a scan: time in its order, and data axes around it or inside of it."""

from __future__ import annotations

from schedlang.compute.tensor import ScanOp
from schedlang.errors import subscript
from schedlang.expr.nodes import Axis
from schedlang.state.cuts import axes_inside
from schedlang.state.primitives.arguments import names, update_axis
from schedlang.state.primitives.refusal import refuse
from schedlang.state.relations import Fuse, Split
from schedlang.state.state import At, Stage, State, participle


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
                f"of this part of {names([relation.outer, relation.inner])} are no box",
                "Split the data axes first, and fuse loops that are all outside of time.",
                before,
                axis,
            )
