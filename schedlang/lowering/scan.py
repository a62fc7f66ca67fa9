"""Lowering of scans: the first rows, then a loop over time."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import ComputeOp, ScanOp
from schedlang.index.linear import ZERO, Lin, number_or_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Alloc, For
from schedlang.lowering.build import attach_child, nest_stage, store_kept
from schedlang.lowering.drafts import block
from schedlang.lowering.nesting import Job, Loop, Nesting, Scope
from schedlang.lowering.region import Pending, merge, relax_all
from schedlang.lowering.trampoline import Task
from schedlang.state.plan import Dim, Peel, Plan, loop_variable, whole
from schedlang.state.state import Stage


def nest_scan(job: Job, stage: Stage, scope: Scope) -> Task:
    """Build the first rows of a scan, then the loop over time.

    The loop holds the update of each state and the stages between states and updates.
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    time, rows = op.scan_axis, to_lin(op.scan_axis.lo)
    extent = to_lin(time.extent)
    var = loop_variable(time, extent, scope.ranges)
    inner = Scope(
        scope.ranges.extended(var, ZERO, extent - 1), (*scope.loops, Loop(var, extent, ""))
    )
    plan = Plan({time: extent}, {time: Lin.of(var)}, {}, {time: var}, (), inner.ranges)
    nesting = Nesting(job, stage, (), scope, Peel(), plan, (time,))
    drafts: list[Any] = []
    extra: list[Alloc] = []
    pending: Pending = {}
    stages = list(job.state.stages.values())
    steps = {child.name for child in job.placement.at.get((stage.name, time), ())}
    # within a row, an update may read other stages or another update, which come first
    for child in reversed(stages):
        if any(tensor in op.update for tensor in child.outputs):
            assert isinstance(child.op, ComputeOp)
            row = Dim(rows + Lin.of(var), Lin.of(1), size=to_lin(child.op.axis[0].extent))
            dims = (row, *whole(child.outputs[0].shape)[1:])
            child_drafts, more = yield nest_stage(job, child, dims, inner)
            merge(pending, more, inner.ranges)
            drafts = [*child_drafts, *drafts]
            extra += _extra_outputs(job, child)
        elif child.name in steps:
            drafts, pending = yield attach_child(nesting, time, child, drafts, pending, inner)
    drafts = store_kept(nesting, time, drafts, pending, inner)
    kind = stage.kinds.get(time, "") or "serial"
    hints = tuple((name, value) for a, name, value in stage.pragmas if a is time)
    loop = For(var, number_or_expr(extent), kind, block(drafts), stage.name, pragmas=hints)
    pending = relax_all(pending, var, extent, inner.ranges)
    first: list[Any] = []
    for child in reversed(stages):
        if any(tensor in op.init for tensor in child.outputs):
            child_drafts, more = yield nest_stage(job, child, whole(child.outputs[0].shape), scope)
            merge(pending, more, scope.ranges)
            first = [*child_drafts, *first]
            extra += _extra_outputs(job, child)
    return [*extra, *first, *([] if extent.const == 0 else [loop])], pending


def _extra_outputs(job: Job, stage: Stage) -> list[Alloc]:
    """Return storage for the outputs of a stage besides its states, with as many rows as these."""
    allocations = job.storage(stage, whole(stage.outputs[0].shape), "global")
    return [a for a in allocations if a.buffer.tensor not in job.alias]
