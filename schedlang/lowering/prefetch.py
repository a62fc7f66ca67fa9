"""What ``prefetch(T, axis, offset)`` touches: each cache line of a later iteration's box."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis, Var
from schedlang.expr.rules import floordiv
from schedlang.expr.simplify import to_lin
from schedlang.ir.nodes import For
from schedlang.lowering.plan import Plan
from schedlang.lowering.puts import Draft, Touch, block, loop_extent
from schedlang.lowering.region import (
    Box,
    Dim,
    defined,
    largest_extent,
    point,
    relax_box,
)
from schedlang.stage.state import Prefetch, Stage

LINE_BYTES = 64
MOST_UNROLLED = 64


def prefetch(
    hint: Prefetch, stage: Stage, plan: Plan, box: Box | None, ranges: Ranges
) -> list[Draft]:
    """The loops over the lines of ``box``, what one iteration touches, ``hint.offset`` later."""
    if box is None or None in box.lo or None in box.hi:
        # where the elements lie depends on data: nothing is known ahead
        return []
    var = plan.variables[hint.axis]
    later: dict[Axis | Var, Lin] = {var: Lin.of(var) + hint.offset}
    at = [lo.substitute(later) for lo in box.lo if lo is not None]
    loops: list[tuple[Axis, Lin]] = []
    for dim, (count, width) in enumerate(_steps(hint.tensor, box, ranges)):
        if count.const != 1:
            loops.append((Axis(f"{hint.tensor.name}_line", 0), count))
            at[dim] = at[dim] + Lin.of(loops[-1][0]) * width
    return _nest([Touch(hint.tensor, tuple(at))], loops, stage.name)


def written_box(
    stage: Stage, plan: Plan, dims: Sequence[Dim], inside: Sequence[Axis], ranges: Ranges
) -> Box | None:
    """What ``stage`` writes while the loops ``inside`` run; ``None`` if one of them never does."""
    if any(plan.extents[axis].const == 0 for axis in inside):
        return None
    box = point([d.lo + plan.values[a] for a, d in zip(stage.op.axis, dims)], ranges)
    for axis in reversed(inside):
        var = plan.variables.get(axis)
        if var is not None:
            box = relax_box(box, var, plan.extents[axis], ranges)
    return box


def _steps(tensor: Tensor, box: Box, ranges: Ranges) -> list[tuple[Lin, int]]:
    """How often to step through each dimension, and how far: along the last one by cache lines."""
    found = []
    for dim, (lo, hi) in enumerate(zip(box.lo, box.hi)):
        assert lo is not None and hi is not None
        extent = largest_extent(lo, hi, ranges) or to_lin(tensor.shape[dim])
        extent = defined(extent, ranges)
        last = dim == len(box.lo) - 1
        width = max(1, LINE_BYTES // dtypes.itemsize(tensor.dtype)) if last else 1
        found.append((floordiv(extent + width - 1, Lin.of(width), ranges), width))
    return found


def _nest(drafts: list[Draft], loops: Sequence[tuple[Axis, Lin]], stage: str) -> list[Draft]:
    total = 1
    for axis, count in reversed(loops):
        total = total * count.const if count.const is not None else MOST_UNROLLED + 1
        kind = "unroll" if total <= MOST_UNROLLED else "serial"
        drafts = [For(axis, loop_extent(count), kind, block(drafts), stage)]
    return drafts
