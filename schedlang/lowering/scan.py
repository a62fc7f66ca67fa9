"""The boxes of scans: what a scan computes, what its parts compute of it, and its storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from schedlang.compute.recurrence import rows_read
from schedlang.compute.tensor import ScanOp
from schedlang.errors import explain
from schedlang.expr.nodes import Axis
from schedlang.index.linear import ZERO, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Alloc
from schedlang.lowering.allocation import dims_of_state
from schedlang.lowering.nesting import Job, Nesting, Scope
from schedlang.lowering.region import Box, largest_extent, realize
from schedlang.lowering.rolling_storage import rolling
from schedlang.state.cuts import axes_inside
from schedlang.state.plan import Dim, whole
from schedlang.state.primitives.scan_loops import repeats
from schedlang.state.relations import Split
from schedlang.state.state import At, Stage


def is_part(stage: Stage, child: Stage, role: str = "") -> bool:
    """Return whether ``child`` computes first rows or updates of scan ``stage``, by default any.

    ``role`` is ``"init"`` or ``"update"``.
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    parts = {"init": op.init, "update": op.update}.get(role, (*op.init, *op.update))
    return any(tensor in parts for tensor in child.outputs)


def row_of(n: Nesting) -> Lin:
    """Return the row that a step of the scan computes."""
    op = n.stage.op
    assert isinstance(op, ScanOp)
    return to_lin(op.scan_axis.lo) + n.plan.values[op.scan_axis]


def rows_of(n: Nesting, child: Stage, ranges: Ranges, row: Lin | None = None) -> tuple[Dim, ...]:
    """Return the dimensions that a part of the scan computes: its first rows, or one ``row``.

    Loops of the scan that are inside of its time are loops of its parts.
    """
    op, shape = n.stage.op, child.outputs[0].shape
    assert isinstance(op, ScanOp)
    first, *rest = whole(shape)
    if row is not None:
        first = Dim(row, Lin.of(1), size=to_lin(shape[0]))
    for place, (axis, dim) in enumerate(zip(op.axis, n.dims)):
        if axis in op.independent:
            rest[place] = _part_of(n, axis, dim, ranges)
    return first, *rest


def _part_of(n: Nesting, axis: Axis, dim: Dim, ranges: Ranges) -> Dim:
    """Return what an iteration of the loops so far computes of ``dim`` along a data axis."""
    part = _values(n, axis, ranges)
    extent = largest_extent(part.first, part.last, ranges) or dim.extent
    ends = [dim.lo + end for end in part.ends] + [dim.size] * dim.high
    end = extreme("min", ends, ranges) if ends else dim.size
    return Dim(dim.lo + part.first, extent, dim.low, bool(ends), end)


class _Values(NamedTuple):
    """The values of an axis: from ``first`` to ``last``, and less than each of the ``ends``."""

    first: Lin
    last: Lin
    ends: tuple[Lin, ...] = ()


def _values(n: Nesting, axis: Axis, ranges: Ranges) -> _Values:
    """Return the values of ``axis`` in an iteration of the loops so far."""
    inside, extent = {*n.stage.leaf[len(n.leaf) :]}, n.plan.extents[axis]
    if inside.issuperset(axes_inside(n.stage, axis)):
        return _Values(ZERO, extent - 1)
    split = n.stage.made_from(axis)
    if not isinstance(split, Split) or inside.isdisjoint(axes_inside(n.stage, split.inner)):
        # all of its loops are outside: refused otherwise
        return _Values(n.plan.values[axis], n.plan.values[axis])
    outer, inner = (_values(n, part, ranges) for part in (split.outer, split.inner))
    stride = n.plan.strides[split]
    first, last = outer.first * stride + inner.first, outer.last * stride + inner.last
    ends = [end * stride for end in outer.ends] + [outer.first * stride + e for e in inner.ends]
    return _Values(first, last, (*ends, *[extent] * (not ranges.le(last + 1, extent))))


def box_of_scan(stage: Stage, box: Box, ranges: Ranges) -> tuple[tuple[Dim, ...], list[str]]:
    """Return what an attached scan computes for readers of ``box``, and refusals.

    It computes all of its rows, and of the independent data axes what is read. A loop that moves
    another dimension of ``box`` is refused: each iteration would compute the whole scan.
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    dims = list(whole(op.outputs[0].shape))
    some = realize(box, [dim.size for dim in dims], ranges)
    asked = ""
    if isinstance(stage.attach, At):
        asked = f"compute_at({stage.attach.stage}, {stage.attach.axis.name}) on stage {stage.name}"
    refusals = []
    for place, ends in enumerate(zip(box.lo, box.hi)):
        known = [end for end in ends if end is not None]
        moving = [leaf for end in known for leaf in end.leaves() if isinstance(leaf, Axis)]
        why = repeats(stage, place, moving[0]) if moving else None
        if why is not None:
            refusals.append(explain(asked, *why))
        elif place and op.axis[place - 1] in op.independent:
            dims[place] = some[place]
    return tuple(dims), refusals


def with_rolling_rows(job: Job, stage: Stage, box: Box | None) -> Stage:
    """Return a scan that stores only the rows in use; other stages and arguments are the same."""
    if not stage.is_scan or any(t in job.given for t in stage.outputs):
        return stage
    return stage.with_(layout=rolling(job.state, stage, box))


def extra_outputs(
    job: Job, stage: Stage, child: Stage, dims: Sequence[Dim], scope: str
) -> list[Alloc]:
    """Return storage for the outputs of a part besides its states, with as many rows as these."""
    op = stage.op
    assert isinstance(op, ScanOp)
    allocations = job.storage(child, dims_of_state(op, child.outputs[0], dims), scope)
    return [a for a in allocations if a.buffer.tensor not in job.alias]


def rows_so_far(job: Job, stage: Stage, scope: Scope) -> Lin | None:
    """Return how many rows of ``stage`` can be computed in a step; ``None`` outside of scans.

    Row ``t`` of a scan exists after step ``t``. A stage that reads the states at its own row plus
    ``high`` or before can compute its rows before ``t - high`` in step ``t``.
    """
    loop = job.placement.steps.get(stage.name)
    if loop is None:
        return None
    op = job.state.stages[loop.stage].op
    assert isinstance(op, ScanOp)
    known = job.state.dependences.rows
    if op not in known:
        known[op] = rows_read(op, [s.op for s in job.state.stages.values()])
    high = known[op].get(stage.outputs[0], (None, None))[1]
    if high is None:
        return to_lin(stage.outputs[0].shape[0])
    return scope.times[loop.stage] - high
