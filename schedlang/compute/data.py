"""A computation as plain data: JSON in, JSON out, and pickling on top of it.

The form is one flat list of items that refer to earlier items by number, so that depth is no
limit. Reading it back checks every item: data from a stranger can build a computation or be
refused, and nothing else.
"""

from __future__ import annotations

import copyreg
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.compute.flatten import FORMAT, VERSION, Writer, everything, expr_to_data
from schedlang.compute.rebuild import rebuild, rebuild_expr
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError
from schedlang.expr.nodes import Expr


@dataclass(frozen=True)
class Graph:
    """Tensors that pickle together and stay one graph (each alone would bring its own copy).

    >>> import pickle, schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> B = sl.compute((4,), lambda i: A[i] + 1, name="B")
    >>> a, b = pickle.loads(pickle.dumps(Graph((A, B)))).tensors
    >>> b.op.input_tensors[0] is a
    True
    """

    tensors: tuple[Tensor, ...]

    def __reduce__(self) -> Any:
        return _load_graph, (to_data(self.tensors),)


def _load_graph(data: Any) -> Graph:
    return Graph(from_data(data))


def dumps(outputs: Tensor | Sequence[Tensor]) -> str:
    """Return what :func:`to_data` does, as JSON text."""
    return json.dumps(to_data(outputs), allow_nan=False)


def loads(text: str | bytes) -> tuple[Tensor, ...]:
    """Return the tensors behind :func:`dumps`' text, checked as :func:`from_data` checks."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ComputeError(f"the text of a computation is not JSON: {error}") from None
    return from_data(data)


def to_data(outputs: Tensor | Sequence[Tensor]) -> dict[str, Any]:
    """Return the graph behind ``outputs`` as lists, strings and numbers that JSON can hold.

    ``items`` describes axes, sizes, expressions, reducers and operations, each after what it
    needs, ``outputs`` the wanted tensors as ``[item, output number]``. An extent is a number, or
    ``[item]`` for an expression; infinities and NaN are strings. Names, sharing and the identity
    of axes are kept.

    >>> import schedlang as sl
    >>> to_data(sl.placeholder((4,), name="A"))["items"]
    [['placeholder', 'A', [4], 'float32']]
    """
    tensors = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    writer = Writer()
    for op in everything(tensors):
        writer.operation(op)
    return {
        "format": FORMAT,
        "version": VERSION,
        "items": writer.items,
        "outputs": [writer.tensor(t) for t in tensors],
    }


def from_data(data: Any) -> tuple[Tensor, ...]:
    """Return the tensors that :func:`to_data` described.

    Raises :class:`~schedlang.errors.ComputeError`, naming the item, for anything that is not a
    computation that could have been written with ``sl.placeholder``, ``sl.compute`` and
    ``sl.scan``.
    """
    return rebuild(data)


def pickle_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """Return a tensor pickles as the data of its whole graph.

    Tensors pickled side by side become separate graphs; :class:`Graph` keeps them one.
    """
    return _load_tensor, (to_data(tensor),)


def _load_tensor(data: Any) -> Tensor:
    return from_data(data)[0]


copyreg.pickle(Tensor, pickle_tensor)


@dataclass(frozen=True)
class Structure:
    """A computation's structure without names: ``key`` is a hash (sha256, hex) of its form, and
    ``extents`` has those of its tensors and axes that are numbers, in the order of the form.
    """

    key: str
    extents: tuple[int, ...]


def structure(outputs: Tensor | Sequence[Tensor]) -> Structure:
    """Return the structure of ``outputs``, the same for all names and for any sharing of parts.

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
    """Return the expression that :func:`expr_to_data` described, its leaves taken from ``leaves``.

    Raises :class:`~schedlang.errors.ComputeError` for a leaf that is not there and for anything
    that is no expression.
    """
    return rebuild_expr(data, leaves)


__all__ = ["Graph", "Structure", "dumps", "expr_from_data", "expr_to_data", "from_data", "loads",
           "structure", "to_data"]  # fmt: skip
