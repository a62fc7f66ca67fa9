"""Operations in pickles, each as its own piece, so that what is pickled together keeps identity.

A piece is the data form of one operation; axes, sizes and the operations that it reads are objects
of the pickle. Operations come producers first, so that a long chain needs no recursion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.compute.data_reader import GRAPH_KINDS, Reader
from schedlang.compute.data_writer import Writer, everything
from schedlang.compute.extern_op import ExternFunction, ExternOp
from schedlang.compute.tensor import Operation, PlaceholderOp, ScanOp, Tensor
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder

# the objects that a piece refers to, its items, and the function of the user's that it calls
Piece = tuple[tuple[Any, ...], list[Any], tuple[ExternFunction, ...]]
# an operation by its position, and the number of an output; or an input
Place = Any


def operations_and_places(tensors: Sequence[Tensor]) -> tuple[tuple[Operation, ...], list[Place]]:
    """Return the operations behind tensors, producers first, and where each tensor is among them.

    Inputs are not among the operations: they are tensors themselves.
    """
    order = tuple(op for op in everything(tensors) if not isinstance(op, PlaceholderOp))
    position = {op: k for k, op in enumerate(order)}
    places = [
        t if isinstance(t.op, PlaceholderOp) else (position[t.op], t.value_index) for t in tensors
    ]
    return order, places


def at_places(operations: Sequence[Any], places: Sequence[Place]) -> tuple[Tensor, ...]:
    """Return the tensors that :func:`operations_and_places` described."""
    return tuple(
        place if isinstance(place, Tensor) else operations[place[0]].outputs[place[1]]
        for place in places
    )


def output_of(operations: Sequence[Any], places: Sequence[Place]) -> Tensor:
    """Return the one tensor that :func:`operations_and_places` described."""
    return at_places(operations, places)[0]


def piece_of(op: Operation) -> Piece:
    """Return the piece of an operation."""
    given: list[Any] = []
    writer = Writer()

    def refer(key: Any, value: Any) -> None:
        if not writer.has(key):
            writer.add(key, ["given", len(given)])
            given.append(value)

    needed = list(op.input_tensors)
    if isinstance(op, ScanOp):
        needed += [*op.state, *op.inputs]
    for other in needed:
        refer(other.op, other if isinstance(other.op, PlaceholderOp) else other.op)
    for node in postorder([e for e in _expressions(op) if isinstance(e, Expr)]):
        if isinstance(node, (Axis, Var)):
            refer(node, node)
    writer.operation(op)
    return tuple(given), writer.items, tuple(writer.functions)


def _expressions(op: Any) -> list[Any]:
    """Return the expressions of an operation, and the extents of its inputs."""
    if isinstance(op, PlaceholderOp):
        within = () if op.facts is None else op.facts.within or ()
        return [*op.shape, *within]
    if isinstance(op, ScanOp):
        return []
    if isinstance(op, ExternOp):
        boxes = () if op.boxes is None else (op.boxes.asked, op.boxes.written, *op.boxes.read)
        ends = [e for box in boxes for pair in box for e in pair]
        return [*(e for t in op.outputs for e in t.shape), *ends, op.flops]
    parts = [op.axis, op.reduce_axis, op.body, op.init or (), op.destination or ()]
    return [e for part in parts for e in part] + ([] if op.where is None else [op.where])


class _PieceReader(Reader):
    """A reader whose items may be objects of the pickle."""

    def __init__(self, given: Sequence[Any], functions: Sequence[ExternFunction]) -> None:
        super().__init__({**GRAPH_KINDS, "given": _given}, {}, functions)
        self.given = given


def _given(reader: _PieceReader, place: Any) -> Any:
    value = reader.given[place]
    if isinstance(value, Tensor):
        reader.inputs[value.op] = value
        return value.op
    return value


def operation_of(
    given: Sequence[Any], items: Any, functions: Sequence[ExternFunction] = ()
) -> Operation:
    """Return the operation of a piece."""
    return _read(given, items, functions).items[-1]


def input_of(given: Sequence[Any], items: Any, functions: Sequence[ExternFunction] = ()) -> Tensor:
    """Return the input of a piece."""
    reader = _read(given, items, functions)
    return reader.inputs[reader.items[-1]]


def _read(given: Sequence[Any], items: Any, functions: Sequence[ExternFunction]) -> _PieceReader:
    reader = _PieceReader(given, functions)
    reader.read(items)
    return reader
