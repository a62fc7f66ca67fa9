"""The functions of the language; NumPy's ufuncs build the same expressions."""

from __future__ import annotations

from typing import Any

from schedlang.compute import functions
from schedlang.compute.functions import *
from schedlang.compute.reduce import Reduction, is_reduction, truth
from schedlang.compute.whole import elementwise, traceable
from schedlang.errors import ComputeTypeError, explain, text_of
from schedlang.expr import dtypes
from schedlang.expr.functions import SATURATED
from schedlang.expr.nodes import Expr, ExprLike
from schedlang.language import construct
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, const, unary


@traceable
def popcount(x: Any) -> Any:
    """Return the number of 1 bits of ``|x|`` as uint8, as NumPy's ``bitwise_count``.

    To count the bits of a negative number in two's complement, cast it to an unsigned dtype first.
    A sum of counts needs a wider dtype: ``sl.sum(sl.popcount(A[k]), axis=k, dtype="int32")``.

    Raises :class:`~schedlang.errors.ComputeTypeError` for a float.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((3,), "int32", name="A")
    >>> C = sl.compute((3,), lambda i: sl.popcount(A[i]), name="C")
    >>> sl.reference(C)(np.array([0, 7, -7], "int32"))
    array([0, 3, 3], dtype=uint8)
    """
    return elementwise("popcount", lambda v: call("popcount", v), x)


@traceable
def saturating_cast(x: Any, dtype: object) -> Any:
    """Return ``x`` as the integer dtype, values outside its range as the nearest limit.

    Floats are truncated toward zero; ``sl.saturating_cast(sl.round(x), dtype)`` rounds them to the
    nearest integer instead, ties to even. Infinities become limits, and NaN becomes 0. The name is
    Halide's.

    Raises :class:`~schedlang.errors.ComputeTypeError` for bool, which has no limits, and for a
    float dtype, which holds infinities.

    >>> import numpy as np, schedlang as sl
    >>> A = sl.placeholder((4,), name="A")
    >>> C = sl.compute((4,), lambda i: sl.saturating_cast(sl.round(A[i]), "uint8"), name="C")
    >>> sl.reference(C)(np.array([-3, 2.5, 2.6, 1e9], "float32"))
    array([  0,   2,   3, 255], dtype=uint8)
    """
    name = dtypes.canonical(dtype)
    if name == "bool":
        raise ComputeTypeError(
            f"sl.saturating_cast({x}, 'bool'): a bool has no range of numbers; compare instead, "
            f"e.g. {x} != 0"
        )
    if not dtypes.is_integer(name):
        raise ComputeTypeError(
            explain(
                f"sl.saturating_cast({text_of(x)}, {name!r})",
                f"{name} is not an integer dtype: it holds infinities, so that nothing saturates",
                f"Convert with sl.cast({text_of(x)}, {name!r}), after np.clip for other limits.",
            )
        )
    return elementwise("saturating_cast", lambda v: call(f"{SATURATED}{name}", v), x)


@traceable
def pow(x: Any, y: Any) -> Any:  # noqa: A001
    """Return ``x`` to the power ``y``, as ``x ** y``."""
    return elementwise("power", lambda a, b: binary("**", a, b), x, y)


@traceable
def atan2(y: Any, x: Any) -> Any:
    """Return the angle of the point ``(x, y)``."""
    return elementwise("atan2", lambda a, b: call("atan2", a, b), y, x)


@traceable
def cast(value: Any, dtype: object) -> Any:
    """Return ``value`` converted to ``dtype``, by the rules of NumPy's ``astype``.

    Integers wrap, floats truncate toward zero, anything but zero is ``True``.

    >>> cast(3, "float32").dtype
    'float32'
    """
    return elementwise("astype", lambda v: construct.cast(v, dtype), value)


@traceable
def select(cond: Any, a: Any, b: Any) -> Any:
    """Return ``a`` where ``cond`` holds, else ``b``.

    Both are evaluated, so the reads of both must be in bounds.
    """
    return elementwise("select", construct.select, cond, a, b)


@traceable
def if_then_else(cond: Any, a: Any, b: Any) -> Any:
    """Return ``a`` where ``cond`` holds, else ``b``; only the chosen one is evaluated.

    The condition may guard reads that would be out of bounds::

        sl.if_then_else(i >= 1, A[i - 1], 0)
    """
    return elementwise("select", lambda c, x, y: construct.select(c, x, y, lazy=True), cond, a, b)


@traceable
def all(*conditions: Any, axis: Any = None, where: Any = None) -> Any:  # noqa: A001
    """Return whether every condition holds; with ``axis``, a reduction.

    ``all(x, axis=k)`` is true if no ``x`` along the reduction axes ``k`` is 0, or there is none.

    >>> import numpy as np, schedlang as sl
    >>> A, k = sl.placeholder((2, 3), name="A"), sl.reduce_axis(3, name="k")
    >>> C = sl.compute((2,), lambda i: sl.all(A[i, k] > 0, axis=k), name="C")
    >>> sl.reference(C)(np.array([[1, 2, 3], [1, 0, 3]], "float32"))
    array([ True, False])
    """
    reduced = _reduced("all", conditions, axis, where)
    if reduced is not None:
        return reduced
    return elementwise("all", lambda *given: _joined("&", "all", given), *conditions)


@traceable
def any(*conditions: Any, axis: Any = None, where: Any = None) -> Any:  # noqa: A001
    """Return whether a condition holds; with ``axis``, a reduction, as in :func:`all`."""
    reduced = _reduced("any", conditions, axis, where)
    if reduced is not None:
        return reduced
    return elementwise("any", lambda *given: _joined("|", "any", given), *conditions)


def _reduced(name: str, given: tuple[Any, ...], axis: Any, where: Any) -> Reduction | None:
    """Return the reduction if an axis is given, by keyword or after the value; else ``None``."""
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


@traceable
def logical_not(cond: Any) -> Any:
    """Return whether ``cond`` does not hold."""
    return elementwise("logical_not", _not, cond)


def _not(cond: ExprLike) -> Expr:
    value = as_expr(cond)
    if value.dtype != "bool":
        raise ComputeTypeError(
            f"sl.logical_not({value}): a condition is bool, not {value.dtype}; compare it, "
            f"e.g. {value} != 0"
        )
    return unary("~", value)


__all__ = [
    "all", "any", "atan2", "cast", "const", "if_then_else", "logical_not", "popcount", "pow",
    "saturating_cast", "select",
]  # fmt: skip
__all__ += functions.__all__
