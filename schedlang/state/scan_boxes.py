"""The loops of readers that would have a scan compute its steps again in each iteration."""

from __future__ import annotations

from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, ScanOp
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import axes_in
from schedlang.state.cuts import axes_inside
from schedlang.state.relations import position
from schedlang.state.state import Stage


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
    moving = {root: axes for root in reader.roots
              if (axes := [a for a in axes_inside(reader, root) if a in around])}
    for read in reads(reader.op.roots):
        for place, index in enumerate(read.indices if read.tensor in stage.outputs else ()):
            for loop in axes_in([index]):
                why = repeats(stage, place, moving[loop][0]) if loop in moving else None
                if why is not None:
                    return why
    return None

