"""The rows of the stages in a scan's step that can be computed so far."""

from __future__ import annotations

from schedlang.compute.recurrence import rows_read
from schedlang.compute.tensor import ScanOp
from schedlang.index.linear import Lin
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.lowering.nesting import Job
from schedlang.state.plan import loop_variable
from schedlang.state.state import Stage


def rows_so_far(job: Job, stage: Stage, ranges: Ranges) -> Lin | None:
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
    time = loop_variable(op.scan_axis, to_lin(op.scan_axis.extent), ranges)
    return Lin.of(time) + to_lin(op.scan_axis.lo) - high
