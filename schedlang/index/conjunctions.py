"""Conditions in normal form: a conjunction of inequalities, alternatives, and others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Union

from schedlang.expr.lazy import is_both
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary, Var
from schedlang.expr.visit import postorder
from schedlang.index.conditions import NEGATED, Held, at_most, compares_indices
from schedlang.index.linear import Lin, Opaque
from schedlang.index.ranges import Ranges
from schedlang.index.rules import extreme, floordiv
from schedlang.index.simplify import to_lin


@dataclass(frozen=True)
class AtLeast:
    """The inequality ``lin >= 0``, which follows from ``source``."""

    lin: Lin
    source: Held = field(compare=False)


@dataclass(frozen=True)
class Either:
    """A disjunction of two conjunctions."""

    first: tuple[Held, ...]
    second: tuple[Held, ...]


@dataclass(frozen=True)
class Other:
    """A condition besides inequalities of indices, which can be evaluated at each point."""

    cond: Expr
    holds: bool


@dataclass(frozen=True)
class Never:
    """A condition that holds at no point."""


@dataclass(frozen=True)
class Unknown:
    """A condition on data, whose points are unknown."""

    cond: Expr


Item = Union[AtLeast, Either, Other, Never, Unknown]


def items_of(held: Iterable[Held], ranges: Ranges) -> list[Item]:
    """Return the conditions ``held`` as a conjunction of items.

    Those that hold at all points of ``ranges`` are left out.

    >>> i, j = Axis("i", 8), Axis("j", 8)
    >>> [item.lin for item in items_of([((i < 5) & (j >= 0), True)], Ranges())]
    [4 - i]
    >>> items_of([(i + j > 14, True)], Ranges())
    [Never()]
    """
    items: dict[Item, None] = {}
    stack = list(reversed(list(held)))
    while stack:
        node, truth = stack.pop()
        both = _operands(node)
        if isinstance(node, Unary) and node.op == "~" and node.dtype == "bool":
            stack.append((node.a, not truth))
        elif isinstance(node, Const):
            if bool(node.value) != truth:
                return [Never()]
        elif both is None:
            for item in _simple(node, truth, ranges):
                items.setdefault(item)
        elif truth == both[2]:
            stack += [(both[1], truth), (both[0], truth)]
        elif _on_data(node):
            items.setdefault(Unknown(node))
        else:
            items.setdefault(Either(((both[0], truth),), ((both[1], truth),)))
    return list(items)


def _operands(node: Expr) -> tuple[Expr, Expr, bool] | None:
    """Return the operands of an ``and`` with ``True``, or of an ``or`` with ``False``."""
    if isinstance(node, Binary) and node.op in ("&", "|") and node.dtype == "bool":
        return node.a, node.b, node.op == "&"
    return (node.cond, node.a, True) if is_both(node) else None


def _simple(node: Expr, truth: bool, ranges: Ranges) -> list[Item]:
    if _on_data(node):
        return [Unknown(node)]
    if not isinstance(node, Binary) or not compares_indices(node):
        return [Other(node, truth)]
    difference = to_lin(node.a, ranges=ranges) - to_lin(node.b, ranges=ranges)
    if any(isinstance(leaf, Opaque) for leaf in difference.leaves()):
        return [Other(node, truth)]
    op = node.op if truth else NEGATED[node.op]
    if op == "!=":
        less, more = Binary("<", node.a, node.b, "bool"), Binary(">", node.a, node.b, "bool")
        return [Either(((less, True),), ((more, True),))]
    items: list[Item] = []
    for fact in at_most(op, difference):
        if ranges.nonneg(-fact):
            continue
        if ranges.nonneg(fact - 1):
            return [Never()]
        items.append(AtLeast(-fact, (node, truth)))
    return items


def _on_data(node: Expr) -> bool:
    """Return whether ``node`` depends on scalar arguments or elements, read in whatever form."""
    return any(
        not n.is_size if isinstance(n, Var) else not isinstance(n, _WITHOUT_DATA)
        for n in postorder([node])
    )


_WITHOUT_DATA = (Axis, Binary, Call, Cast, Const, Select, Unary)


def expressions_of(item: Item) -> list[Expr]:
    """Return the conditions that ``item`` comes from."""
    if isinstance(item, AtLeast):
        cond, truth = item.source
        return [cond if truth else Unary("~", cond, "bool")]
    if isinstance(item, Either):
        return [cond for cond, _ in (*item.first, *item.second)]
    return [item.cond] if isinstance(item, (Other, Unknown)) else []


def leaves_of(item: Item) -> set[Axis | Var]:
    """Return the axes and sizes that ``item`` depends on."""
    if isinstance(item, AtLeast):
        return {x for x in item.lin.leaves() if isinstance(x, (Axis, Var))}
    return {x for x in postorder(expressions_of(item)) if isinstance(x, (Axis, Var))}


def negate(held: Sequence[Held]) -> tuple[Held, ...]:
    """Return the negation of the conjunction ``held``."""
    cond: Expr | None = None
    for node, truth in held:
        one = node if truth else Unary("~", node, "bool")
        cond = one if cond is None else Binary("&", cond, one, "bool")
    assert cond is not None
    return ((cond, False),)


def narrow(ranges: Ranges, held: Sequence[Held]) -> Ranges | None:
    """Return ``ranges`` narrowed by the conditions on one axis in ``held``; ``None`` if empty.

    >>> i, n = Axis("i", 100), Var("n")
    >>> inside = narrow(Ranges(), [(i >= 3, True), (i < n, True)])
    >>> inside and inside.of(i)
    (3, min(99, n - 1))
    """
    narrower = Ranges(ranges.known)
    for item in items_of(held, ranges):
        if isinstance(item, Never):
            return None
        axes = {leaf for leaf in leaves_of(item) if isinstance(leaf, Axis)}
        if not isinstance(item, AtLeast) or len(axes) != 1:
            continue
        (axis,) = axes
        factor = item.lin.terms.get((axis,), 0)
        rest = item.lin - Lin.of(axis) * factor
        low, high = narrower.of(axis)
        if not factor or high is None or axis in rest.leaves():
            continue
        quotient = floordiv(rest, Lin.of(abs(factor)), narrower)
        if factor > 0:
            low = extreme("max", [low, -quotient], narrower)
        else:
            high = extreme("min", [high, quotient], narrower)
        narrower.learn(axis, low, high)
    return narrower
