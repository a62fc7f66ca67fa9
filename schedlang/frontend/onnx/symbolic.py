"""Arithmetic on arrays whose elements are symbolic sizes: numbers and expressions over sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.arrays.shapes import extent
from schedlang.errors import FrontendError
from schedlang.expr.nodes import Expr
from schedlang.frontend.onnx.elements import DTYPES, array_dtype
from schedlang.frontend.onnx.limits import LONGEST_SIZE
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.calls import call
from schedlang.language.construct import as_expr


class _Unknown(Exception):
    """A result that the sizes decide when the network runs."""


def compute(operator: str, arrays: Sequence[Any], attributes: dict[str, Any]) -> np.ndarray | None:
    """Return the result of an operator, or ``None`` if it has no form for symbolic sizes."""
    try:
        if operator in ("ReduceProd", "ReduceSum"):
            return _reduce(operator, *arrays, **attributes)
        if operator == "Cast":
            # sizes are integers of any width
            return arrays[0] if DTYPES.get(attributes["to"], "").startswith("int") else None
        if attributes.get("fmod"):
            return None
        function = _ELEMENTS.get(operator)
        if function is None:
            return None
        result = _each(function, *arrays)
        for more in () if operator not in ("Min", "Max") else arrays[2:]:
            result = _each(function, result, more)
        return result
    except _Unknown:
        return None


def settle(array: np.ndarray, dtype: str) -> np.ndarray:
    """Return an array of numbers for one of objects that are all numbers; any other unchanged."""
    if array.dtype != object:
        return array
    items = [extent(v) if isinstance(v, Expr) else v for v in array.ravel().tolist()]
    if any(isinstance(v, Expr) for v in items):
        return array
    return np.array(items, array_dtype(dtype)).reshape(array.shape)


def scalar(item: Any) -> np.ndarray:
    """Return a number or a size as an array of no dimensions."""
    if not isinstance(item, Expr):
        return np.asarray(item)
    array = np.empty((), object)
    array[()] = item
    return array


def vector(shape: Sequence[Any]) -> np.ndarray:
    """Return a shape as a vector, of dtype object if an extent is symbolic."""
    if not any(isinstance(e, Expr) for e in shape):
        return np.array(shape, "int64")
    array = np.empty(len(shape), object)
    for k, e in enumerate(shape):
        array[k] = e
    return array


def _each(function: Callable[..., Any], *arrays: Any) -> np.ndarray:
    pair = np.broadcast_arrays(*arrays[:2])
    rows = zip(*(a.ravel().tolist() for a in pair))
    items = [_short(function(*row)) for row in rows]
    if items and all(isinstance(v, bool) for v in items):
        return np.array(items, "bool").reshape(pair[0].shape)
    results = np.empty(len(items), object)
    for k, item in enumerate(items):
        results[k] = item
    return results.reshape(pair[0].shape)


def _short(value: Any) -> Any:
    size = extent(value) if isinstance(value, Expr) else value
    if isinstance(size, int) and not -(2**63) <= size < 2**63:
        raise FrontendError("from_onnx: the model computes a size that no int64 holds")
    if not isinstance(size, Expr):
        return size
    if len(str(size)) > LONGEST_SIZE:
        raise FrontendError(
            "from_onnx: the model computes a size of more than "
            f"{LONGEST_SIZE} characters from symbolic sizes; import it with numbers for them"
        )
    return size


def _sign(a: Any, b: Any) -> int:
    """Return the sign of ``a - b`` if it is the same at all sizes."""
    ranges, left, right = Ranges(), to_lin(a), to_lin(b)
    if left == right:
        return 0
    if ranges.nonneg(left - right - 1):
        return 1
    if ranges.nonneg(right - left - 1):
        return -1
    raise _Unknown


def _quotient(a: Any, b: Any) -> Any:
    """Return ``a`` divided by a number, rounded down: toward zero, since ``a`` is not negative."""
    if not isinstance(b, int) or b <= 0 or not Ranges().nonneg(to_lin(a)):
        raise _Unknown
    return as_expr(a) // b


def _remainder(a: Any, b: Any) -> Any:
    if not isinstance(b, int) or b <= 0:
        raise _Unknown
    return as_expr(a) % b


def _reduce(
    operator: str,
    data: Any,
    axes_in: Any = None,
    *,
    axes: Any = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> np.ndarray:
    if data.ndim != 1 or noop_with_empty_axes:
        raise _Unknown
    total: Any = 1 if operator == "ReduceProd" else 0
    for item in data.tolist():
        total = _short(as_expr(total) * item if operator == "ReduceProd" else as_expr(total) + item)
    result = np.empty(1 if keepdims else (), object)
    result[...] = total
    return result


_ELEMENTS: dict[str, Callable[..., Any]] = {
    "Add": lambda a, b: as_expr(a) + b,
    "Sub": lambda a, b: as_expr(a) - b,
    "Mul": lambda a, b: as_expr(a) * b,
    "Div": _quotient,
    "Mod": _remainder,
    "Min": lambda a, b: call("min", a, b),
    "Max": lambda a, b: call("max", a, b),
    "Neg": lambda a: -as_expr(a),
    "Equal": lambda a, b: _sign(a, b) == 0,
    "Less": lambda a, b: _sign(a, b) < 0,
    "LessOrEqual": lambda a, b: _sign(a, b) <= 0,
    "Greater": lambda a, b: _sign(a, b) > 0,
    "GreaterOrEqual": lambda a, b: _sign(a, b) >= 0,
}
