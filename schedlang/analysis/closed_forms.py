"""Closed formulas for the number of points that satisfy inequalities in symbolic sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod
from typing import Any

from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Var
from schedlang.expr.symbolic import to_sympy
from schedlang.index.digits import continue_number
from schedlang.index.linear import ONE, ZERO, Lin, to_expr
from schedlang.index.quotients import at_least
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv
from schedlang.index.simplify import to_lin

Extents = Mapping[Axis, Lin]


def as_sympy(lin: Lin) -> Any:
    """Return ``lin``, a linear form over sizes, as a sympy expression."""
    return to_sympy(to_expr(lin))


def length_of(extent: Lin) -> Any:
    """Return how often a loop of ``extent`` runs: an ``int`` or a sympy expression."""
    if extent.const is not None:
        return max(0, extent.const)
    if is_proven(extent):
        return as_sympy(extent)
    import sympy

    return sympy.Max(0, as_sympy(extent))


@lru_cache(maxsize=1024)
def is_proven(lin: Lin, least: int = 0) -> bool:
    """Return whether ``lin >= least`` is proven at all sizes of 1 or more."""
    if Ranges().nonneg(lin - least):
        return True
    above = {size: Lin.of(size) + 1 for size in lin.leaves() if isinstance(size, Var)}
    return bool(above) and Ranges().nonneg(to_lin(to_expr(lin), above) - least)


def bytes_of(extents: Iterable[Lin], dtype: str) -> Any:
    """Return the bytes of an array: an ``int`` or a sympy expression."""
    return itemsize(dtype) * prod(map(length_of, extents))


def where_positive(value: Any, lins: Iterable[Lin], least: int = 1) -> Any:
    """Return ``value``, or 0 at sizes where one of ``lins`` is below 1.

    Those that are proven to be ``least`` or more are not compared.
    """
    for lin in lins:
        if value != 0 and not is_proven(lin, least):
            import sympy

            value = sympy.Piecewise((value, as_sympy(lin) > 0), (0, True))
    return value


@dataclass(frozen=True)
class Scale:
    """The values ``base + step*j`` for all ``base`` in ``0..width`` and ``j`` in ``0..count``.

    ``stepped`` are the axes that make up ``j``.
    """

    width: Lin
    step: Lin
    count: Lin
    stepped: tuple[Axis, ...] = ()


@dataclass(frozen=True)
class Formula:
    """A number of points; at sizes where ``step`` is 0, it does not depend on ``stepped``.

    ``value`` divides by ``step``, so that another formula is due at these sizes. ``step`` is
    ``None`` if it is never 0.
    """

    value: Any
    step: Lin | None = None
    stepped: tuple[Axis, ...] = ()


def closed_count(extents: Extents, rows: Sequence[Lin], ranges: Ranges) -> Formula | None:
    """Return the number of points at which all of ``rows`` are 0 or more.

    Return ``None`` if there is no formula. We have formulas for conditions on one linear form, as
    in ``low <= 32*outer + inner < high``: the tail of a split, a box at the edge of a tensor, a
    triangle, a band. All axes of ``extents`` occur in this form. The formula holds if no extent is
    negative.
    """
    forms = [_form(row) for row in rows]
    if any(form is None for form in forms):
        return None
    form, lows, highs = None, [], []
    for row, coefficients in zip(rows, forms):
        assert coefficients is not None
        bound = Lin({p: c for p, c in row.terms.items() if not _has_axis(p)})
        if form is None:
            # most conditions are upper bounds of a loop: negate them to form < bound
            negative = all(ranges.nonneg(-coef) for coef in coefficients.values())
            form = (
                {axis: -coef for axis, coef in coefficients.items()} if negative else coefficients
            )
        if coefficients == form:
            lows.append(-bound)
        elif coefficients == {axis: -coef for axis, coef in form.items()}:
            highs.append(bound + 1)
        else:
            return None
    if form is None:
        return None
    shift = ZERO
    positive: dict[Axis, Lin] = {}
    for axis, coef in form.items():
        sign = _sign(coef, ranges)
        if sign == 0:
            return None
        positive[axis] = coef * sign
        if sign < 0:
            # count this axis from its other end
            shift = shift - coef * (extents[axis] - 1)
    scale = _scale(positive, extents)
    if scale is None:
        return None
    parts, unit = scale
    lows = [low + shift for low in lows]
    highs = [high + shift for high in highs]
    above = [_below(parts, unit, high, ranges) for high in highs]
    below = [_below(parts, unit, low, ranges) for low in lows]
    import sympy

    everything = as_sympy(parts.width) * as_sympy(parts.count)
    most = sympy.Min(*above) if above else everything
    least = sympy.Max(*below) if below else sympy.Integer(0)
    ordered = all(ranges.nonneg(high - low) for high in highs for low in lows)
    value = most - least if ordered else sympy.Max(0, most - least)
    if parts.count == ONE or is_proven(parts.step, 1):
        return Formula(value)
    return Formula(value, parts.step, parts.stepped)


def without_axes(row: Lin, axes: Sequence[Axis]) -> Lin:
    """Return ``row`` without the terms of ``axes``."""
    return Lin({p: c for p, c in row.terms.items() if not any(axis in p for axis in axes)})


def largest(extents: Extents, rows: Sequence[Lin]) -> list[Lin] | None:
    """Return linear ``rows`` at the point where all are largest; ``None`` if no point has that."""
    at: dict[Axis, Lin] = {}
    for row in rows:
        form = _form(row)
        if form is None:
            return None
        for axis, coef in form.items():
            if not (is_proven(coef) or is_proven(-coef)):
                return None
            end = extents[axis] - 1 if is_proven(coef) else ZERO
            if at.setdefault(axis, end) != end:
                return None
    return [to_lin(to_expr(row), at) for row in rows]


def without_implied(rows: Sequence[Lin], ranges: Ranges) -> list[Lin]:
    """Return ``rows``, which must be 0 or more, without those implied by others."""
    remaining = list(rows)
    for row in rows:
        others = [other for other in remaining if other is not row]
        facts = ranges.assuming(tuple(-other for other in others))
        if others and (at_least(row, ZERO, facts)):
            remaining = others
    return remaining


def _has_axis(product: Any) -> bool:
    return any(isinstance(leaf, Axis) for leaf in Lin({product: 1}).leaves())


def _form(row: Lin) -> dict[Axis, Lin] | None:
    """Return the coefficient of each axis, over sizes only; ``None`` if ``row`` is not linear."""
    coefficients: dict[Axis, Lin] = {}
    for product, coef in row.terms.items():
        if not _has_axis(product):
            continue
        axes = [atom for atom in product if isinstance(atom, Axis)]
        rest = tuple(atom for atom in product if not isinstance(atom, Axis))
        if len(axes) != 1 or _has_axis(rest):
            return None
        coefficients[axes[0]] = coefficients.get(axes[0], ZERO) + Lin({rest: coef})
    return coefficients


def _sign(coef: Lin, ranges: Ranges) -> int:
    if coef.const is not None:
        return 1 if coef.const > 0 else -1 if coef.const < 0 else 0
    # a coefficient of 0 counts as positive: see Formula
    if ranges.nonneg(coef):
        return 1
    return -1 if ranges.nonneg(-coef) else 0


def _scale(form: Mapping[Axis, Lin], extents: Extents) -> tuple[Scale, int] | None:
    """Return the values of ``form`` as a :class:`Scale`, and the unit they are multiples of."""
    numbers = [c.const for c in form.values()]
    unit = 0
    for number in numbers:
        unit = gcd(unit, 1 if number is None else number)
    left = {a: c if unit == 1 else Lin.of((c.const or 0) // unit) for a, c in form.items()}
    width = continue_number(left, extents, ONE)
    if not left:
        return Scale(width, width, ONE), unit
    smallest = min(left, key=lambda a: _magnitude(left[a]))
    step, stepped = left[smallest], tuple(left)
    top = continue_number(left, extents, step)
    if left:
        return None
    count = _quotient(top, step)
    return None if count is None else (Scale(width, step, count, stepped), unit)


def _magnitude(coef: Lin) -> int:
    return 1 << 62 if coef.const is None else coef.const


def _quotient(product: Lin, factor: Lin) -> Lin | None:
    """Return ``product / factor`` if it is exact and ``factor`` is one term."""
    if len(factor.terms) != 1:
        return None
    ((atoms, coef),) = factor.terms.items()
    terms: dict[Any, int] = {}
    for term, times in product.terms.items():
        rest = list(term)
        for atom in atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        if times % coef:
            return None
        terms[tuple(rest)] = times // coef
    return Lin(terms)


def _below(scale: Scale, unit: int, end: Lin, ranges: Ranges) -> Any:
    """Return the number of points whose value is below ``end``."""
    if unit != 1:
        end = _rounded_up(end, Lin.of(unit), ranges)
    if scale.count == ONE:
        return _clip(end, scale.width, ranges)
    import sympy

    return sympy.expand(_ramp(scale, end, ranges) - _ramp(scale, end - scale.width, ranges))


def _ramp(scale: Scale, end: Lin, ranges: Ranges) -> Any:
    """Return the sum of ``max(0, end - step*j)`` over ``j`` in ``0..count``."""
    terms = _clip(_rounded_up(end, scale.step, ranges), scale.count, ranges)
    step = as_sympy(scale.step)
    return terms * as_sympy(end) - step * terms * (terms - 1) / 2


def _clip(value: Lin, most: Lin, ranges: Ranges) -> Any:
    """Return ``value`` clamped to ``0..most``."""
    import sympy

    if at_least(value, most, ranges):
        return as_sympy(most)
    if ranges.nonneg(-value):
        return sympy.Integer(0)
    clamped = as_sympy(value)
    if not at_least(most, value, ranges):
        clamped = sympy.Min(clamped, as_sympy(most))
    return clamped if ranges.nonneg(value) else sympy.Max(0, clamped)


def _rounded_up(num: Lin, den: Lin, ranges: Ranges) -> Lin:
    return floordiv(num + den - 1, den, ranges)
