"""Python's numbers in a trace: their operators return Python's numbers, NumPy's functions NumPy's.

``t * 0.5`` of a float ``t`` takes the dtype of an array that it meets; ``np.sqrt(t)`` is float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Binary, Const, Expr, Select
from schedlang.expr.operators import COMPARISONS
from schedlang.language.construct import const, select, settle
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
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def are_of_python(values: Sequence[Any]) -> bool:
    """Return whether all values are numbers of Python, known or not."""
    return all(map(_is_of_python, values))


def _is_of_python(value: Any) -> bool:
    if is_traced(value):
        return isinstance(value.value, Expr) and value.value.weak
    return type(value) in (bool, int, float, complex)


def _is_bool_of_python(value: Any) -> bool:
    """Return whether a value is a bool of Python: a comparison of its numbers, or made of such.

    ``t and u`` chooses one of two, and ``t & u`` combines them.
    """
    waiting = [value.value] if is_traced(value) else [None]
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, Binary) and expr.op in COMPARISONS:
            waiting += [side for side in (expr.a, expr.b) if not side.weak]
        elif isinstance(expr, (Binary, Select)) and expr.dtype == "bool":
            waiting += [expr.a, expr.b]
        elif not isinstance(expr, Const) or expr.dtype != "bool":
            return False
    return True


def of_numpy(value: Any) -> Any:
    """Return results of which numbers have a dtype of their own, as NumPy's functions return."""
    if isinstance(value, (tuple, list)):
        return sequence_of(type(value), map(of_numpy, value))
    return settle(value, "float64") if isinstance(value, Expr) else value


def class_of(value: Value) -> type:
    """Return the class of the array, of NumPy's scalar or of Python's number with this value."""
    if isinstance(value, Tensor) and value.ndim:
        return np.ndarray
    kind = np.dtype(value.dtype).type
    weak = isinstance(value, Expr) and value.weak
    return {"i": int, "u": int, "f": float}.get(np.dtype(kind).kind, kind) if weak else kind


def add_operators(kind: Any, wrap: Callable[[Any], Any]) -> None:
    """Let the operators of ``kind`` return numbers of Python for numbers of Python."""
    for name, ufunc in {**_BINARY, **_UNARY}.items():
        for method, order in ((f"__{name}__", 1), (f"__r{name}__", -1)):
            if hasattr(kind, method):
                counts = name not in _LOGICAL
                own = getattr(kind, method)
                setattr(kind, method, _operator(own, ufunc, order, wrap, counts))


def _operator(
    whole: Callable[..., Any], ufunc: Any, order: int, wrap: Callable[[Any], Any], counts: bool
) -> Callable[..., Any]:
    def counted(value: Any) -> Any:
        return wrap(select(value.value, const(1), const(0))) if _is_bool_of_python(value) else value

    def operator(self: Any, *others: Any) -> Any:
        if not self.is_scalar:
            return whole(self, *others)
        # beside a bool of NumPy, one of Python is logical, too
        given = tuple(map(counted, (self, *others))) if counts else (self, *others)
        if not are_of_python(given):
            return whole(self, *others)
        operands = [int(v) if type(v) is bool else v for v in given][::order]
        check_power(ufunc, operands, {})
        return wrap(compute_once(ufunc, tuple(map(plain, operands)), {}))

    operator.__name__, operator.__doc__ = whole.__name__, whole.__doc__
    return operator
