"""Bounds of polynomials without loop variables: over sizes alone, or without one variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schedlang.expr.nodes import Axis, Var
from schedlang.index.intervals import Interval
from schedlang.index.linear import (
    ZERO,
    Atom,
    Div,
    Extreme,
    Lin,
    Opaque,
    Product,
    add_term,
    add_terms,
)
from schedlang.index.quotients import upper_bound
from schedlang.index.rules import Known, extreme, floordiv

# the most ``min`` and ``max`` whose arguments are bounded case by case
_MOST_CASES = 5


class Scope(Known, Protocol):
    """The interface of :class:`schedlang.index.ranges.Ranges` that relaxation uses."""

    def of(self, var: Axis | Var) -> tuple[Lin, Lin | None]: ...

    def of_atom(self, atom: Atom) -> Interval: ...


def lower(lin: Lin, ranges: Scope) -> Lin | None:
    """Return a lower bound of ``lin`` without loop variables of ``ranges``, if one is known."""
    bound = upper(-lin, ranges)
    return None if bound is None else -bound


def upper(lin: Lin, ranges: Scope) -> Lin | None:
    """Return an upper bound of ``lin`` without loop variables of ``ranges``, if one is known.

    >>> from schedlang.index.ranges import Ranges
    >>> i, n = Lin.of(Axis("i", 8)), Lin.of(Var("n"))
    >>> upper(i * 2 + n, Ranges()), lower(i * 2 + n, Ranges())
    (n + 14, n)
    """
    return _without_axes(lin, ranges, inner_only=False)


def upper_over_outer(lin: Lin, ranges: Scope) -> Lin | None:
    """Return an upper bound of ``lin`` without the variables whose ranges depend on others.

    >>> from schedlang.index.ranges import Ranges
    >>> i, k = Axis("i", 9), Axis("k", 9)
    >>> upper_over_outer(Lin.of(k) - Lin.of(i), Ranges({k: (ZERO, Lin.of(i) - 1)}))
    -1
    """
    return _without_axes(lin, ranges, inner_only=True)


def _without_axes(lin: Lin, ranges: Scope, inner_only: bool) -> Lin | None:
    current = lin
    for _ in range(64):
        axes: dict[Axis | Var, None] = {}
        for leaf in current.leaves():
            if isinstance(leaf, Opaque):
                return None
            if not (_is_outer(leaf, ranges) if inner_only else isinstance(leaf, Var)):
                axes[leaf] = None
        if not axes:
            return current
        var = next(iter(axes)) if len(axes) == 1 else _innermost([*axes], ranges)
        lo, hi = ranges.of(var)
        bound = None if hi is None else relax(current, var, lo, hi, ranges, up=True)
        if bound is None:
            return None
        current = bound
    return None


def _is_outer(axis: Axis | Var, ranges: Scope) -> bool:
    """Return whether the ends of the range of ``axis`` are numbers."""
    lo, hi = ranges.of(axis)
    return lo.const is not None and (hi is None or hi.const is not None)


def _innermost(axes: Sequence[Axis | Var], ranges: Scope) -> Axis | Var:
    """Return an axis on which the ranges of the others do not depend, if there is one."""
    ends = [end for axis in axes for end in ranges.of(axis) if end is not None]
    outer = {leaf for end in ends if end.const is None for leaf in end.leaves()}
    return next((axis for axis in axes if axis not in outer), axes[0])


def relax(lin: Lin, var: Axis | Var, lo: Lin, hi: Lin, ranges: Scope, up: bool) -> Lin | None:
    """Return the largest (``up``) or smallest value of ``lin`` while ``var`` runs over ``lo..hi``.

    The value is exact if ``var`` occurs in one term, and a safe bound if it occurs in several.
    Return ``None`` if no bound is known.
    """
    if not any(_mentions(product, var) for product in lin.terms):
        return lin
    terms: dict[Product, int] = {}
    for product, coef in lin.terms.items():
        if not _mentions(product, var):
            add_term(terms, product, coef)
            continue
        bound = _relax_product(product, var, lo, hi, ranges, up == (coef > 0))
        if bound is None:
            return None
        add_terms(terms, bound, coef)
    return Lin(terms)


def _mentions(product: Product, var: Axis | Var) -> bool:
    for atom in product:
        if atom is var:
            return True
        if not isinstance(atom, (Axis, Var)) and _mentions_lin(Lin.of(atom), var):
            return True
    return False


def _relax_product(
    product: Product, var: Axis | Var, lo: Lin, hi: Lin, ranges: Scope, up: bool
) -> Lin | None:
    if len(product) == 1:
        return _relax_atom(product[0], var, lo, hi, ranges, up)
    result = Lin.of(1)
    for atom in product:
        low = ranges.of_atom(atom)[0]
        if low is None or low < 0:
            return None
        if atom is var or _mentions((atom,), var):
            bound = _relax_atom(atom, var, lo, hi, ranges, up)
            if bound is None:
                return None
            result = result * bound
        else:
            result = result * Lin.of(atom)
    return result


def _relax_atom(
    atom: Atom, var: Axis | Var, lo: Lin, hi: Lin, ranges: Scope, up: bool
) -> Lin | None:
    if atom is var:
        return hi if up else lo
    if isinstance(atom, Opaque):
        return None
    if isinstance(atom, Extreme):
        args = [relax(a, var, lo, hi, ranges, up) for a in atom.args]
        relaxed = [a for a in args if a is not None]
        # any argument is an upper bound of min, and a lower bound of max
        if len(relaxed) < len(args) and (atom.op == "min") != up:
            return None
        return extreme(atom.op, relaxed, ranges) if relaxed else None
    if isinstance(atom, (Axis, Var)) or _mentions_lin(atom.den, var):
        return None
    least = ranges.interval(atom.den)[0]
    if least is None or least < 0:
        return None
    if isinstance(atom, Div):
        bound = relax(atom.num, var, lo, hi, ranges, up)
        return None if bound is None else floordiv(bound, atom.den, ranges)
    low = relax(atom.num, var, lo, hi, ranges, False)
    high = relax(atom.num, var, lo, hi, ranges, True)
    den = atom.den.const
    if low is not None and high is not None and den:
        first, last = floordiv(low, atom.den, ranges), floordiv(high, atom.den, ranges)
        if first == last:
            return (high if up else low) - first * den
    return (atom.den - 1) if up else ZERO


def _mentions_lin(lin: Lin, var: Axis | Var) -> bool:
    return lin.depends_on({var})


def without_extreme(lin: Lin) -> tuple[bool, tuple[Lin, ...]] | None:
    """Return ``lin`` with one ``min`` or ``max`` replaced by each of its arguments.

    The flag says whether ``lin`` is the smallest of these polynomials, so that a lower bound must
    hold for all, or the largest, so that it must hold for one. If there are several ``min`` and
    ``max``, one where the bound must hold for all is replaced first: for the others, the argument
    that suffices may depend on the case.
    """
    extremes = [
        ((p[0].op == "min") == (coef > 0), p, coef, p[0])
        for p, coef in lin.terms.items()
        if len(p) == 1 and isinstance(p[0], Extreme)
    ]
    if not extremes:
        return None
    smallest, product, coef, atom = next((f for f in extremes if f[0]), extremes[0])
    rest = lin - Lin({product: coef})
    return smallest, tuple(rest + arg * coef for arg in atom.args)


def largest(lin: Lin, ranges: Scope) -> Lin | None:
    """Return an upper bound of ``lin`` over all iterations of the loops of ``ranges``, if known.

    It is over sizes alone. The arguments of ``min`` and ``max`` are bounded case by case.

    >>> from schedlang.index.ranges import Ranges
    >>> i, n = Lin.of(Axis("i", 8)), Lin.of(Var("n"))
    >>> largest(i * 2 + n, Ranges()), largest(i - 3, Ranges())
    (n + 14, 4)
    """
    return _largest(lin, ranges, _MOST_CASES)


def _largest(lin: Lin, ranges: Scope, depth: int) -> Lin | None:
    cases = without_extreme(lin) if depth else None
    if cases is None:
        paired = upper_bound(lin, ranges)
        high = ranges.interval(paired)[1]
        return Lin.of(high) if high is not None else upper(paired, ranges)
    smallest, args = cases
    bounds = [_largest(arg, ranges, depth - 1) for arg in args]
    bounded = [b for b in bounds if b is not None]
    if not bounded or (len(bounded) < len(bounds) and not smallest):
        return None
    return extreme("min" if smallest else "max", bounded, ranges)
