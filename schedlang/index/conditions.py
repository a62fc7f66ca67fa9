"""Conditions on indices: what follows from one, and whether it holds always or never."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from schedlang.expr.nodes import Binary, Const, Expr, Select, Unary
from schedlang.expr.operators import COMPARISONS, OPERATORS
from schedlang.expr.visit import postorder
from schedlang.index.linear import Div, Extreme, Lin, Mod
from schedlang.index.ranges import Ranges
from schedlang.index.rules import Known, single_atom
from schedlang.index.simplify import to_lin

# a condition and its truth value
Held = tuple[Expr, bool]

NEGATED = {symbol: OPERATORS[symbol].negated for symbol in COMPARISONS}
# (sign, shift): the comparison of ``x`` with 0 holds exactly where ``x*sign + shift`` is at most 0
_AT_MOST = {"<": (1, 1), "<=": (1, 0), ">": (-1, 1), ">=": (-1, 0)}
# alternatives nested deeper than this add no facts
_DEEPEST_OR = 4


def compares_indices(node: Expr) -> bool:
    """Return whether ``node`` is a comparison of two index expressions."""
    return (
        isinstance(node, Binary)
        and node.op in COMPARISONS
        and node.a.weak
        and node.b.weak
        and node.a.dtype == "int64"
        and node.b.dtype == "int64"
    )


def at_most(op: str, difference: Lin) -> tuple[Lin, ...]:
    """Return the polynomials that are all at most 0 exactly where ``difference op 0`` holds.

    ``!=`` has no such polynomials, since no conjunction expresses it.

    >>> from schedlang.expr.nodes import Axis
    >>> i = Lin.of(Axis("i", 8))
    >>> at_most("<", i - 5), at_most("==", i)
    ((i - 4,), (i, i*-1))
    """
    if op in _AT_MOST:
        sign, shift = _AT_MOST[op]
        return (difference * sign + shift,)
    return (difference, -difference) if op == "==" else ()


def facts_of(cond: Expr, holds: bool, ranges: Ranges, depth: int = 0) -> tuple[Lin, ...]:
    """Return polynomials that are at most 0 wherever the truth value of ``cond`` is ``holds``.

    >>> from schedlang.expr.nodes import Axis
    >>> i, j = Axis("i", 8), Axis("j", 8)
    >>> facts_of((i < 5) & (j >= i), True, Ranges())
    (i - 4, i - j)
    >>> from schedlang.index.linear import ZERO
    >>> facts_of(i != 7, True, Ranges({i: (ZERO, Lin.of(7))}))
    (i - 6,)
    """
    facts: list[Lin] = []
    for node, truth in conjuncts([(cond, holds)]):
        if truth and isinstance(node, Binary) and node.op == "|" and depth < _DEEPEST_OR:
            either = facts_of(node.b, True, ranges, depth + 1)
            facts += [f for f in facts_of(node.a, True, ranges, depth + 1) if f in either]
        elif isinstance(node, Binary) and compares_indices(node):
            op, difference = node.op if truth else NEGATED[node.op], _difference(node, ranges)
            if op == "!=" and ranges.nonneg(-difference):
                # the last value of a range is excluded
                op = "<"
            elif op == "!=" and ranges.nonneg(difference):
                op = ">"
            facts += at_most(op, difference)
    return tuple(facts)


def conjuncts(held: Iterable[Held]) -> Iterator[Held]:
    """Yield the conditions that hold where all of ``held`` do, without those that join others."""
    stack, visited = list(held), set[tuple[int, bool]]()
    while stack:
        node, truth = stack.pop()
        if (id(node), truth) in visited:
            continue
        visited.add((id(node), truth))
        joined = joined_by(node, truth)
        stack += joined
        if not joined:
            yield node, truth


def joined_by(node: Expr, holds: bool) -> tuple[tuple[Expr, bool], ...]:
    """Return the conditions, with their truth values, that follow from the truth of ``node``.

    Return nothing if ``node`` joins no conditions, or if only one of them need hold.
    """
    if isinstance(node, Unary) and node.op == "~":
        return ((node.a, not holds),)
    if isinstance(node, Binary) and node.op == ("&" if holds else "|"):
        return (node.b, holds), (node.a, holds)
    if isinstance(node, Select) and node.dtype == "bool":
        # one side is a constant that is not the truth value, so the other side is taken
        if isinstance(node.b, Const) and bool(node.b.value) is not holds:
            return (node.a, holds), (node.cond, True)
        if isinstance(node.a, Const) and bool(node.a.value) is not holds:
            return (node.b, holds), (node.cond, False)
    return ()


def _difference(node: Binary, ranges: Ranges) -> Lin:
    return to_lin(node.a, ranges=ranges) - to_lin(node.b, ranges=ranges)


def extent_inside(extent: Lin) -> Lin:
    """Return an extent as it is inside its loop, where ``max(n - 5, 0)`` is ``n - 5``."""
    atom = single_atom(extent)
    if not isinstance(atom, Extreme) or atom.op != "max":
        return extent
    args = [arg for arg in atom.args if arg.const is None or arg.const > 0]
    return args[0] if len(args) == 1 else extent


def facts_of_extent(extent: Lin) -> tuple[Lin, ...]:
    """Return polynomials that are at most 0 if ``extent`` is at least 1, as inside its loop."""
    if extent.const is not None:
        return ()
    facts = [Lin.of(1) - extent]
    rounded = extent - extent.offset
    if len(rounded.terms) == 1:
        ((product, coef),) = rounded.terms.items()
        atom = product[0]
        least = 1 - extent.offset
        if coef == 1 and len(product) == 1 and isinstance(atom, (Div, Mod)):
            # a lower bound of a quotient, or of a size's remainder, bounds the dividend
            if isinstance(atom, Div) and atom.den.const is not None and atom.den.const > 0:
                facts.append(atom.den * least - atom.num)
            elif isinstance(atom, Mod) and Ranges().nonneg(atom.num) and Ranges().nonneg(atom.den):
                facts.append(Lin.of(least) - atom.num)
    return tuple(facts)


def decide(op: str, ends: Sequence[Lin], ranges: Known) -> bool | None:
    """Return the truth of ``x op 0`` if it is the same for all ``x`` between ``ends``, else None.

    ``ends`` are one value, or the least and the largest in any order.

    >>> from schedlang.expr.nodes import Axis
    >>> i = Lin.of(Axis("i", 8))
    >>> decide("<", [i - 8], Ranges()), decide("==", [i + 1], Ranges())
    (True, False)
    >>> decide("<", [i - 4], Ranges())
    """

    def proven(sign: int, shift: int) -> bool:
        """Return whether ``x*sign + shift`` is at most 0 at all ends."""
        return all(ranges.nonneg(end * -sign - shift) for end in ends)

    if op in _AT_MOST:
        sign, shift = _AT_MOST[op]
        if proven(sign, shift):
            return True
        return False if proven(-sign, 1 - shift) else None
    if proven(1, 1) or proven(-1, 1):
        return op == "!="
    return op == "==" if proven(1, 0) and proven(-1, 0) else None


def truth(cond: Expr, ranges: Ranges) -> bool | None:
    """Return ``True`` if ``cond`` holds at all points of ``ranges``, and ``False`` if at none.

    Return ``None`` if it holds at some, or if neither is proven.

    >>> from schedlang.expr.nodes import Axis
    >>> i, j = Axis("i", 8), Axis("j", 8)
    >>> truth((i >= 0) & (i + j < 15), Ranges()), truth((i < 4) & (j > 7), Ranges())
    (True, False)
    >>> truth(i < j, Ranges())
    """
    if compares_indices(cond):
        assert isinstance(cond, Binary)
        return decide(cond.op, [_difference(cond, ranges)], ranges)
    truths: dict[int, bool | None] = {}
    for node in postorder([cond]):
        truths[id(node)] = _truth(node, truths, ranges) if node.dtype == "bool" else None
    return truths[id(cond)]


def _truth(node: Expr, done: dict[int, bool | None], ranges: Ranges) -> bool | None:
    if isinstance(node, Const):
        return bool(node.value)
    if isinstance(node, Unary) and node.op == "~":
        inner = done[id(node.a)]
        return None if inner is None else not inner
    if isinstance(node, Select):
        chosen = done[id(node.cond)]
        if chosen is not None:
            return done[id(node.a if chosen else node.b)]
        return done[id(node.a)] if done[id(node.a)] is done[id(node.b)] else None
    if isinstance(node, Binary) and node.op in ("&", "|"):
        sides = done[id(node.a)], done[id(node.b)]
        ends = node.op == "|"
        if ends in sides:
            return ends
        return None if None in sides else not ends
    if compares_indices(node):
        assert isinstance(node, Binary)
        return decide(node.op, [_difference(node, ranges)], ranges)
    return None
