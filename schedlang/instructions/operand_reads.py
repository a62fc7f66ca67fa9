"""The check of what a declaration reads: its operands whole, from the first element on."""

from __future__ import annotations

from math import prod

import numpy as np

from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Const, Expr, Var
from schedlang.expr.visit import postorder


def check_reads(asked: str, op: ComputeOp, in_memory: bool) -> None:
    """Raise :class:`~schedlang.errors.ComputeError` for what no instruction can load.

    A vector is loaded whole, so that its first and its last element are read: nothing says that an
    array has others. Each dimension of an operand ``in_memory`` is one axis, or has one element.
    """
    _check_values(asked, op)
    last: dict[Tensor, int] = {}
    for read in reads(op.roots):
        if in_memory:
            _check_dimensions(asked, read)
            continue
        first, end = _ends(asked, op, read)
        if first != 0:
            raise ComputeError(
                explain(
                    asked,
                    f"{read} begins at another element than the first one of {read.tensor.name}",
                    "Index operands by the axes, without an offset: an operand is the elements "
                    "that it reads.",
                )
            )
        last[read.tensor] = max(end, last.get(read.tensor, 0))
    for tensor, end in last.items():
        size = prod(map(int, tensor.shape))
        if end != size - 1:
            raise ComputeError(
                explain(
                    asked,
                    f"it reads the first {end + 1} of {size} elements of {tensor.name}, and an "
                    "operand is loaded whole, also at the end of an array",
                    f"Give {tensor.name} the elements that it reads, and no more.",
                )
            )


def _check_values(asked: str, op: ComputeOp) -> None:
    """Refuse axes and scalars as values: an instruction gets its operands and nothing else."""
    waiting = [*op.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Read):
            continue
        if isinstance(node, (Axis, Var)):
            raise ComputeError(
                explain(
                    asked,
                    f"its value depends on {node.name}, and an instruction gets the elements of "
                    "its operands alone",
                    f"Read {node.name} from a placeholder.",
                )
            )
        waiting += node.children


def _check_dimensions(asked: str, read: Read) -> None:
    """Refuse a read of an operand in memory whose dimensions are not whole axes."""
    for index, extent in zip(read.indices, read.tensor.shape):
        if not isinstance(index, (Axis, Const)):
            raise ComputeError(
                explain(
                    asked,
                    f"the index {index} of {read} is not an axis, and a function in memory gets "
                    "the strides of whole dimensions",
                    "Index each dimension of an operand by one axis.",
                )
            )
        if extent != (index.extent if isinstance(index, Axis) else 1):
            raise ComputeError(
                explain(
                    asked,
                    f"{read} is a part of {read.tensor.name}, of which the function gets all",
                    f"Give {read.tensor.name} the elements that it reads, and no more.",
                )
            )


def _ends(asked: str, op: ComputeOp, read: Read) -> tuple[int, int]:
    """Return the first and the last element that ``read`` reads, by their offsets."""
    axes = (*op.axis, *op.reduce_axis)
    if any(isinstance(node, (Read, Var)) for node in postorder(read.indices)):
        raise ComputeError(
            explain(
                asked,
                f"{read} is at an index that depends on more than the axes",
                "Index operands by the axes; a stage before the instruction may gather elements.",
            )
        )
    grid = np.ix_(*(range(int(a.extent)) for a in axes))
    values: dict[Expr, np.ndarray] = dict(zip(axes, grid))
    offset: np.ndarray = np.zeros((), np.int64)
    for index, extent in zip(read.indices, read.tensor.shape):
        offset = offset * int(extent) + evaluate(index, values)
    return int(offset.min()), int(offset.max())
