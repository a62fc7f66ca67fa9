"""The conversion of expressions to sympy, for ``sympy.sympify`` and for ``subs({n: 4})``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from schedlang.expr.dtypes import is_float, is_integer
from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import (
    ArrayRead,
    Axis,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Select,
    Unary,
    Var,
)
from schedlang.expr.operators import BITS, COMPARISON, OPERATORS
from schedlang.expr.visit import postorder

# functions that sympy has, and their names there
_KNOWN = {
    f.name: f.sympy.partition("(")[0]
    for f in FUNCTIONS.values()
    if re.fullmatch(r"\w+\(x0(, x1)?\)", f.sympy)
}


def symbol(node: Var | Axis) -> Any:
    """Return the sympy symbol of a size (a positive integer), a scalar argument or an axis."""
    import sympy

    if isinstance(node, Axis):
        return sympy.Symbol(node.name, integer=True)
    if node.is_size:
        return sympy.Symbol(node.name, integer=True, positive=True)
    if is_integer(node.dtype):
        return sympy.Symbol(node.name, integer=True)
    return sympy.Symbol(node.name, real=True) if is_float(node.dtype) else sympy.Symbol(node.name)


def to_sympy(value: Expr | int) -> Any:
    """Return ``value`` as a sympy expression over the symbols of its sizes and axes.

    ``//`` becomes ``floor`` or ``ceiling``; conversions between dtypes disappear; an element
    ``A[i]`` becomes an ``Indexed``.

    >>> n = Var("n")
    >>> to_sympy(n * 2 + 1), to_sympy((n + 31) // 32)
    (2*n + 1, ceiling(n/32))
    """
    import sympy

    if isinstance(value, int):
        return sympy.Integer(value)
    converted: dict[int, Any] = {}
    for node in postorder([value]):
        converted[id(node)] = _converted(node, [converted[id(c)] for c in node.children])
    return converted[id(value)]


def _converted(node: Expr, parts: list[Any]) -> Any:
    import sympy

    if isinstance(node, (Var, Axis)):
        return symbol(node)
    if isinstance(node, Const):
        whole = isinstance(node.value, float) and node.value.is_integer()
        return sympy.sympify(int(node.value) if whole else node.value)
    if isinstance(node, Cast):
        return parts[0]
    if isinstance(node, Unary):
        if node.op == "-":
            return -parts[0]
        return sympy.Not(parts[0]) if node.dtype == "bool" else -parts[0] - 1
    if isinstance(node, Binary):
        return _binary(node, *parts)
    if isinstance(node, Select):
        return sympy.Piecewise((parts[1], parts[0]), (parts[2], True))
    if isinstance(node, ArrayRead):
        name = node.source
        return sympy.IndexedBase(name)[tuple(parts)] if parts else sympy.Symbol(name)
    if isinstance(node, Call) and node.fn in _KNOWN:
        return getattr(sympy, _KNOWN[node.fn])(*parts)
    if isinstance(node, Call):
        return sympy.Function(node.fn)(*parts)
    raise TypeError(f"{type(node).__name__} has no form in sympy")


def _binary(node: Binary, a: Any, b: Any) -> Any:
    import sympy

    row = OPERATORS[node.op]
    if row.kind == COMPARISON or (row.kind == BITS and node.dtype == "bool"):
        # sympy has the names of Python's methods, such as Lt and And
        return getattr(sympy, row.method.capitalize())(a, b)
    others: dict[str, Callable[[Any, Any], Any]] = {
        "//": floor_of, "<<": lambda x, y: x * 2**y, ">>": lambda x, y: sympy.floor(x / 2**y),
    }  # fmt: skip
    unknown = sympy.Function(row.ufunc) if row.kind == BITS else row.of_python
    return others.get(node.op, unknown)(a, b)


def floor_of(num: Any, den: Any) -> Any:
    """Return ``num // den``, as a ``ceiling`` if that is shorter, as for ``(n + 31)//32``.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True)
    >>> floor_of(n + 7, sympy.Integer(8)), floor_of(n, sympy.Integer(8))
    (ceiling(n/8), floor(n/8))
    """
    import sympy

    if den.is_Integer and den > 1 and not num.is_number:
        offset, rest = num.as_coeff_Add()
        if offset.is_Integer and offset % den == den - 1 and rest.is_integer:
            return sympy.ceiling(rest / den) + (offset - (den - 1)) / den
    return sympy.floor(num / den)
