"""Counting of points by enumeration, in blocks of NumPy arrays, solving for long axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from schedlang.analysis.conditions import AtLeast, Either, Item, Never, Other, leaves_of
from schedlang.expr.evaluate import evaluate
from schedlang.expr.linear import Atom, Div, Extreme, Lin, Mod, Opaque
from schedlang.expr.nodes import Axis

MOST_POINTS = 1 << 24
BLOCK = 1 << 18


def enumerated(extents: Mapping[Axis, int], items: Sequence[Item]) -> int | None:
    """Return the number of points of a box at which all of ``items`` hold.

    Return ``None`` if the box is too large. An axis that occurs only in inequalities, with a
    constant coefficient, is solved for instead of enumerated. Longer axes come first, and no
    inequality is solved for two axes.
    """
    solved = _solved(extents, items)
    tried = {axis: n for axis, n in extents.items() if axis not in solved}
    points = prod(tried.values())
    if points > MOST_POINTS:
        return None
    # use Python's integers if the sum may exceed 64 bits
    kind: Any = object if prod(extents.values()) >= 2**62 else np.int64
    total = 0
    for start in range(0, points, BLOCK):
        flat = np.arange(start, min(points, start + BLOCK))
        values: dict[Any, Any] = {}
        for axis, n in tried.items():
            values[axis] = flat % n
            flat = flat // n
        count = np.ones(len(flat), kind)
        for axis, of_axis in solved.items():
            count = count * _lengths(axis, extents[axis], of_axis, values)
        for item in items:
            if not any(item in of_axis for of_axis in solved.values()):
                count = count * np.asarray(_holds(item, values)).astype(bool)
        total += int(count.sum())
    return total


def _solved(extents: Mapping[Axis, int], items: Sequence[Item]) -> dict[Axis, list[Item]]:
    """Return the axes to solve for, longest first, each with its inequalities."""
    found: dict[Axis, list[Item]] = {}
    for axis in sorted(extents, key=lambda a: -extents[a]):
        of_axis = [item for item in items if axis in leaves_of(item)]
        shared = any(item in others for item in of_axis for others in found.values())
        if not shared and all(_linear(item, axis) for item in of_axis):
            found[axis] = of_axis
    return found


def _linear(item: Item, axis: Axis) -> bool:
    """Return whether ``item`` is an inequality in which ``axis`` has a constant coefficient."""
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


def _holds(item: Item, values: Mapping[Any, Any]) -> Any:
    if isinstance(item, AtLeast):
        return value_of(item.lin, values) >= 0
    if isinstance(item, Either):
        sides = [_all_hold(side, values) for side in (item.first, item.second)]
        return sides[0] | sides[1]
    if isinstance(item, Other):
        return _all_hold(((item.cond, item.holds),), values)
    assert isinstance(item, Never)
    return False


def _all_hold(held: Sequence[tuple[Any, bool]], values: Mapping[Any, Any]) -> Any:
    result: Any = True
    # a condition may exclude points at which a later one divides by zero
    with np.errstate(all="ignore"):
        for cond, truth in held:
            result = result & (np.asarray(evaluate(cond, values)).astype(bool) == truth)
    return result


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
