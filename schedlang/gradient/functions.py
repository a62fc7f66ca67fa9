"""The derivatives of the math functions, found and simplified by sympy, as expressions.

sympy differentiates each function once in a process, when a gradient first needs it. What it
returns is written over the operands and, where that is shorter, the value of the function, which is
already computed: ``tanh`` has the derivative ``1 - y*y``.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from schedlang.expr.functions import FUNCTIONS
from schedlang.expr.nodes import Binary, Expr
from schedlang.gradient.algebra import divide, negative, number, plus, times
from schedlang.language.calls import call

# functions whose derivative is 0 wherever they have one
FLAT = tuple(f.name for f in FUNCTIONS.values() if f.rule == "whole")
DIFFERENTIABLE = tuple(f.name for f in FUNCTIONS.values() if f.rule == "float" and f.sympy)


def derivative(fn: str, place: int, args: tuple[Expr, ...], value: Expr) -> Expr:
    """Return the derivative of ``fn(*args)`` by the argument at ``place``.

    ``value`` is the value of the call; the derivative is computed in its dtype.

    >>> from schedlang.expr.nodes import Var
    >>> x = Var("x", "float32", weak=False)
    >>> derivative("tanh", 0, (x,), Var("y", "float32", weak=False))
    1 - y * y
    >>> derivative("erf", 0, (x,), x)
    exp(-(x * x)) * 1.1283791670955126
    """
    formula = _formula(fn, place)
    return _expression(formula, {"x0": args[0], "x1": args[-1], "y": value}, value.dtype)


@cache
def _formula(fn: str, place: int) -> Any:
    """Return the derivative as a sympy expression over ``x0``, ``x1`` and the value ``y``."""
    import sympy

    row = FUNCTIONS[fn]
    names: dict[str, Any] = {n: sympy.Symbol(n, real=True) for n in ("x0", "x1", "y")}
    derivative = sympy.diff(sympy.sympify(row.sympy, names), names[f"x{place}"])
    if row.known is None:
        return sympy.simplify(derivative)
    # roots are positive
    positive = sympy.Symbol("y", positive=True)
    part, value = (sympy.sympify(text, names) for text in row.known)
    derivative = derivative.subs(part, value).subs(names["y"], positive)
    return sympy.simplify(derivative).subs(positive, names["y"])


def _expression(formula: Any, leaves: dict[str, Expr], dtype: str) -> Expr:
    """Return a sympy expression over ``leaves`` as one of ours, with products in order."""

    def expr_of(part: Any) -> Expr:
        return _expression(part, leaves, dtype)

    if formula.is_Symbol:
        return leaves[formula.name]
    if formula.is_number:
        return number(float(formula), dtype)
    if formula.is_Add:
        # positive terms first, and constants before others: 1 - y*y
        terms = sorted(formula.args, key=lambda t: (t.could_extract_minus_sign(), not t.is_number))
        total: Expr = number(0, dtype)
        for term in terms:
            sign = term.could_extract_minus_sign()
            total = plus(total, negative(expr_of(-term)) if sign else expr_of(term))
        return total
    if formula.is_Mul:
        return _product(formula, expr_of, dtype)
    if formula.is_Pow:
        return _power(formula, expr_of, dtype)
    return call(formula.func.__name__.lower(), *map(expr_of, formula.args))


def _product(formula: Any, expr_of: Any, dtype: str) -> Expr:
    """Return a product as a quotient of two, with its number last."""
    above: Expr = number(1, dtype)
    below: Expr = number(1, dtype)
    factor = 1.0
    for part in formula.args:
        if part.is_number:
            factor *= float(part)
        elif part.is_Pow and part.exp.is_Integer and part.exp < 0:
            below = times(below, expr_of(1 / part))
        else:
            above = times(above, expr_of(part))
    scaled = divide(times(above, number(abs(factor), dtype)), below)
    return negative(scaled) if factor < 0 else scaled


def _power(formula: Any, expr_of: Any, dtype: str) -> Expr:
    base, power = formula.base, formula.exp
    if power.is_Integer and abs(int(power)) <= 4:
        factor = expr_of(base)
        total = factor
        for _ in range(abs(int(power)) - 1):
            total = times(total, factor)
        return total if power > 0 else divide(number(1, dtype), total)
    if float(power) not in (0.5, -0.5):
        return Binary("**", expr_of(base), number(float(power), dtype), dtype)
    return call("sqrt" if power > 0 else "rsqrt", expr_of(base))
