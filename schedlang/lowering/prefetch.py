"""Lowering of ``prefetch(T, axis, offset)``, one prefetch per cache line of a later box."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Var
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv
from schedlang.ir.nodes import For
from schedlang.lowering.drafts import Draft, DraftPrefetch, block, loop_extent
from schedlang.lowering.region import Box, defined, largest_extent, point, relax_box
from schedlang.lowering.scattered import scatters
from schedlang.state.plan import Dim, Plan
from schedlang.state.state import Prefetch, Stage

LINE_BYTES = 64
MOST_UNROLLED = 16
MOST_LINES = 1024


def prefetch(
    hint: Prefetch, stage: Stage, plan: Plan, box: Box, ranges: Ranges
) -> list[Draft] | str:
    """Return loops that prefetch the cache lines read ``hint.offset`` iterations later.

    Return a text that gives the reason if nothing can be prefetched.
    """
    if None in box.lo or None in box.hi:
        return f"the indices of {hint.tensor.name} depend on data"
    steps = _steps(hint.tensor, box, ranges)
    if isinstance(steps, str):
        return steps
    var = plan.variables[hint.axis]
    later: dict[Axis | Var, Lin] = {var: Lin.of(var) + hint.offset}
    at = [lo.substitute(later) for lo in box.lo if lo is not None]
    loops: list[tuple[Axis, Lin]] = []
    for dim, (count, width) in enumerate(steps):
        if count.const != 1:
            kind = "line" if dim == len(steps) - 1 else "row"
            loops.append((Axis(f"{hint.tensor.name}_{kind}", loop_extent(count)), count))
            at[dim] = at[dim] + Lin.of(loops[-1][0]) * width
    around = stage.leaf[: stage.leaf.index(hint.axis) + 1]
    alone = all(stage.kinds.get(axis, "") not in ("unroll", "vectorize") for axis in around)
    return _nest([DraftPrefetch(hint.tensor, tuple(at))], loops, stage.name, alone)


def written_box(
    stage: Stage, plan: Plan, dims: Sequence[Dim], inside: Sequence[Axis], ranges: Ranges
) -> Box:
    """Return the box that ``stage`` writes while the loops ``inside`` run.

    It is unknown for a scatter.
    """
    if scatters(stage):
        return Box((None,) * len(dims), (None,) * len(dims))
    box = point([d.lo + plan.values[a] for a, d in zip(stage.op.axis, dims)], ranges)
    for axis in reversed(inside):
        var = plan.variables.get(axis)
        if var is not None:
            box = relax_box(box, var, plan.extents[axis], ranges)
    return box


def _steps(tensor: Tensor, box: Box, ranges: Ranges) -> list[tuple[Lin, int]] | str:
    """Return ``(count, width)`` for each dimension: the number of steps and their width.

    A step along the last dimension is a cache line wide. Return a refusal as text if a size is
    unknown or too large.
    """
    found = []
    total = 1
    for dim, (lo, hi) in enumerate(zip(box.lo, box.hi)):
        assert lo is not None and hi is not None
        extent = largest_extent(lo, hi, ranges)
        if extent is None:
            return f"the part of {tensor.name} that an iteration reads has no known size"
        last = dim == len(box.lo) - 1
        width = max(1, LINE_BYTES // dtypes.itemsize(tensor.dtype)) if last else 1
        count = floordiv(defined(extent, ranges) + width - 1, Lin.of(width), ranges)
        total *= count.const if count.const is not None else 1
        found.append((count, width))
    if total > MOST_LINES:
        return (
            f"an iteration reads {total} cache lines of {tensor.name}, and at most {MOST_LINES} "
            "are prefetched"
        )
    return found


def _nest(
    drafts: list[Draft], loops: Sequence[tuple[Axis, Lin]], stage: str, alone: bool
) -> list[Draft]:
    """Return the loops around one prefetch.

    Short loops are unrolled, unless an enclosing loop is unrolled or vectorized.
    """
    total = 1
    for axis, count in reversed(loops):
        total = total * count.const if count.const is not None else MOST_UNROLLED + 1
        kind = "unroll" if alone and total <= MOST_UNROLLED else "serial"
        drafts = [For(axis, loop_extent(count), kind, block(drafts), stage)]
    return drafts
