"""A computation as plain data, for JSON and pickling.

The data form is a flat list of items that refer to earlier items by number, so that a deep
expression needs no recursion. Every item is checked when it is read. So untrusted data either
builds a computation or raises an error, and can do nothing else.
"""

from __future__ import annotations

import copyreg
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.data_reader import rebuild, rebuild_expr
from schedlang.compute.data_writer import FORMAT, VERSION, Writer, everything, expr_to_data
from schedlang.compute.extern_op import ExternFunction, ExternOp
from schedlang.compute.tensor import ComputeOp, PlaceholderOp, ScanOp, Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Expr


@dataclass(frozen=True)
class Graph:
    """Tensors that are pickled as one graph, which takes less room than a tuple of them.

    >>> import pickle, schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] + 1, name="B")
    >>> a, b = pickle.loads(pickle.dumps(Graph((A, B)))).tensors
    >>> b.op.input_tensors[0] is a
    True
    """

    tensors: tuple[Tensor, ...]

    def __reduce__(self) -> Any:
        from schedlang.compute.pieces import operations_and_places

        return _graph_of, operations_and_places(self.tensors)


def _graph_of(operations: Sequence[Any], places: Sequence[Any]) -> Graph:
    from schedlang.compute.pieces import at_places

    return Graph(at_places(operations, places))


def _load_graph(data: Any) -> Graph:
    # pickles of earlier versions
    return Graph(from_data(data))


def dumps(outputs: Tensor | Sequence[Tensor]) -> str:
    """Return the result of :func:`to_data` as JSON text."""
    return json.dumps(to_data(outputs), allow_nan=False)


def loads(text: str | bytes) -> tuple[Tensor, ...]:
    """Return the tensors that :func:`dumps` wrote, checked as in :func:`from_data`."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ComputeError(f"the text of a computation is not JSON: {error}") from None
    return from_data(data)


def to_data(
    outputs: Tensor | Sequence[Tensor], functions: list[ExternFunction] | None = None
) -> dict[str, Any]:
    """Return the graph behind ``outputs`` as lists, strings and numbers that JSON can hold.

    ``items`` describes axes, sizes, expressions, reducers and operations; an item comes after the
    items that it refers to. ``outputs`` lists the tensors as ``[item, output number]``. An extent
    is a number, or ``[item]`` for an expression. Infinities and NaN are strings. Names, sharing and
    the identity of axes are kept. The functions that stages of :func:`schedlang.extern` call are
    added to ``functions``, since data hold no code.

    Raises :class:`~schedlang.errors.ComputeTypeError` for such a stage if ``functions`` is left
    out.

    >>> import schedlang as sl
    >>> to_data(sl.placeholder((4,), name="A"))["items"]
    [['placeholder', 'A', [4], 'float32']]
    """
    tensors = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    writer = Writer()
    for op in everything(tensors):
        writer.operation(op)
    if functions is None and writer.functions:
        name = writer.functions[0].name
        raise ComputeTypeError(
            explain(
                f"data of a computation that calls {name}",
                f"{name} is a function of yours, and data hold no code",
                "Keep the program that makes the computation, or pickle its tensors.",
            )
        )
    if functions is not None:
        functions += writer.functions
    return {
        "format": FORMAT,
        "version": VERSION,
        "items": writer.items,
        "outputs": [writer.tensor(t) for t in tensors],
    }


def hashed_data(outputs: Sequence[Tensor]) -> list[Any]:
    """Return the data of the graph behind ``outputs``, and texts that tell its functions apart."""
    functions: list[ExternFunction] = []
    data = to_data(outputs, functions)
    return [data, [function.identity for function in functions]]


def from_data(data: Any, functions: Sequence[ExternFunction] = ()) -> tuple[Tensor, ...]:
    """Return the tensors that :func:`to_data` described, which call ``functions``.

    Raises :class:`~schedlang.errors.ComputeError`, which names the item, for data that
    ``sl.placeholder``, ``sl.compute``, ``sl.scan`` and ``sl.extern`` could not have produced.
    """
    return rebuild(data, functions)


def pickle_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """Return what pickle needs to rebuild a tensor: the operations behind it.

    In one pickle, tensors keep what they share.
    """
    from schedlang.compute.pieces import input_of, operations_and_places, output_of, piece_of

    if isinstance(tensor.op, PlaceholderOp):
        return input_of, piece_of(tensor.op)
    return output_of, operations_and_places([tensor])


def _load_tensor(data: Any) -> Tensor:
    # pickles of earlier versions
    return from_data(data)[0]


def pickle_operation(op: Any) -> tuple[Any, ...]:
    """Return what pickle needs to rebuild an operation that is not an input."""
    from schedlang.compute.pieces import operation_of, piece_of

    return operation_of, piece_of(op)


copyreg.pickle(Tensor, pickle_tensor)
for _kind in (ComputeOp, ScanOp, ExternOp):
    copyreg.pickle(_kind, pickle_operation)


@dataclass(frozen=True)
class Structure:
    """The structure of a computation, without names and integer extents.

    ``key`` is the SHA-256 hash, in hex, of its anonymous data form. ``extents`` are the integer
    extents of its tensors and axes, in the order of that form.
    """

    key: str
    extents: tuple[int, ...]


def structure(outputs: Tensor | Sequence[Tensor]) -> Structure:
    """Return the structure of ``outputs``, which does not depend on names or shared expressions.

    >>> import schedlang as sl
    >>> A, X = sl.placeholder((4,), name="A"), sl.placeholder((8,), name="X")
    >>> B = sl.compute((4,), lambda i: A[i] + 1, name="B")
    >>> Y = sl.compute((8,), lambda j: X[j] + 1, name="Y")
    >>> structure(B).key == structure(Y).key, structure(B).extents, structure(Y).extents
    (True, (4, 4), (8, 8))
    """
    tensors = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    writer = Writer(anonymous=True)
    for op in everything(tensors):
        writer.forget_expressions()
        writer.operation(op)
    text = json.dumps([writer.items, [writer.tensor(t) for t in tensors]], allow_nan=False)
    return Structure(hashlib.sha256(text.encode()).hexdigest(), tuple(writer.extents))


def expr_from_data(data: Any, leaves: Mapping[str, Expr]) -> Expr:
    """Return the expression that :func:`expr_to_data` described, with leaves from ``leaves``.

    Raises :class:`~schedlang.errors.ComputeError` for an unknown leaf and for invalid data.
    """
    return rebuild_expr(data, leaves)


__all__ = ["Graph", "Structure", "dumps", "expr_from_data", "expr_to_data", "from_data", "loads",
           "structure", "to_data"]  # fmt: skip
