"""Axes that choose between values, as the rows of a small matrix that is written out."""

from __future__ import annotations

from schedlang.autotune.tactics.facts import StageFacts
from schedlang.compute.read import reads
from schedlang.expr.nodes import Axis, Binary, Const
from schedlang.expr.visit import postorder

# the longest axis of which each index may have a value of its own
LONGEST = 8


def choosing_axes(stage: StageFacts) -> list[int]:
    """Return the positions of data axes, of which each index but one is compared by itself.

    So does ``select(u == 0, a, select(u == 1, b, c))`` for an axis of 3. Unrolled, no choice is
    left, and the values share what they read. The contiguous axis stays for the lanes.
    """
    axes = stage.op.axis
    short = {
        axis: at for at, axis in enumerate(axes)
        if stage.time_axes <= at < stage.last and isinstance(axis.extent, int)
        and 1 < axis.extent <= LONGEST
    }  # fmt: skip
    if not short:
        return []
    seen: dict[Axis, set[int]] = {}
    roots = stage.op.roots
    for node in postorder(roots, {id(read) for read in reads(roots)}):
        if isinstance(node, Binary) and node.op == "==" and isinstance(node.b, Const):
            axis, value = node.a, node.b.value
            # any number may stand there, also one that is no index
            if isinstance(axis, Axis) and axis in short and value in range(int(axis.extent)):
                seen.setdefault(axis, set()).add(int(value))
    return [at for axis, at in short.items() if len(seen.get(axis, ())) >= int(axis.extent) - 1]


__all__ = ["choosing_axes"]
