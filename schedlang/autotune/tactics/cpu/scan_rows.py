"""Rows of a scan that are independent: some of them at a time, each through all of time.

The rows are computed at a loop of their reader, which then finds them in a cache, or in a loop of
the scan's own, which threads share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedlang.autotune.knobs import Knobs
from schedlang.autotune.tactics.cpu.nest import LEAST_STEPS, PARALLEL
from schedlang.autotune.tactics.facts import StageFacts
from schedlang.autotune.tactics.knob import Knob, Moves
from schedlang.autotune.tactics.scheduled import Scheduled
from schedlang.autotune.tactics.tactic import Applicable, Tactic
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.expr.nodes import Axis
from schedlang.schedule.schedule import Schedule
from schedlang.state.state import Stage

# vectors of adjacent rows in a wide block: each step then reads lines that the prefetcher follows
# measured: filters of 1024 and 2048 steps and rows, backward along axis 0, took 0.3 to 0.5 of the
# time with 16 vectors of 8 lanes in place of 2 (AVX2), and as long with 8 and 32
WIDE = 16
ROWS = Knob(
    "C.scan_rows",
    f"halves of a vector, up to 2 vectors, and {WIDE} vectors of rows that are adjacent",
    "the number of rows of a scan that go through time together",
    Moves(rank=24),
)


@dataclass(frozen=True)
class Rows:
    """The rows of a ``scan``: its dimension ``dim``, and the ``axis`` of the reader along it."""

    scan: Stage
    dim: int
    axis: Axis


def rows_of(stage: StageFacts) -> Rows | None:
    """Return the rows of a scan that a loop of ``stage``, its only reader, can compute."""
    readable = [s for s in stage.flow.every_stage if s.is_scan and _read_alone(stage, s)]
    if len(readable) != 1 or stage.stage.relations or stage.is_scatter or stage.time_axes:
        return None
    (scan,) = readable
    op = scan.op
    assert isinstance(op, ScanOp)
    reads = [read for read in stage.reads if read.tensor in scan.outputs]
    for dim in reversed(range(1, min(t.ndim for t in scan.outputs))):
        if op.axis[dim - 1] not in op.independent:
            continue
        for axis in stage.op.axis:
            others = [k for k in range(len(reads[0].indices)) if k != dim]
            if all(r.indices[dim] is axis and not any(r.depends(k, [axis]) for k in others)
                   for r in reads):  # fmt: skip
                return Rows(scan, dim, axis)
    return None


def _read_alone(stage: StageFacts, scan: Stage) -> bool:
    """Return whether ``stage`` is the only reader of a scan, which is not a result."""
    if stage.flow.state.is_output(scan):
        return False
    return stage.flow.stage(scan.outputs[0]).consumers == [stage.tensor] and all(
        stage.flow.stage(t).consumers == [stage.tensor] for t in scan.outputs
    )


def applies(stage: StageFacts, others: Applicable) -> bool:
    """Return whether a loop of the stage can compute the rows of a scan that it reads."""
    return stage.attached is None and rows_of(stage) is not None


def apply(s: Schedule, stage: StageFacts, knobs: Knobs) -> Scheduled:
    """Split the stage by rows, and compute these rows of the scan in each iteration."""
    rows = rows_of(stage)
    assert rows is not None
    tensor, count = stage.tensor, _count(stage, rows, knobs)
    over, within = s[tensor].split(rows.axis, factor=count)
    rest = [a for a in stage.op.axis if a is not rows.axis]
    inner = [*rest, *stage.op.reduce_axis, within]
    s[tensor].reorder(over, *inner)
    width = _width(stage, rows)
    if rows.axis is stage.op.axis[-1] and count > 1:
        _in_lanes(s, tensor, within, count, width)
    s[rows.scan.outputs[0]].compute_at(s[tensor], over)
    if stage.problem.threads > 1 and stage.evaluations >= LEAST_STEPS:
        if knobs.choice(f"{stage.name}.parallel", [1, 0]):
            s[tensor].parallel(over)
    parts = list(_parts(stage, rows))
    for part in parts if count > 1 else ():
        axis = part.op.axis[rows.dim]
        if axis is part.op.axis[-1]:
            _in_lanes(s, part.tensor, axis, count, width)
    return Scheduled(frozenset({tensor, *(part.tensor for part in parts)}))


def _width(stage: StageFacts, rows: Rows) -> int:
    """Return the lanes of a vector of a step."""
    return stage.flow.stage(rows.scan.op.input_tensors[-1]).width


def _in_lanes(s: Schedule, tensor: Tensor, axis: Axis, count: int, width: int) -> None:
    """Vectorize the loop over ``count`` rows, as many as two vectors at a time."""
    if count > 2 * width:
        axis = s[tensor].split(axis, factor=2 * width)[1]
    s[tensor].vectorize(axis)


def _count(stage: StageFacts, rows: Rows, knobs: Knobs) -> int:
    """Choose the rows that go through time together."""
    width, extent = _width(stage, rows), stage.extents([rows.axis])[0]
    wide = [WIDE * width] if rows.axis is stage.op.axis[-1] else []
    options = [n for n in (width // 2, width, 2 * width, *wide, width // 4, 1) if 1 <= n <= extent]
    return knobs.choice(f"{stage.name}.scan_rows", list(dict.fromkeys(options)) or [1])


def _parts(stage: StageFacts, rows: Rows) -> Iterator[StageFacts]:
    """Yield the first rows and the updates of the scan, each stage once."""
    op, seen = rows.scan.op, set()
    assert isinstance(op, ScanOp)
    for tensor in (*op.init, *op.update):
        part = stage.flow.state.of(tensor)
        if part is not None and part.name not in seen and isinstance(part.op, ComputeOp):
            seen.add(part.name)
            yield stage.flow.stage(part.outputs[0])


TACTIC = Tactic(
    "scan",
    "compute rows of a scan in a loop of the stage that reads them, through all of time",
    applies,
    apply,
    knobs=(ROWS, PARALLEL),
)
