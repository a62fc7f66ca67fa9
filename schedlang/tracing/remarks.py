"""Comments for the printed nest: the form of each loop of the source, on its stages."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.compute.read import reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.tracing.trace import HostLoop, Value


def remark(loop: HostLoop, values: Iterable[Value], text: str) -> None:
    """Put ``text`` above the remarks of the stages that compute ``values`` from a loop's inputs."""
    inputs = [value for value, _ in loop.read] + [carry.start for carry in loop.carries]
    seen = {tensor for value in inputs for tensor in _tensors(value)}
    stack = [tensor for value in values for tensor in _tensors(value)]
    while stack:
        tensor = stack.pop()
        if tensor in seen:
            continue
        op = tensor.op
        seen.update(op.outputs if isinstance(op, ComputeOp) else [tensor])
        if isinstance(op, ComputeOp):
            op.remarks = (text, *op.remarks)
        stack += op.input_tensors


def _tensors(value: Value) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [read.tensor for read in reads([value])]
