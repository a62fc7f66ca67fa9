"""Indices as mixed-radix numbers over loop variables: each loop is a digit."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from schedlang.expr.nodes import Axis
from schedlang.index.linear import ONE, ZERO, Lin
from schedlang.index.ranges import Ranges

Span = tuple[Lin, Lin]


def radix(lin: Lin, extents: dict[Axis, Lin]) -> tuple[Lin, set[Axis], Lin] | None:
    """Return ``(start, axes, count)`` for a mixed-radix number ``lin``; ``None`` for any other.

    Over the loops of ``axes``, it takes each value of ``start .. start + count`` once.
    """
    start = ZERO
    weights: dict[Axis, Lin] = {}
    for product, coef in lin.terms.items():
        axes = [leaf for leaf in Lin({product: 1}).leaves()
                if isinstance(leaf, Axis) and leaf in extents]  # fmt: skip
        if not axes:
            start = start + Lin({product: coef})
            continue
        rest = tuple(atom for atom in product if atom is not axes[0])
        if len(axes) > 1 or len(rest) != len(product) - 1:
            return None
        weights[axes[0]] = weights.get(axes[0], ZERO) + Lin({rest: coef})
    count = Lin.of(1)
    left = list(weights.items())
    while left:
        # a digit of extent 1 is always 0, whatever its weight
        found = next((d for d in left if d[1] == count or extents[d[0]].const == 1), None)
        if found is None:
            return None
        left.remove(found)
        if extents[found[0]].const != 1:
            count = count * extents[found[0]]
    return start, set(weights), count


def varies(lin: Lin, axes: Container[object] | None = None) -> bool:
    """Return whether ``lin`` depends on a loop variable (on one of ``axes``, if given)."""
    if axes is None:
        return any(isinstance(leaf, Axis) for leaf in lin.leaves())
    return any(leaf in axes for leaf in lin.leaves())


def coefficient(lin: Lin, axis: Axis) -> tuple[Lin | None, Lin]:
    """Return the factor of ``axis`` in ``lin``, and the rest.

    The factor is ``None`` if the axis is inside an atom, or if the factor depends on another loop.
    """
    step, rest = ZERO, ZERO
    for product, coef in lin.terms.items():
        term = Lin({product: coef})
        if not any(leaf is axis for leaf in term.leaves()):
            rest = rest + term
            continue
        others = tuple(atom for atom in product if atom is not axis)
        if len(others) != len(product) - 1 or varies(Lin({others: 1})):
            return None, lin
        step = step + Lin({others: coef})
    return step, rest


@dataclass
class Digits:
    """The ``indices`` of a store over loops of ``extents``.

    Each of ``facts`` is known to be 0 or less.
    """

    indices: list[Lin]
    extents: dict[Axis, Lin]
    facts: list[Lin]
    ranges: Ranges

    def contract(self) -> None:
        """Replace digits that one fact bounds together by a single digit.

        For ``i = 4*outer + inner`` with ``i < n``, the two digits become one of extent ``n``.
        """
        while any(map(self._contracted, sorted(self.facts, key=_width))):
            pass

    def _contracted(self, fact: Lin) -> bool:
        rest = Lin({p: c for p, c in fact.terms.items() if not varies(Lin({p: c}), self.extents)})
        number, limit = fact - rest, Lin.of(1) - rest
        found = radix(number, self.extents)
        if found is None or found[0] != ZERO or not found[1] or not self.ranges.nonneg(limit):
            return False
        if not self.ranges.le(limit, found[2]):
            return False
        unit = next((a for a in found[1] if coefficient(number, a)[0] == ONE), None)
        if unit is None:
            return False
        digit = Axis("digit", 0)
        others = [f for f in self.facts if f is not fact]
        swapped = [_swapped(lin, number, unit, digit, found[1]) for lin in (*self.indices, *others)]
        known = [lin for lin in swapped if lin is not None]
        if len(known) < len(swapped):
            return False
        self.indices, self.facts = known[: len(self.indices)], known[len(self.indices) :]
        self.extents = {a: e for a, e in self.extents.items() if a not in found[1]}
        self.extents[digit] = limit
        return True


def _width(fact: Lin) -> int:
    return len(set(fact.leaves()))


def _swapped(lin: Lin, number: Lin, unit: Axis, digit: Axis, axes: set[Axis]) -> Lin | None:
    """Return ``lin`` with ``digit`` in place of ``number``.

    Return ``None`` if ``lin`` still depends on ``axes`` after that.
    """
    factor, _ = coefficient(lin, unit)
    if factor is None:
        return None
    rest = lin - number * factor
    if any(leaf in axes for leaf in rest.leaves()):
        return None
    return rest + Lin.of(digit) * factor


__all__ = ["Digits", "Span", "coefficient", "varies", "radix"]
