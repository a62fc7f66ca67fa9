"""Polynomials over sizes as plain data, by the names of sizes: to keep, evaluate and print."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Union

from schedlang.errors import CallError
from schedlang.expr.nodes import Var
from schedlang.index.linear import Atom, Div, Extreme, Lin, Mod

# a factor of a term: the name of a size, or an operator with its operands
Factor = Union[str, tuple[str, tuple[Any, ...]]]
# terms: each a coefficient and the factors that it multiplies
Sum = tuple[tuple[int, tuple[Factor, ...]], ...]

_OPERATORS: dict[str, Callable[..., int]] = {
    "//": operator.floordiv, "%": operator.mod, "min": min, "max": max,
}  # fmt: skip


def terms_of(lin: Lin) -> Sum:
    """Return the terms of an extent over sizes, as data.

    >>> n = Lin.of(Var("n"))
    >>> terms_of(n * n - 1)
    ((1, ('n', 'n')), (-1, ()))
    """
    return tuple((coef, tuple(map(_factor, product))) for product, coef in lin.terms.items())


def _factor(atom: Atom) -> Factor:
    if isinstance(atom, Var):
        return atom.name
    if isinstance(atom, (Div, Mod)):
        return "//" if isinstance(atom, Div) else "%", (terms_of(atom.num), terms_of(atom.den))
    if isinstance(atom, Extreme):
        return atom.op, tuple(map(terms_of, atom.args))
    raise CallError(f"the extent {Lin.of(atom)} is not an expression over sizes")


def value_of(terms: Sum, sizes: Mapping[str, int]) -> int:
    """Return the value of an extent for known sizes.

    >>> value_of(((1, ("n", "n")), (-1, ())), {"n": 3})
    8
    """
    total = 0
    for coef, product in terms:
        for factor in product:
            if isinstance(factor, str):
                coef *= sizes[factor]
            else:
                op, args = factor
                coef *= _OPERATORS[op](*(value_of(arg, sizes) for arg in args))
        total += coef
    return total


def multiply(a: Sum, b: Sum) -> Sum:
    """Return the product of two polynomials.

    >>> multiply(((2, ("n",)),), ((1, ("m",)), (3, ())))
    ((2, ('n', 'm')), (6, ('n',)))
    """
    return tuple((x * y, f + g) for x, f in a for y, g in b)


def source_of(terms: Sum, names: Mapping[str, str]) -> str:
    """Return a polynomial as Python; ``names`` has the name there of each size.

    >>> source_of(((2, ("n", "n")), (-1, ("m",)), (-3, ())), {"n": "n", "m": "m_1"})
    '2*n*n - m_1 - 3'
    >>> half = "//", (((1, ("n",)), (1, ())), ((2, ()),))
    >>> source_of(((8, (half,)),), {"n": "n"})
    '8*((n + 1)//2)'
    """
    text = ""
    for coef, product in terms:
        factors = [_factor_source(factor, names) for factor in product]
        term = "*".join(factors if abs(coef) == 1 and factors else [str(abs(coef)), *factors])
        sign = "-" if coef < 0 else "+"
        text = f"{text} {sign} {term}" if text else f"{'-' * (coef < 0)}{term}"
    return text or "0"


def _factor_source(factor: Factor, names: Mapping[str, str]) -> str:
    if isinstance(factor, str):
        return names[factor]
    op, args = factor
    texts = [source_of(arg, names) for arg in args]
    if op in ("min", "max"):
        return f"{op}({', '.join(texts)})"
    a, b = (t if t.isalnum() else f"({t})" for t in texts)
    return f"({a}{op}{b})"
