"""Arrays of ``np.empty``: elements that are read before anything is written to them.

A kernel begins with zeros in them, and one that is interpreted with numbers that show in results. A
read that comes before any assignment to the array is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NoReturn

import numpy as np

from schedlang.compute.extern_op import ExternOp
from schedlang.compute.graph import operations
from schedlang.compute.read import Read, reads
from schedlang.compute.tensor import ComputeOp, Operation, Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Expr, Select
from schedlang.tracing.trace import Trace, Value, current


def first_elements(elements: np.ndarray) -> np.ndarray:
    """Return what an array of ``np.empty`` begins with: zeros, or extreme numbers in a check."""
    kind = elements.dtype.kind
    if not current().rule.checked or kind == "b":
        return np.zeros_like(elements)
    if kind in "iu":
        limits = np.iinfo(elements.dtype)
        return np.full_like(elements, limits.min if kind == "i" else limits.max)
    return np.full_like(elements, np.nan)


def note_empty(stage: Tensor) -> Tensor:
    """Return the stage of an array that ``np.empty`` made, whose line the trace keeps."""
    trace = current()
    place = trace.place()
    if stage.size:
        trace.outermost.empty[stage] = "" if place is None else f" at line {place.line}"
    return stage


def check_written(trace: Trace, results: Iterable[Value]) -> None:
    """Raise ``ComputeError`` where ``results`` depend on elements that nothing has written."""
    if not trace.empty:
        return
    for op in operations([t for value in _values(trace, results) for t in _tensors(value)]):
        if isinstance(op, (ComputeOp, ExternOp)):
            for tensor in _used(op):
                if tensor in trace.empty:
                    _refuse(trace, op, trace.empty[tensor])


def _values(trace: Trace, results: Iterable[Value]) -> Iterator[Value]:
    yield from results
    for loop in trace.loops:
        for carry in loop.carries:
            yield from (carry.start, carry.leaving)
        yield from (value for value, _ in loop.read)
        yield from _values(loop.body, ())


def _used(op: ComputeOp | ExternOp) -> Iterator[Tensor]:
    """Yield the tensors whose elements an operation computes with, and does not only pass on.

    An assignment passes on the elements that it does not replace, and a view those that it shows.
    """
    if isinstance(op, ExternOp):
        yield from op.inputs
        return
    assigns = op.reducer is None or (op.destination is not None and op.reducer.name == "last")
    if assigns:
        yield from _computed(op.roots)
    else:
        # a sum begins with the elements to which it adds
        yield from (read.tensor for read in reads(op.roots))


def _computed(values: Sequence[Expr]) -> Iterator[Tensor]:
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, Select):
            stack += [value.a, value.b]
            yield from (read.tensor for read in reads([value.cond]))
        elif isinstance(value, Read):
            yield from (read.tensor for read in reads(list(value.indices)))
        else:
            yield from (read.tensor for read in reads([value]))


def _tensors(value: Value) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else [read.tensor for read in reads([value])]


def _refuse(trace: Trace, op: Operation, made: str) -> NoReturn:
    lines = [key for key, tensors in trace.made.items() if any(t.op is op for t in tensors)]
    where = f" at line {lines[0][1]}" if lines else ""
    raise ComputeError(
        explain(
            f"reading the array that np.empty made{made} of {trace.title}{where}",
            "nothing was written to these elements before, so NumPy reads whatever is in memory",
            "Assign to the array first, or begin with np.zeros.",
        )
    )

