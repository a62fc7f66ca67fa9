"""NumPy's ufuncs on expressions: ``np.exp(A[i, j])`` is the same as ``sl.exp(A[i, j])``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from schedlang.errors import ComputeTypeError, text_of
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import Expr
from schedlang.expr.operators import OPERATORS
from schedlang.language.calls import call
from schedlang.language.composed import COMPOSED
from schedlang.language.construct import as_expr, binary, cast, unary
from schedlang.language.foreign import check_ufunc

_OPERATORS = {name: o.symbol for o in OPERATORS.values() for name in (o.ufunc, *o.others)}
_LOGICAL = {o.logical: o.symbol for o in OPERATORS.values() if o.logical}
_UNARY = {"negative": "-", "invert": "~"}
_CALLS = {f.ufunc: f.name for f in FUNCTIONS.values() if f.ufunc}


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Expr:
    """Return the expression for ``ufunc(*inputs)``; raise if the ufunc is not supported.

    One that is not NumPy's is refused whatever its name.
    """
    check_ufunc(ufunc, next(text_of(v) for v in inputs if isinstance(v, Expr)))
    name = ufunc.__name__
    if method != "__call__" or kwargs:
        raise ComputeTypeError(
            f"np.{name}.{method} of an expression: only plain calls such as np.{name}(A[i]) are "
            "supported; for a reduction, use sl.sum, sl.max, ... over a reduce_axis"
        )
    for value in inputs:
        if isinstance(value, np.ndarray) and value.ndim:
            raise ComputeTypeError(
                f"np.{name} of an expression and an array of shape {value.shape}: declare the "
                "array by sl.placeholder and read an element of it"
            )
    args = [v.item() if isinstance(v, np.ndarray) else v for v in inputs]
    return function_of(name)(*args)


def function_of(name: str) -> Callable[..., Expr]:
    """Return the function of expressions for the ufunc ``name``; raise if there is none.

    >>> function_of("add")(2, 3)
    5
    """
    if name in _OPERATORS:
        op = _OPERATORS[name]
        return lambda a, b: binary(op, a, b)
    if name in _UNARY:
        return lambda a: unary(_UNARY[name], a)
    if name in _LOGICAL:
        return lambda a, b: binary(_LOGICAL[name], _truth(a), _truth(b))
    if name == "logical_not":
        return lambda a: unary("~", _truth(a))
    if name == "square":
        return _square
    if name in COMPOSED:
        return COMPOSED[name]
    if name in _CALLS:
        return lambda *args: call(_CALLS[name], *args)
    raise ComputeTypeError(
        f"np.{name} is not supported on expressions; the supported functions are "
        f"{', '.join(sorted({*_NAMES}))}"
    )


def has_form(name: str) -> bool:
    """Return whether :func:`function_of` has a function for the ufunc ``name``."""
    return name in _NAMES


def _square(value: Any) -> Expr:
    operand = as_expr(value)
    operand = cast(operand, "int8") if operand.dtype == "bool" else operand
    return operand * operand


_NAMES = (*_OPERATORS, *_LOGICAL, *_UNARY, *_CALLS, *COMPOSED, "logical_not", "square")


def _truth(value: Any) -> Expr:
    """Return the test that ``value`` is not 0, as NumPy's logical functions apply it."""
    operand = as_expr(value)
    return operand if operand.dtype == "bool" else binary("!=", operand, 0)
