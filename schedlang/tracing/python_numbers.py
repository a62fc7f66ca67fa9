"""Python's numbers in a trace: their operators return Python's numbers, NumPy's functions NumPy's.

``t * 0.5`` of a float ``t`` takes the dtype of an array that it meets; ``np.sqrt(t)`` is float64.
``t < u`` is a bool of Python, which counts as 0 or 1; ``np.less(t, u)`` is one of NumPy, whose sum
is logical. The expression of a number of Python is weak.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Cast, Expr
from schedlang.language.construct import as_expr, const, select, settle
from schedlang.tracing.calls import compute_once
from schedlang.tracing.items import plain
from schedlang.tracing.leaves import is_traced, sequence_of
from schedlang.tracing.powers import check_power
from schedlang.tracing.trace import Value

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "pow": np.power,
    "lshift": np.left_shift, "rshift": np.right_shift,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
# these return bool for two bools of Python; the others count them as 0 and 1
_LOGICAL = ("and", "or", "xor")
_COMPARISONS = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
# functions that return a bool of Python
_BOOLS = (np.allclose, np.array_equal, np.array_equiv)
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def are_of_python(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers of Python, known or not."""
    return all(map(_is_of_python, values))


def _is_of_python(value: Any) -> bool:
    if is_traced(value):
        return isinstance(value.value, Expr) and value.value.weak
    return type(value) in (bool, int, float, complex)


def _is_bool_of_python(value: Any) -> bool:
    if is_traced(value):
        return isinstance(value.value, Expr) and value.value.weak and value.value.dtype == "bool"
    return type(value) is bool


def bool_of_python(value: Any) -> Expr:
    """Return a scalar of bool as a bool of Python.

    >>> bool_of_python(const(True)).weak, bool_of_numpy(bool_of_python(const(True))).weak
    (True, False)
    """
    scalar = as_expr(value)
    return scalar if scalar.weak else Cast(scalar, "bool", weak=True)


def bool_of_numpy(value: Expr) -> Expr:
    """Return a scalar of bool as a bool of NumPy."""
    if not value.weak:
        return value
    is_marked = isinstance(value, Cast) and value.a.dtype == "bool" and not value.a.weak
    return value.a if is_marked else Cast(value, "bool")  # type: ignore[attr-defined]


def expression_of(value: Any) -> Expr:
    """Return the expression of a number; one of Python is weak."""
    return bool_of_python(as_expr(value)) if type(value) is bool else as_expr(plain(value))


def of_numpy(value: Any) -> Any:
    """Return results of which numbers have a dtype of their own, as NumPy's functions return."""
    if isinstance(value, (tuple, list)):
        return sequence_of(type(value), map(of_numpy, value))
    if not isinstance(value, Expr):
        return value
    return bool_of_numpy(value) if value.dtype == "bool" else settle(value, "float64")


def result_of(function: Any, args: Sequence[Any], value: Any) -> Any:
    """Return the result of one of NumPy's functions, of which some return bools of Python."""
    if function in _BOOLS or (function is np.isreal and are_of_python(args)):
        return bool_of_python(value)
    return of_numpy(value)


def class_of(value: Value) -> type:
    """Return the class of the array, of NumPy's scalar or of Python's number with this value."""
    if isinstance(value, Tensor) and value.ndim:
        return np.ndarray
    kind = np.dtype(value.dtype).type
    weak = isinstance(value, Expr) and value.weak
    kinds = {"i": int, "u": int, "f": float, "b": bool, "c": complex}
    return kinds.get(np.dtype(kind).kind, kind) if weak else kind


def add_operators(kind: Any, wrap: Callable[[Any], Any]) -> None:
    """Let the operators of ``kind`` return numbers of Python for numbers of Python."""
    for name, ufunc in {**_BINARY, **_UNARY, **_COMPARISONS}.items():
        for method, order in ((f"__{name}__", 1), (f"__r{name}__", -1)):
            if hasattr(kind, method):
                own = getattr(kind, method)
                setattr(kind, method, _operator(own, ufunc, order, wrap, name))


def _operator(
    whole: Callable[..., Any], ufunc: Any, order: int, wrap: Callable[[Any], Any], name: str
) -> Callable[..., Any]:
    counts = name not in _LOGICAL

    def counted(value: Any) -> Any:
        if not _is_bool_of_python(value):
            return value
        return wrap(select(value.value, const(1), const(0))) if is_traced(value) else int(value)

    def operator(self: Any, *others: Any) -> Any:
        if not self.is_scalar:
            return whole(self, *others)
        # beside a bool of NumPy, one of Python is logical, too
        given = tuple(map(counted, (self, *others))) if counts else (self, *others)
        if not are_of_python(given):
            return whole(self, *others)
        are_bools = all(map(_is_bool_of_python, given))
        operands = (given if are_bools else tuple(map(counted, given)))[::order]
        check_power(ufunc, operands, {})
        result = compute_once(ufunc, tuple(map(plain, operands)), {})
        return wrap(bool_of_python(result) if are_bools or name in _COMPARISONS else result)

    operator.__name__, operator.__doc__ = whole.__name__, whole.__doc__
    return operator
