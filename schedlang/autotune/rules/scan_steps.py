"""The stages of a scan: each moment has one step of their time, in kernels of its own."""

from __future__ import annotations

from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.expr.nodes import Axis


def timed(sketch: Sketch) -> set[Tensor]:
    """Return the stages whose first axis is a scan's time.

    Those are its start, its step, and what they compute anew each moment, be it read at the
    moment itself or at one before.
    """
    found: set[Tensor] = set()
    if not any(isinstance(view.op, ScanOp) for view in sketch.s.stages):
        return found
    anew = _anew(sketch)
    for tensor in reversed(sketch.stages()):
        if sketch.steps_of_scan(tensor) or (tensor in anew and _follows(sketch, tensor, found)):
            found.add(tensor)
    return found


def data_axes(sketch: Sketch, tensor: Tensor) -> list[Axis]:
    """Return the axes that threads share: those of a stage, without a scan's time."""
    return list(sketch.op(tensor).axis[sketch.held(tensor) :])


def _follows(sketch: Sketch, tensor: Tensor, found: set[Tensor]) -> bool:
    """Return whether one of the stages ``found`` reads ``tensor`` at an index that its time
    decides."""
    outputs = sketch.s[tensor].outputs
    return any(
        read.depends(0, [sketch.op(reader).axis[0]])
        for reader in sketch.consumers(tensor) if reader in found
        for read in sketch.reads(reader) if read.tensor in outputs and read.indices
    )  # fmt: skip


def _anew(sketch: Sketch) -> set[Tensor]:
    """Return what is computed anew each moment: it reads a state, if through others."""
    found = {t for v in sketch.s.stages if isinstance(v.op, ScanOp) for t in v.op.state}
    for view in sketch.s.stages:
        # what another scan gives is there before the first moment
        if not isinstance(view.op, ScanOp) and any(t in found for t in view.op.input_tensors):
            found.update(view.outputs)
    return found
