"""Polynomials over sizes as plain data, by the names of sizes: to keep, evaluate, solve and print.

A process that loads a kernel or a network imports this, and no expressions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Union

# a factor of a term: the name of a size, or an operator with its operands
Factor = Union[str, tuple[str, tuple[Any, ...]]]
# terms: each a coefficient and the factors that it multiplies
Sum = tuple[tuple[int, tuple[Factor, ...]], ...]

_OPERATORS: dict[str, Callable[..., int]] = {
    "//": operator.floordiv, "%": operator.mod, "min": min, "max": max,
}  # fmt: skip


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


def solve(extent: Callable[[int], int], length: int) -> int | None:
    """Return the ``n`` with ``extent(n) == length``, if there is one.

    ``extent`` must be strictly monotonic.

    >>> solve(lambda n: 2*n + 1, 9), solve(lambda n: 2*n + 1, 8), solve(lambda n: n*n, 81)
    (4, None, 9)
    """
    start = extent(0)
    step, distance = extent(1) - start, length - start
    if step and distance % step == 0 and extent(distance // step) == length:
        return distance // step
    low, high = 0, abs(distance) + 1
    while low < high:
        middle = (low + high) // 2
        if abs(extent(middle) - start) < abs(distance):
            low = middle + 1
        else:
            high = middle
    return low if extent(low) == length else None


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
