"""Rolling storage of scans: if only the last rows are read, a few rows are kept, modulo a count."""

from __future__ import annotations

from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp, ScanOp, Tensor
from schedlang.expr.nodes import Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin
from schedlang.lowering.region import Box
from schedlang.state.layout import Layout, Part
from schedlang.state.state import Stage, State


def rolling(state: State, stage: Stage, box: Box | None) -> Layout:
    """Return the layout that stores row ``r`` of scan ``stage`` at ``r % count``.

    The layout is empty if all rows are kept. ``box`` is the region of the scan that later stages
    read. ``count`` rows suffice for the earlier rows that a step reads, for the step's own row,
    and for the last rows that later stages read.
    """
    op = stage.op
    assert isinstance(op, ScanOp)
    rows, first = to_lin(op.outputs[0].shape[0]), None if box is None else box.lo[0]
    back = _farthest(state, op)
    read = None if first is None else (rows - first).const
    start = to_lin(op.scan_axis.lo).const
    if back is None or read is None or start is None or state.extern_reader(stage) is not None:
        return ()
    # the first rows may be computed in any order, so each needs a place of its own
    count = max(back + 1, read, start)
    if rows.const is not None and rows.const <= count:
        return ()
    dims = max(state.ndim for state in op.outputs)
    return (Part(0, 1, count), *(Part(d) for d in range(1, dims)))


def _farthest(state: State, scan: ScanOp) -> int | None:
    """Return how many rows back a step of ``scan`` reads; ``None`` if that is not constant."""
    rows = {*scan.state, *scan.update}
    # for each stage of a step, how many rows back it reads, directly or through other stages
    steps: dict[Tensor, int] = {}
    farthest = 0
    for stage in state.stages.values():
        op = stage.op
        own = any(t in scan.update for t in stage.outputs)
        if not isinstance(op, ComputeOp) or any(t in scan.init for t in stage.outputs):
            continue
        back = None
        for read in _reads(op):
            if read.tensor in scan.init:
                return None
            if read.tensor not in rows and read.tensor not in steps:
                continue
            if not read.indices or not op.axis:
                return None
            distance = (Lin.of(op.axis[0]) - to_lin(read.indices[0])).const
            if distance is None or distance < 0:
                return None
            back = max(back or 0, distance + steps.get(read.tensor, 0))
        if own:
            farthest = max(farthest, back or 0)
        elif back is not None:
            steps.update(dict.fromkeys(stage.outputs, back))
    return farthest


def _reads(op: ComputeOp) -> list[Read]:
    roots: list[Expr] = [*op.body, *(op.init or ())]
    if op.where is not None:
        roots.append(op.where)
    return [n for n in postorder(roots) if isinstance(n, Read)]
