"""Operators on small known arrays, computed at import: the arithmetic on shapes.

Exporters write the shapes of reshapes and slices as graphs of such operators. What an operator
computes is the value of its own stages. The elements may be symbolic sizes: for an operator that
only moves elements, the stages move the places of the elements, and
:mod:`~schedlang.frontend.onnx.symbolic` computes with sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.compute.reference import reference
from schedlang.compute.tensor import Tensor
from schedlang.errors import FrontendError
from schedlang.frontend.model_names import Names
from schedlang.frontend.onnx import symbolic
from schedlang.frontend.onnx.call import Call, results_of
from schedlang.frontend.onnx.elements import DTYPES
from schedlang.frontend.onnx.graph import Node
from schedlang.frontend.onnx.limits import MOST_FOLDED
from schedlang.frontend.onnx.operators.elementwise import check_dtypes
from schedlang.frontend.onnx.values import Known, Params, Value

# the inputs whose elements an operator moves, and does not compute with
MOVED = {
    "Concat": slice(None),
    "Where": slice(1, None),
    **dict.fromkeys(
        (
            "Gather",
            "Slice",
            "Squeeze",
            "Unsqueeze",
            "Reshape",
            "Transpose",
            "Flatten",
            "Expand",
            "Tile",
            "Split",
        ),
        slice(1),
    ),
}
COMPUTED = (
    "Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Neg", "Abs", "Sign", "Sqrt", "Floor",
    "Ceil", "Round", "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or",
    "Xor", "Not", "Cast", "ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin",
)  # fmt: skip


def fold(
    node: Node,
    function: Callable[..., Any],
    values: Sequence[Value | None],
    attributes: dict[str, Any],
) -> list[Known] | None:
    """Return what a node computes from small known arrays; ``None`` if it is to be a stage.

    ``function`` makes the stages of the operator.
    """
    constants = [v for v in values if isinstance(v, Known)]
    if node.domain or not constants or not all(v is None or isinstance(v, Known) for v in values):
        return None
    if not all(_few(v.shape) for v in constants):
        return None
    try:
        return _compute(node, function, values, attributes)
    except (ValueError, IndexError, TypeError, KeyError, ArithmeticError) as error:
        if isinstance(error, FrontendError):
            raise
        raise node.refused(f"it does not fit its inputs: {error}") from None


def _few(shape: Sequence[Any]) -> bool:
    """Return whether arrays of a shape are computed at import.

    An extent of 0 counts as 1: without it, as in the middle of a computation, there may be many.
    """
    fixed = all(isinstance(n, int) for n in shape)
    return fixed and math.prod(max(n, 1) for n in shape) <= MOST_FOLDED


def _compute(
    node: Node, function: Callable[..., Any], values: Sequence[Any], attributes: dict[str, Any]
) -> list[Known] | None:
    """Return the results; see :func:`fold`."""
    call = Call(node, Params(Names()), node.operator)
    sized = any(v is not None and v.symbolic for v in values)
    arrays = [None if v is None else v.array for v in values]
    if node.operator in MOVED:
        return _moved(call, function, values, attributes)
    if node.operator not in COMPUTED:
        return None
    if not sized:
        if _without_value(node, arrays):
            return None
        return _values(call, results_of(call, function, values, attributes))
    array = symbolic.compute(node.operator, arrays, attributes)
    if array is None or not _few(array.shape):
        return None
    dtype = DTYPES[attributes["to"]] if node.operator == "Cast" else values[0].dtype
    # the results of tests are arrays of bools
    dtype = dtype if array.dtype == object else array.dtype.name
    return [Known("", symbolic.settle(array, dtype), dtype)]


def _moved(
    call: Call, function: Callable[..., Any], values: Sequence[Any], attributes: dict[str, Any]
) -> list[Known] | None:
    """Return the elements at the places where the operator moves the places of all elements."""
    which = MOVED[call.node.operator]
    moved, places = values[which], list[Known]()
    if any(v is not None and v.symbolic for v in values if v not in moved):
        return None
    for value in moved:
        first = sum(p.array.size for p in places)
        place = np.arange(first, first + value.array.size).reshape(value.shape)
        places.append(Known(value.name, place, "int64"))
    given = list(values)
    given[which] = places
    dtype = check_dtypes(call, *moved)
    elements = np.concatenate([v.array.ravel() for v in moved])
    results = _values(call, results_of(call, function, given, attributes))
    return results and [
        Known("", symbolic.settle(elements[r.array.ravel()].reshape(r.shape), dtype), dtype)
        for r in results
    ]


def _without_value(node: Node, arrays: Sequence[Any]) -> bool:
    """Return whether integers are raised to negative powers; raise if they are divided by 0."""
    if len(arrays) < 2 or arrays[0].dtype.kind not in "iu":
        return False
    if node.operator in ("Div", "Mod") and not np.all(arrays[1]):
        raise node.refused("it does not fit its inputs: a division by 0")
    return node.operator == "Pow" and bool(np.any(arrays[1] < 0))


def _values(call: Call, results: Sequence[Value | None]) -> list[Known] | None:
    """Return the values of stages that need parameters alone; ``None`` if they are not few."""
    if not all(v is not None and _few(v.shape) for v in results):
        return None
    known: list[Known] = []
    for value in results:
        if isinstance(value, Tensor):
            array = call.params.arrays.get(value)
            if array is None:
                evaluated = reference(value)
                array = evaluated(*(call.params.arrays[t] for t in evaluated.inputs))
            value = Known("", np.asarray(array), value.dtype)
        assert value is not None
        known.append(value)
    return known
