"""Python's operators on expressions, and their text.

They are set on :class:`Expr` when the package is imported, since an operator makes nodes of every
kind, and every kind of node is a subclass of ``Expr``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Expr, ExprLike
from schedlang.expr.operators import COMPARISON
from schedlang.expr.operators import OPERATORS as ROWS
from schedlang.expr.printer import text
from schedlang.expr.symbolic import to_sympy
from schedlang.expr.visit import axes_in
from schedlang.language.calls import call
from schedlang.language.construct import binary, cast, unary
from schedlang.language.foreign import NUMBA_TYPE
from schedlang.language.ufuncs import apply_ufunc

BINARY = {o.method: o.symbol for o in ROWS.values() if o.kind != COMPARISON}
EQUAL = {"eq": "==", "ne": "!="}
COMPARED = {
    o.method: o.symbol for o in ROWS.values() if o.kind == COMPARISON and o.method not in EQUAL
}

OPERANDS = (Expr, int, float, complex, np.generic)
Operator = Callable[[Expr, ExprLike], Expr]


def is_array(value: Any) -> bool:
    """Return whether ``value`` is a whole tensor, whose own operators take an expression."""
    return (
        not isinstance(value, OPERANDS)
        and hasattr(value, "as_scalar")
        and (getattr(value, "ndim", 0) > 0)
    )


def _forward(op: str) -> Operator:
    def method(self: Expr, other: ExprLike) -> Expr:
        return NotImplemented if is_array(other) else binary(op, self, other)

    return method


def _reflected(op: str) -> Operator:
    def method(self: Expr, other: ExprLike) -> Expr:
        if op == "+" and type(other) is int and other == 0 and self.dtype != "bool":
            # Python's sum() starts from 0, which would only lengthen the expression
            return self
        return binary(op, other, self)

    return method


def _equality(op: str) -> Operator:
    def method(self: Expr, other: Any) -> Any:
        if not isinstance(other, OPERANDS) and getattr(other, "ndim", None) != 0:
            return NotImplemented
        return binary(op, self, other)

    return method


def astype(self: Expr, dtype: object) -> Expr:
    """Return this expression converted to ``dtype`` (NumPy's ``astype``)."""
    return cast(self, dtype)


def equal(self: Expr, other: ExprLike) -> Expr:
    """Return ``self == other``; te programs call it ``equal``."""
    return binary("==", self, other)


def _iter(self: Expr) -> NoReturn:
    reduced = [axis.name for axis in axes_in([self]) if axis.is_reduce]
    listed = reduced[0] if len(reduced) == 1 else f"[{', '.join(reduced)}]"
    element = "..." if isinstance(self, Axis) else str(self)
    if reduced:
        hint = f"To sum over {', '.join(reduced)}, write sl.sum({element}, axis={listed})."
    else:
        hint = "To sum over an axis, write sl.sum(..., axis=k), where k = sl.reduce_axis(extent)."
    what = "an axis" if isinstance(self, Axis) else "one value"
    why = f"it is {what}, which cannot be iterated over"
    raise ComputeTypeError(explain(f"iterating over {self}", why, hint))


def _array_ufunc(self: Expr, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Expr:
    if any(is_array(v) for v in inputs):
        return NotImplemented
    return apply_ufunc(ufunc, method, inputs, kwargs)


OPERATORS: dict[str, Callable[..., Any]] = {
    **{f"__{name}__": _forward(op) for name, op in (BINARY | COMPARED).items()},
    **{f"__r{name}__": _reflected(op) for name, op in BINARY.items()},
    "__neg__": lambda self: unary("-", self),
    "__pos__": lambda self: self,
    "__invert__": lambda self: unary("~", self),
    "__abs__": lambda self: call("abs", self),
}
EQUALITIES: dict[str, Callable[..., Any]] = {
    f"__{name}__": _equality(op) for name, op in EQUAL.items()
}


def conj(self: Expr) -> Expr:
    """Return the complex conjugate of this expression."""
    return call("conj", self)


PARTS = {
    "real": property(lambda self: call("real", self), doc="The real part."),
    "imag": property(lambda self: call("imag", self), doc="The imaginary part."),
    "_numba_type_": NUMBA_TYPE,
}
OTHERS: dict[str, Callable[..., Any]] = {
    "conj": conj,
    "conjugate": conj,
    "astype": astype,
    "equal": equal,
    "__array_ufunc__": _array_ufunc,
    "__iter__": _iter,
    "__str__": lambda self: text(self),
    "_sympy_": lambda self: to_sympy(self),
}

for _name, _method in (OPERATORS | EQUALITIES | OTHERS).items():
    _method.__name__ = _name
    _method.__qualname__ = f"Expr.{_name}"
    setattr(Expr, _name, _method)
for _name, _part in PARTS.items():
    setattr(Expr, _name, _part)
