"""Counting of points by enumeration, in blocks of NumPy arrays, solving for long axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis
from schedlang.index.conjunctions import AtLeast, Either, Item, Never, Other, items_of, leaves_of
from schedlang.index.enumeration import blocks
from schedlang.index.linear import ZERO, Atom, Div, Extreme, Lin, Mod, Opaque
from schedlang.index.ranges import Ranges

# counts and values up to this number, and sums of two of them, fit in 64 bits
MOST_INT64 = 1 << 61


def count_by_enumeration(extents: Mapping[Axis, int], items: Sequence[Item]) -> int | None:
    """Return the number of points of a box at which all of ``items`` hold.

    Return ``None`` if the box is too large. An axis that occurs only in inequalities, with a
    constant coefficient, is solved for instead of enumerated. Longer axes come first, and no
    inequality is solved for two axes.

    >>> from schedlang.index.conjunctions import items_of
    >>> i, j = Axis("i", 8), Axis("j", 1000000)
    >>> count_by_enumeration({i: 8, j: 1000000}, items_of([(j < i, True)], Ranges()))
    28
    """
    solved = _axes_to_solve(extents, items)
    tried = {axis: n for axis, n in extents.items() if axis not in solved}
    parts = blocks({axis: (0, n) for axis, n in tried.items()})
    if parts is None:
        return None
    ranges = Ranges({axis: (ZERO, Lin.of(n - 1)) for axis, n in extents.items()})
    largest = max((_largest(item, ranges) for item in items), default=0)
    # object arrays hold Python's integers, which do not overflow
    kind: Any = object if max(largest, prod(extents.values())) > MOST_INT64 else np.int64
    tested = [item for item in items if not any(item in of_axis for of_axis in solved.values())]
    total = 0
    for at, shape in parts:
        values = {axis: row.astype(kind, copy=False) for axis, row in at.items()}
        counts: Any = np.ones([1] * len(shape), kind)
        for axis, of_axis in solved.items():
            counts = counts * _lengths(axis, extents[axis], of_axis, values)
        for item in tested:
            counts = counts * np.asarray(_holds(item, values, ranges)).astype(bool)
        total += int(np.broadcast_to(counts, shape).sum())
    return total


def _axes_to_solve(extents: Mapping[Axis, int], items: Sequence[Item]) -> dict[Axis, list[Item]]:
    """Return the axes to solve for, longest first, each with its inequalities."""
    by_axis: dict[Axis, list[Item]] = {}
    for axis in sorted(extents, key=lambda a: -extents[a]):
        of_axis = [item for item in items if axis in leaves_of(item)]
        shared = any(item in others for item in of_axis for others in by_axis.values())
        if not shared and all(_linear(item, axis) for item in of_axis):
            by_axis[axis] = of_axis
    return by_axis


def _linear(item: Item, axis: Axis) -> bool:
    """Return whether ``item`` is an inequality with a constant coefficient of ``axis``."""
    if not isinstance(item, AtLeast):
        return False
    others = Lin({p: c for p, c in item.lin.terms.items() if p != (axis,)})
    return all(leaf is not axis for leaf in others.leaves())


def _lengths(axis: Axis, extent: int, items: Sequence[Item], values: Mapping[Any, Any]) -> Any:
    """Return the number of values of ``axis`` that satisfy ``items``."""
    low: Any = 0
    high: Any = extent - 1
    for item in items:
        assert isinstance(item, AtLeast)
        factor = item.lin.terms[(axis,)]
        rest = value_of(item.lin - Lin.of(axis) * factor, values)
        if factor > 0:
            low = np.maximum(low, -(rest // factor))
        else:
            high = np.minimum(high, rest // -factor)
    return np.maximum(high - low + 1, 0)


def _holds(item: Item, values: Mapping[Any, Any], ranges: Ranges) -> Any:
    # a condition may exclude points at which a later one divides by zero
    with np.errstate(all="ignore"):
        if isinstance(item, AtLeast):
            return value_of(item.lin, values) >= 0
        if isinstance(item, Either):
            first, second = (
                [_holds(inner, values, ranges) for inner in items_of(side, ranges)]
                for side in (item.first, item.second)
            )
            return _every(first) | _every(second)
        if isinstance(item, Other):
            return np.asarray(evaluate(item.cond, values)).astype(bool) == item.holds
    assert isinstance(item, Never)
    return False


def _every(conditions: Sequence[Any]) -> Any:
    result: Any = np.True_
    for cond in conditions:
        result = result & np.asarray(cond).astype(bool)
    return result


def _largest(item: Item, ranges: Ranges) -> int:
    """Return a bound of the absolute values in the evaluation of ``item``."""
    if isinstance(item, AtLeast):
        return _magnitude(item.lin, ranges)
    if isinstance(item, Either):
        inner = [i for side in (item.first, item.second) for i in items_of(side, ranges)]
        return max((_largest(i, ranges) for i in inner), default=0)
    # other conditions have the arithmetic of their dtype
    return 0


def _magnitude(lin: Lin, ranges: Ranges) -> int:
    """Return a bound of the absolute value of ``lin``, and of the values it is computed from."""
    return sum(
        abs(coef) * prod(_magnitude_of_atom(atom, ranges) for atom in product)
        for product, coef in lin.terms.items()
    )


def _magnitude_of_atom(atom: Atom, ranges: Ranges) -> int:
    if isinstance(atom, (Div, Mod)):
        return _magnitude(atom.num, ranges) + _magnitude(atom.den, ranges)
    if isinstance(atom, Extreme):
        return sum(_magnitude(arg, ranges) for arg in atom.args)
    assert isinstance(atom, Axis)
    # at least 1, so that a product bounds its factors
    return (ranges.of_atom(atom)[1] or 0) + 1


def value_of(lin: Lin, values: Mapping[Any, Any]) -> Any:
    """Evaluate ``lin`` with its axes and sizes from ``values``, numbers or arrays."""
    total: Any = 0
    for product, coef in lin.terms.items():
        term: Any = coef
        for atom in product:
            term = term * _atom_value(atom, values)
        total = total + term
    return total


def _atom_value(atom: Atom, values: Mapping[Any, Any]) -> Any:
    if isinstance(atom, (Div, Mod)):
        num, den = value_of(atom.num, values), value_of(atom.den, values)
        return num // den if isinstance(atom, Div) else num % den
    if isinstance(atom, Extreme):
        pick = np.minimum if atom.op == "min" else np.maximum
        result: Any = value_of(atom.args[0], values)
        for arg in atom.args[1:]:
            result = pick(result, value_of(arg, values))
        return result
    if isinstance(atom, Opaque):
        return evaluate(atom.expr, values)
    return values[atom]
