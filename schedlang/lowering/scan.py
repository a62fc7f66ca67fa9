"""Recurrences: first rows, then a loop over time."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import ComputeOp, ScanOp
from schedlang.expr.linear import ZERO, Lin
from schedlang.expr.simplify import to_lin
from schedlang.ir.nodes import For
from schedlang.lowering.build import attach_children, nest_stage
from schedlang.lowering.nesting import Job, Loop, Nesting, Scope
from schedlang.lowering.plan import Peel, Plan
from schedlang.lowering.puts import block
from schedlang.lowering.region import Dim, Pending, merge, relax_all, whole
from schedlang.lowering.trampoline import Task
from schedlang.stage.relations import extent_of
from schedlang.stage.state import Stage


def nest_scan(job: Job, stage: Stage, scope: Scope) -> Task:
    """First rows, then a loop over time whose body is each state's update."""
    op = stage.op
    assert isinstance(op, ScanOp)
    time, rows = op.scan_axis, to_lin(op.scan_axis.lo)
    drafts: list[Any] = []
    pending: Pending = {}
    extent = to_lin(time.extent)
    inner = Scope(
        scope.ranges.extended(time, ZERO, extent - 1), (*scope.loops, Loop(time, extent, ""))
    )
    for tensor in reversed(op.update):
        child = job.state.of(tensor)
        assert child is not None and isinstance(child.op, ComputeOp)
        row = Dim(rows + Lin.of(time), Lin.of(1), size=to_lin(child.op.axis[0].extent))
        made, more = yield nest_stage(job, child, (row, *whole(child.outputs[0].shape)[1:]), inner)
        merge(pending, more, inner.ranges)
        drafts = [*made, *drafts]
    plan = Plan({time: extent}, {time: Lin.of(time)}, {}, {time: time}, (), inner.ranges)
    nesting = Nesting(job, stage, (), scope, Peel(), plan, (time,))
    drafts, pending = yield attach_children(nesting, time, drafts, pending, inner)
    kind = stage.kinds.get(time, "") or "serial"
    hints = tuple((name, value) for a, name, value in stage.pragmas if a is time)
    loop = For(time, extent_of(extent), kind, block(drafts), stage.name, pragmas=hints)
    pending = relax_all(pending, time, extent, inner.ranges)
    first: list[Any] = []
    for tensor in reversed(op.init):
        child = job.state.of(tensor)
        assert child is not None
        made, more = yield nest_stage(job, child, whole(child.outputs[0].shape), scope)
        merge(pending, more, scope.ranges)
        first = [*made, *first]
    return [*first, *([] if extent.const == 0 else [loop])], pending
