"""The stages of a scan, which compute one step of its time axis at a time."""

from __future__ import annotations

from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.expr.nodes import Axis


def scan_stages(sketch: Sketch) -> set[Tensor]:
    """Return the stages whose first axis is the time axis of a scan.

    These are its start, its update, and the stages that are computed in each time step. They may be
    read in the same step or in a later one.
    """
    found: set[Tensor] = set()
    if not any(isinstance(view.op, ScanOp) for view in sketch.s.stages):
        return found
    each_step = _recomputed(sketch)
    for tensor in reversed(sketch.stages()):
        own = tensor in each_step and _read_by_time(sketch, tensor, found)
        if own or sketch.is_scan_step(tensor):
            found.add(tensor)
    return found


def data_axes(sketch: Sketch, tensor: Tensor) -> list[Axis]:
    """Return the data axes of a stage without the time axis of a scan."""
    return list(sketch.op(tensor).axis[sketch.time_axes(tensor) :])


def _read_by_time(sketch: Sketch, tensor: Tensor, found: set[Tensor]) -> bool:
    """Return whether a stage of ``found`` reads ``tensor`` at an index that depends on its time."""
    outputs = sketch.s[tensor].outputs
    return any(
        read.depends(0, [sketch.op(reader).axis[0]])
        for reader in sketch.consumers(tensor) if reader in found
        for read in sketch.reads(reader) if read.tensor in outputs and read.indices
    )  # fmt: skip


def _recomputed(sketch: Sketch) -> set[Tensor]:
    """Return the tensors computed in each time step: those that depend on a state of a scan."""
    found = {t for v in sketch.s.stages if isinstance(v.op, ScanOp) for t in v.op.state}
    for view in sketch.s.stages:
        # not the results of other scans, which are complete before the first step
        if not isinstance(view.op, ScanOp) and any(t in found for t in view.op.input_tensors):
            found.update(view.outputs)
    return found
