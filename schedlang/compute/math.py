"""The functions of the language; NumPy's ufuncs on expressions build the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from schedlang.compute.reduce import Reduction, is_reduction, truth
from schedlang.errors import ComputeTypeError
from schedlang.expr import construct
from schedlang.expr.construct import as_expr, binary, cast, const, unary
from schedlang.expr.functions import call
from schedlang.expr.nodes import Expr, ExprLike


def _function(name: str, doc: str) -> Callable[[ExprLike], Expr]:
    def function(x: ExprLike) -> Expr:
        return call(name, x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{doc}\n\n    Integers are computed in the float dtype NumPy would use.\n    "
    )
    return function


exp = _function("exp", "e to the power ``x``.")
exp2 = _function("exp2", "2 to the power ``x``.")
log = _function("log", "The natural logarithm of ``x``.")
log2 = _function("log2", "The logarithm of ``x`` to base 2.")
log10 = _function("log10", "The logarithm of ``x`` to base 10.")
log1p = _function("log1p", "``log(1 + x)``, exact near 0.")
expm1 = _function("expm1", "``exp(x) - 1``, exact near 0.")
sqrt = _function("sqrt", "The square root of ``x``.")
rsqrt = _function("rsqrt", "``1 / sqrt(x)``.")
sin = _function("sin", "The sine of ``x`` in radians.")
cos = _function("cos", "The cosine of ``x`` in radians.")
tan = _function("tan", "The tangent of ``x`` in radians.")
asin = _function("asin", "The inverse sine of ``x``.")
acos = _function("acos", "The inverse cosine of ``x``.")
atan = _function("atan", "The inverse tangent of ``x``.")
sinh = _function("sinh", "The hyperbolic sine of ``x``.")
cosh = _function("cosh", "The hyperbolic cosine of ``x``.")
tanh = _function("tanh", "The hyperbolic tangent of ``x``.")
sigmoid = _function("sigmoid", "``1 / (1 + exp(-x))``.")
erf = _function("erf", "The error function of ``x``.")
floor = _function("floor", "The largest integral value not above ``x``; integers stay as they are.")
ceil = _function("ceil", "The smallest integral value not below ``x``.")
trunc = _function("trunc", "``x`` rounded toward zero.")
round = _function("round", "``x`` rounded to the nearest integral value, ties to even.")  # noqa: A001
abs = _function("abs", "The magnitude of ``x``.")  # noqa: A001
isnan = _function("isnan", "Whether ``x`` is NaN.")
isinf = _function("isinf", "Whether ``x`` is infinite.")
isfinite = _function("isfinite", "Whether ``x`` is neither infinite nor NaN.")


def pow(x: ExprLike, y: ExprLike) -> Expr:  # noqa: A001
    """Return ``x`` to the power ``y``, as ``x ** y``."""
    return binary("**", x, y)


def atan2(y: ExprLike, x: ExprLike) -> Expr:
    """Return the angle of the point ``(x, y)``."""
    return call("atan2", y, x)


def select(cond: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """Return ``a`` where ``cond`` holds, else ``b``.

    Both are evaluated, so that both must be in bounds.
    """
    return construct.select(cond, a, b)


def if_then_else(cond: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """Return ``a`` where ``cond`` holds, else ``b``; only the chosen one is evaluated.

    Its condition may guard reads that would leave their tensor::

        sl.if_then_else(i >= 1, A[i - 1], 0)
    """
    return construct.select(cond, a, b, lazy=True)


def all(*conditions: Any, axis: Any = None, where: Any = None) -> Any:  # noqa: A001
    """Return whether every condition holds; with ``axis`` a reduction.

    ``all(x, axis=k)`` is true where no ``x`` along the reduction axes ``k`` is 0, and of nothing.

    >>> import numpy as np, schedlang as sl
    >>> A, k = sl.placeholder((2, 3), name="A"), sl.reduce_axis(3, name="k")
    >>> C = sl.compute((2,), lambda i: sl.all(A[i, k] > 0, axis=k), name="C")
    >>> sl.reference(C)(np.array([[1, 2, 3], [1, 0, 3]], "float32"))
    array([ True, False])
    """
    found = _reduced("all", conditions, axis, where)
    return _joined("&", "all", conditions) if found is None else found


def any(*conditions: Any, axis: Any = None, where: Any = None) -> Any:  # noqa: A001
    """Return whether at least one condition holds; with ``axis`` a reduction, as in :func:`all`."""
    found = _reduced("any", conditions, axis, where)
    return _joined("|", "any", conditions) if found is None else found


def _reduced(name: str, given: tuple[Any, ...], axis: Any, where: Any) -> Reduction | None:
    """Return the reduction that is asked for by ``axis=``, or by an axis after the value."""
    values = list(given)
    if axis is None and len(values) == 2 and is_reduction(values[1]):
        axis = values.pop()
    if axis is None and where is None:
        return None
    if len(values) != 1:
        raise ComputeTypeError(
            f"sl.{name}(..., axis=...) takes one condition, got {len(values)}; combine them first: "
            f"sl.{name}(sl.{name}(a, b), axis=k)"
        )
    return truth(name, values[0], axis, where)


def _joined(op: str, name: str, conditions: tuple[Any, ...]) -> Expr:
    items = [as_expr(c) for c in conditions]
    if not items:
        raise ComputeTypeError(f"sl.{name}() without arguments: give at least one condition")
    for item in items:
        if item.dtype != "bool":
            raise ComputeTypeError(
                f"sl.{name}({item}): a condition is bool, not {item.dtype}; compare it, "
                f"e.g. {item} != 0"
            )
    result = items[0]
    for item in items[1:]:
        result = binary(op, result, item)
    return result


def logical_not(cond: ExprLike) -> Expr:
    """Return whether ``cond`` does not hold."""
    value = as_expr(cond)
    if value.dtype != "bool":
        raise ComputeTypeError(
            f"sl.logical_not({value}): a condition is bool, not {value.dtype}; compare it, "
            f"e.g. {value} != 0"
        )
    return unary("~", value)


__all__ = [
    "abs", "acos", "all", "any", "asin", "atan", "atan2", "cast", "ceil", "const", "cos", "cosh",
    "erf", "exp", "exp2", "expm1", "floor", "if_then_else", "isfinite", "isinf", "isnan", "log",
    "log10", "log1p", "log2", "logical_not", "pow", "round", "rsqrt", "select", "sigmoid", "sin",
    "sinh", "sqrt", "tan", "tanh", "trunc",
]  # fmt: skip
