"""The conversion of expressions to index polynomials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Unary, Var
from schedlang.expr.operators import ON_INDICES
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, Opaque, Product, add_term, add_terms
from schedlang.index.rules import Known, extreme, floordiv, mod

MOST_QUICK = 6
# the factor of a larger shift does not fit int64
MOST_SHIFT = 62


def quick(value: Expr, values: Mapping[Any, Lin] | None = None) -> Lin | None:
    """Return the polynomial of a constant, an axis, a size, or a small sum or product of these.

    Most indices are such. Return ``None`` for any other expression.
    """
    if isinstance(value, Const):
        return Lin.of(int(value.value))
    if isinstance(value, (Axis, Var)) and value.weak:
        value_of_leaf = values.get(value) if values else None
        return Lin.of(value) if value_of_leaf is None else value_of_leaf
    return _affine(value, values, MOST_QUICK)


def polynomial(value: Expr, values: Mapping[Any, Lin], ranges: Known) -> Lin:
    """Return the polynomial of ``value``, simplified under ``ranges``.

    Axes and sizes are replaced by ``values``.
    """
    polynomials: dict[int, Lin] = {}
    for node in postorder([value]):
        polynomials[id(node)] = _convert(node, polynomials, values, ranges)
    return polynomials[id(value)]


def _affine(value: Expr, values: Mapping[Axis | Var, Lin] | None, depth: int) -> Lin | None:
    terms: dict[Product, int] = {}
    return Lin(terms) if _add_terms(terms, value, 1, values, depth) else None


def _add_terms(
    terms: dict[Product, int],
    value: Expr,
    times: int,
    values: Mapping[Axis | Var, Lin] | None,
    depth: int,
) -> bool:
    """Add ``value * times`` to ``terms``; return whether it is a small sum or product.

    One dictionary for all of it is faster than a polynomial for each part.
    """
    if isinstance(value, Axis):
        value_of_leaf = values.get(value) if values else None
        if value_of_leaf is None:
            add_term(terms, (value,), times)
        else:
            add_terms(terms, value_of_leaf, times)
        return True
    if not value.weak:
        return False
    if isinstance(value, Const) and isinstance(value.value, int):
        add_term(terms, (), value.value * times)
        return True
    if not isinstance(value, Binary) or not depth:
        return False
    op, a, b = value.op, value.a, value.b
    if op == "*":
        if isinstance(b, Const) and b.weak and isinstance(b.value, int):
            return _add_terms(terms, a, times * b.value, values, depth - 1)
        left = _affine(a, values, depth - 1)
        right = None if left is None else _affine(b, values, depth - 1)
        if left is None or right is None:
            return False
        add_terms(terms, left * right, times)
        return True
    if op not in ("+", "-") or not _add_terms(terms, a, times, values, depth - 1):
        return False
    return _add_terms(terms, b, times if op == "+" else -times, values, depth - 1)


def _convert(
    node: Expr, polynomials: dict[int, Lin], values: Mapping[Any, Lin], ranges: Known
) -> Lin:
    if isinstance(node, (Axis, Var)) and node.weak:
        value_of_leaf = values.get(node)
        return Lin.of(node) if value_of_leaf is None else value_of_leaf
    if isinstance(node, Const) and isinstance(node.value, (int, bool)):
        return Lin.of(int(node.value))
    if node.dtype == "int64" and node.weak:
        if isinstance(node, Binary) and node.op in ON_INDICES:
            a, b = polynomials[id(node.a)], polynomials[id(node.b)]
            if node.op == "+":
                return a + b
            if node.op == "-":
                return a - b
            if node.op == "*":
                return a * b
            return floordiv(a, b, ranges) if node.op == "//" else mod(a, b, ranges)
        if isinstance(node, Binary) and node.op in ("<<", ">>", "&"):
            bits = _by_bits(node.op, polynomials[id(node.a)], polynomials[id(node.b)], ranges)
            return Lin.of(Opaque(node)) if bits is None else bits
        if isinstance(node, Unary) and node.op == "-":
            return -polynomials[id(node.a)]
        if isinstance(node, Call) and node.fn in ("min", "max"):
            return extreme(node.fn, [polynomials[id(a)] for a in node.args], ranges)
    if isinstance(node, Cast) and node.dtype == "int64" and node.a.weak and node.a.dtype == "int64":
        return polynomials[id(node.a)]
    return Lin.of(Opaque(node))


def _by_bits(op: str, a: Lin, b: Lin, ranges: Known) -> Lin | None:
    """Return a shift by a constant, or a mask of the lowest bits, as a polynomial, if possible."""
    count = b.const
    if count is None or count < 0:
        return None
    if op == "&":
        return mod(a, Lin.of(count + 1), ranges) if count & (count + 1) == 0 else None
    if count > MOST_SHIFT:
        return None
    return a * (1 << count) if op == "<<" else floordiv(a, Lin.of(1 << count), ranges)
