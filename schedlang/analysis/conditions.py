"""Conditions on loop variables in normal form: inequalities, alternatives, and others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Union

from schedlang.compute.read import Read
from schedlang.expr.lazy import is_both
from schedlang.expr.nodes import COMPARISONS, Axis, Binary, Const, Expr, Unary, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, Opaque
from schedlang.index.ranges import Ranges
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Load
from schedlang.lowering.drafts import DraftRead

# a condition and its truth value
Held = tuple[Expr, bool]


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
    """A condition that is no inequality of indices, but can be evaluated at each point."""

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
    """Return the conditions ``held`` as a conjunction of items."""
    found: dict[Item, None] = {}
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
                found.setdefault(item)
        elif truth == both[2]:
            stack += [(both[1], truth), (both[0], truth)]
        elif _on_data(node):
            found.setdefault(Unknown(node))
        else:
            found.setdefault(Either(((both[0], truth),), ((both[1], truth),)))
    return list(found)


def _operands(node: Expr) -> tuple[Expr, Expr, bool] | None:
    """Return the operands of an ``and`` with ``True``, or of an ``or`` with ``False``."""
    if isinstance(node, Binary) and node.op in ("&", "|") and node.dtype == "bool":
        return node.a, node.b, node.op == "&"
    return (node.cond, node.a, True) if is_both(node) else None


def _simple(node: Expr, truth: bool, ranges: Ranges) -> list[Item]:
    if _on_data(node):
        return [Unknown(node)]
    if not (isinstance(node, Binary) and node.op in COMPARISONS):
        return [Other(node, truth)]
    if not all(x.weak and x.dtype == "int64" for x in (node.a, node.b)):
        return [Other(node, truth)]
    op = node.op if truth else _NEGATED[node.op]
    gap = to_lin(node.b, ranges=ranges) - to_lin(node.a, ranges=ranges)
    if any(isinstance(leaf, Opaque) for leaf in gap.leaves()):
        return [Other(node, truth)]
    if op == "!=":
        less, more = Binary("<", node.a, node.b, "bool"), Binary(">", node.a, node.b, "bool")
        return [Either(((less, True),), ((more, True),))]
    rows = {"<": [gap - 1], "<=": [gap], ">": [-gap - 1], ">=": [-gap], "==": [gap, -gap]}[op]
    items: list[Item] = []
    for row in rows:
        if ranges.nonneg(row):
            continue
        if ranges.nonneg(-row - 1):
            return [Never()]
        items.append(AtLeast(row, (node, truth)))
    return items


_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


def _on_data(node: Expr) -> bool:
    return any(
        isinstance(n, (Load, DraftRead, Read)) or (isinstance(n, Var) and not n.is_size)
        for n in postorder([node])
    )


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


def negated(held: Sequence[Held]) -> tuple[Held, ...]:
    """Return the negation of the conjunction ``held``."""
    cond: Expr | None = None
    for node, truth in held:
        one = node if truth else Unary("~", node, "bool")
        cond = one if cond is None else Binary("&", cond, one, "bool")
    assert cond is not None
    return ((cond, False),)
