"""Expressions at other axes, with their indices in normal form and their conditions decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd
from typing import Any

from schedlang.expr.lazy import is_both
from schedlang.expr.nodes import Axis, Binary, Call, Const, Expr, Select, Unary
from schedlang.expr.operators import OPERATORS
from schedlang.expr.visit import rewrite
from schedlang.index.conditions import compares_indices, facts_of_extent, truth
from schedlang.index.linear import Lin, Opaque, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.language.calls import build_call
from schedlang.language.construct import binary, unary


def scope(axes: Iterable[Axis]) -> Ranges:
    """Return the ranges at a point of ``axes``, where none of them is empty."""
    return Ranges(facts=tuple(fact for a in axes for fact in facts_of_extent(to_lin(a.extent))))


def substitute(value: Expr, values: Mapping[Any, Lin], ranges: Ranges) -> Expr:
    """Return ``value`` with axes replaced by ``values``, simplified under ``ranges``.

    >>> i, j = Axis("i", 8), Axis("j", 4)
    >>> substitute((i // 2 < 4) & (i < 5), {i: Lin.of(j) * 2}, Ranges())
    j < 3
    """

    def index(node: Expr) -> Expr | None:
        if not node.weak or node.dtype != "int64" or isinstance(node, Const):
            return None
        lin = to_lin(node, values, ranges)
        if not any(isinstance(x, Opaque) for x in lin.leaves()):
            return to_expr(lin)
        # what is opaque has axes that are not replaced yet
        return index_of(lin) if node in values else None

    return rewrite(value, lambda node: _decided(retype(node), ranges), before=index)


def index_of(lin: Lin) -> Expr:
    """Return an index, which has the dtype of the elements that it is computed from, if any."""
    return rewrite(to_expr(lin), retype)


def retype(node: Expr) -> Expr:
    """Return an index in the dtype of its part that became an element of a tensor."""
    if node.weak and not all(child.weak for child in node.children):
        if isinstance(node, Binary):
            return binary(node.op, node.a, node.b)
        if isinstance(node, Call):
            return build_call(node.fn, node.args)
        if isinstance(node, Unary):
            return unary(node.op, node.a)
    return node


def equal(lin: Lin) -> Expr:
    """Return the condition that ``lin`` is 0; it names an element that it compares alone.

    >>> equal(Lin.of(Axis("i", 8)) - 2)
    i - 2 == 0
    """
    for product, coef in lin.terms.items():
        if len(product) == 1 and isinstance(product[0], Opaque) and abs(coef) == 1:
            rest = (lin - Lin({product: coef})) * -coef
            return binary("==", product[0].expr, index_of(rest))
    return binary("==", index_of(lin), 0)


def _decided(node: Expr, ranges: Ranges) -> Expr:
    """Return ``node``; a choice or a condition that is known in its shortest form."""
    if isinstance(node, Select) and isinstance(node.cond, Const):
        return node.a if node.cond.value else node.b
    if node.dtype != "bool":
        return node
    if is_both(node) and isinstance(node.a, Const):
        return node.cond if node.a.value else node.a
    if isinstance(node, Unary) and isinstance(node.a, Const):
        return Const(not node.a.value, "bool")
    if isinstance(node, Binary) and node.op in ("&", "|"):
        for one, other in (node.children, node.children[::-1]):
            if isinstance(one, Const):
                return other if bool(one.value) == (node.op == "&") else one
    if isinstance(node, Binary) and compares_indices(node):
        decision = truth(node, ranges)
        return _compared(node) if decision is None else Const(decision, "bool")
    return node


def _compared(node: Binary) -> Expr:
    """Return a comparison of indices with positive terms on both sides and without a common factor.

    >>> i, j = Axis("i", 8), Axis("j", 8)
    >>> _compared(i < 6 - i), _compared(2 - i <= j * 2), _compared(0 > i - 3)
    (i < 3, j*2 + i >= 2, i < 3)
    """
    lin = to_lin(node.a) - to_lin(node.b)
    terms = {product: coef for product, coef in lin.terms.items() if product}
    if any(isinstance(leaf, Opaque) for leaf in lin.leaves()) or not terms:
        return node
    op, sign = node.op, 1
    if all(coef < 0 for coef in terms.values()):
        op, sign = OPERATORS[op].mirrored, -1
    common = gcd(*terms.values())
    # sign*lin is common*x + offset, which is compared with 0
    offset = lin.offset * sign
    if offset % common and op in ("==", "!="):
        return Const(op == "!=", "bool")
    up = op in ("<", ">=")
    limit = -(offset // common) if up else -offset // common
    left = Lin({p: c * sign // common for p, c in terms.items() if c * sign > 0})
    right = Lin({p: -c * sign // common for p, c in terms.items() if c * sign < 0})
    return Binary(op, to_expr(left), to_expr(right + limit), "bool")
