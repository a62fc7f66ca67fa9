"""Lowering of ``prefetch(T, axis, offset, at)``: one prefetch per cache line of a later box."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from schedlang.compute.tensor import Tensor
from schedlang.errors import explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Var
from schedlang.index.linear import ZERO, Lin, number_or_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme, floordiv, mod
from schedlang.ir.nodes import For
from schedlang.lowering.drafts import Draft, DraftPrefetch, block
from schedlang.lowering.nesting import Nesting, Scope
from schedlang.lowering.region import (
    Box,
    Pending,
    avoid_zero_division,
    largest_extent,
    point,
    relax_box,
)
from schedlang.lowering.scattered import scatters
from schedlang.state.placement import Problem
from schedlang.state.plan import Dim, Plan
from schedlang.state.prefetches import fetches
from schedlang.state.state import Prefetch, Stage

LINE_BYTES = 64
MOST_UNROLLED = 16
MOST_LINES = 1024


def prefetches(n: Nesting, axis: Axis, pending: Pending, scope: Scope) -> list[Draft]:
    """Return the prefetches of this loop for its later iterations.

    Stages computed inside the loop have left ``pending``, so they are not prefetched.
    """
    drafts: list[Draft] = []
    for hint in n.stage.prefetches:
        if hint.at is not axis:
            continue
        first, last = n.leaf.index(hint.axis), n.leaf.index(axis)
        inside, around = n.leaf[first + 1 :], n.leaf[first + 1 : last + 1]
        far = [a for a in hint.loops if not fetches(n.job.state, n.stage, hint.tensor, a)]
        if far:
            loops: list[Draft] | str = (
                f"{far[0].name} does not read {hint.tensor.name} from outside the loop"
            )
        elif n.plan.variables.get(hint.axis) is None:
            continue
        elif any(a in dict(n.peel.fixed) for a in around):
            # the main part of a cut loop prefetches what its rest reads, too
            continue
        elif any(n.plan.extents[a].const == 0 for a in inside):
            continue
        else:
            box = pending.get(hint.tensor)
            if hint.tensor in n.stage.outputs:
                box = _written_box(n.stage, n.plan, n.dims, inside, n.plan.ranges)
            elif box is not None:
                box = _over_loops(box, n.plan, around, scope.ranges)
            # without a box, all reads are under conditions that never hold here
            loops = []
            if box is not None:
                loops = _prefetch(hint, n.stage, n.plan, box, around, scope.ranges)
        if isinstance(loops, str):
            at = "" if hint.at is hint.axis else f", at={hint.at.name}"
            asked = f"prefetch({hint.tensor.name}, {hint.axis.name}, {hint.offset}{at})"
            why = explain(f"{asked} on stage {n.stage.name}", loops, "Prefetch at another loop.")
            n.job.problems.append(Problem(why, n.stage.name))
        else:
            drafts += loops
    return drafts


def _prefetch(
    hint: Prefetch, stage: Stage, plan: Plan, box: Box, around: Sequence[Axis], ranges: Ranges
) -> list[Draft] | str:
    """Return loops that prefetch the cache lines read ``hint.offset`` iterations later.

    ``box`` is what an iteration of ``hint.axis`` reads. The iterations of the loops ``around``,
    which are inside of it, share its lines. Return a text that gives the reason if nothing can be
    prefetched.
    """
    if None in box.lo or None in box.hi:
        return f"the indices of {hint.tensor.name} depend on data"
    steps = _steps(hint.tensor, box, ranges)
    if isinstance(steps, str):
        return steps
    var = plan.variables[hint.axis]
    later: dict[Axis | Var, Lin] = {var: Lin.of(var) + hint.offset}
    at = [lo.substitute(later) for lo in box.lo if lo is not None]
    loops = (
        _whole(hint.tensor, at, steps)
        if not around
        else _shared(hint.tensor, at, steps, plan, around, ranges)
    )
    if isinstance(loops, str):
        return loops
    outside = stage.leaf[: stage.leaf.index(hint.at) + 1]
    alone = all(stage.kinds.get(axis, "") not in ("unroll", "vectorize") for axis in outside)
    return _nest([DraftPrefetch(hint.tensor, tuple(at))], loops, stage.name, alone)


def _over_loops(box: Box, plan: Plan, inside: Sequence[Axis], ranges: Ranges) -> Box:
    """Return the union of ``box`` over all iterations of the loops ``inside``."""
    for axis in reversed(inside):
        var = plan.variables.get(axis)
        if var is not None:
            box = relax_box(box, var, plan.extents[axis], ranges)
    return box


def _written_box(
    stage: Stage, plan: Plan, dims: Sequence[Dim], inside: Sequence[Axis], ranges: Ranges
) -> Box:
    """Return the box that ``stage`` writes while the loops ``inside`` run.

    It is unknown for a scatter.
    """
    if scatters(stage):
        return Box((None,) * len(dims), (None,) * len(dims))
    box = point([d.lo + plan.values[a] for a, d in zip(stage.op.axis, dims)], ranges)
    return _over_loops(box, plan, inside, ranges)


def _steps(tensor: Tensor, box: Box, ranges: Ranges) -> list[tuple[Lin, int]] | str:
    """Return ``(count, width)`` for each dimension: the number of steps and their width.

    A step along the last dimension is a cache line wide. Return the text of a refusal if a size is
    unknown.
    """
    steps = []
    for dim, (lo, hi) in enumerate(zip(box.lo, box.hi)):
        assert lo is not None and hi is not None
        extent = largest_extent(lo, hi, ranges)
        if extent is None:
            return f"the part of {tensor.name} that an iteration reads has no known size"
        last = dim == len(box.lo) - 1
        width = max(1, LINE_BYTES // dtypes.itemsize(tensor.dtype)) if last else 1
        steps.append(
            (
                floordiv(avoid_zero_division(extent, ranges) + width - 1, Lin.of(width), ranges),
                width,
            )
        )
    return steps


def _whole(
    tensor: Tensor, at: list[Lin], steps: Sequence[tuple[Lin, int]]
) -> list[tuple[Axis, Lin]] | str:
    """Return loops over all lines, and add their variables to the element ``at``."""
    total = prod(count.const for count, _ in steps if count.const is not None)
    if total > MOST_LINES:
        return (
            f"an iteration reads {total} cache lines of {tensor.name}, and at most {MOST_LINES} "
            "are prefetched"
        )
    loops: list[tuple[Axis, Lin]] = []
    for dim, (count, width) in enumerate(steps):
        if count.const != 1:
            kind = "line" if dim == len(steps) - 1 else "row"
            loops.append((Axis(f"{tensor.name}_{kind}", number_or_expr(count)), count))
            at[dim] = at[dim] + Lin.of(loops[-1][0]) * width
    return loops


def _shared(
    tensor: Tensor,
    at: list[Lin],
    steps: Sequence[tuple[Lin, int]],
    plan: Plan,
    around: Sequence[Axis],
    ranges: Ranges,
) -> list[tuple[Axis, Lin]] | str:
    """Return a loop over the lines of one iteration of the loops ``around``, which share them.

    The iterations take the lines in order, an equal number each; those left over at the end take
    lines of the last row again. ``at`` becomes the element of a line.
    """
    moving = [a for a in around if plan.variables.get(a) is not None]
    counts = [count.const for count, _ in steps]
    if None in counts:
        return f"the part of {tensor.name} that an iteration reads is known only at run time"
    lines, iteration, iterations = prod(c or 0 for c in counts), ZERO, 1
    for axis in moving:
        extent = plan.extents[axis].const
        if extent is None:
            return (
                f"{axis.name} has {plan.extents[axis]} iterations, known only at run time, so that "
                f"it is unknown which of them prefetches which line of {tensor.name}"
            )
        iteration = iteration * extent + Lin.of(plan.variables[axis])
        iterations *= extent
    each = -(-lines // iterations)
    if each > MOST_LINES:
        return (
            f"{lines} cache lines of {tensor.name} for {iterations} iterations are {each} each, "
            f"and at most {MOST_LINES} are prefetched in one"
        )
    loops = []
    if each > 1:
        line = Axis(f"{tensor.name}_line", each)
        loops.append((line, Lin.of(each)))
        iteration = iteration * each + Lin.of(line)
    several = [dim for dim, count in enumerate(counts) if count != 1]
    for dim in reversed(several):
        count, width = steps[dim]
        if dim == several[0]:
            # the iterations left over at the end prefetch a line again
            digit = extreme("min", (iteration, count - 1), ranges)
        else:
            digit = mod(iteration, count, ranges)
            iteration = floordiv(iteration, count, ranges)
        at[dim] = at[dim] + digit * width
    return loops


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
        drafts = [For(axis, number_or_expr(count), kind, block(drafts), stage)]
    return drafts
