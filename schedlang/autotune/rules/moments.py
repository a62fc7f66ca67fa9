"""The stages of a scan: each moment has one step of their time, in kernels of its own."""

from __future__ import annotations

from schedlang.autotune.rules.sketch import Sketch
from schedlang.compute.tensor import ScanOp, Tensor
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis
from schedlang.expr.simplify import to_lin


def time_of(sketch: Sketch, tensor: Tensor) -> Axis | None:
    """The first axis of a stage, where that is a scan's time; ``None`` outside of scans."""
    op = sketch.op(tensor)
    if sketch.steps_of_scan(tensor):
        return op.axis[0]
    if not _from_state(sketch, tensor):
        return None
    for reader in sketch.consumers(tensor):
        time = time_of(sketch, reader)
        for read in sketch.reads(reader):
            if time is None or read.tensor is not tensor:
                continue
            if read.indices and to_lin(read.indices[0]) == Lin.of(time):
                return op.axis[0]
    return None


def data_axes(sketch: Sketch, tensor: Tensor) -> list[Axis]:
    """The axes that threads share: those of a stage, without a scan's time."""
    time = time_of(sketch, tensor)
    return [axis for axis in sketch.op(tensor).axis if axis is not time]


def _from_state(sketch: Sketch, tensor: Tensor) -> bool:
    """Whether what a stage reads is computed anew each moment."""
    states = {t for v in sketch.s.stages if isinstance(v.op, ScanOp) for t in v.op.state}
    seen, left = set(), [tensor]
    while left:
        found = left.pop()
        if found in states:
            return True
        # what another scan gives is there before the first moment
        if found not in seen and not isinstance(found.op, ScanOp):
            seen.add(found)
            left += found.op.input_tensors
    return False
