"""The digits of the indices of a store: loops that a condition bounds together are one digit."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from schedlang.expr.nodes import Axis, Var
from schedlang.index.digits import coefficient, radix, varies
from schedlang.index.fused import digit, divisions, rebuilt, separate
from schedlang.index.linear import ONE, ZERO, Lin
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv, mod


@dataclass(frozen=True)
class Bounded:
    """A mixed-radix ``number`` over ``axes`` with ``count`` values; it takes the first ``limit``.
    """

    number: Lin
    axes: set[Axis]
    count: Lin
    limit: Lin


@dataclass
class Digits:
    """The ``indices`` of a store over loops of ``extents``.

    Each of ``facts`` is known to be 0 or less. ``parts`` are the digits of loops that were fused.
    """

    indices: list[Lin]
    extents: dict[Axis, Lin]
    facts: list[Lin]
    ranges: Ranges
    parts: set[Axis] = field(default_factory=set)

    def contract(self) -> None:
        """Replace digits that one fact bounds together by a single digit.

        For ``i = 4*outer + inner`` with ``i < n``, the two digits become one of extent ``n``. A
        fused loop ``i`` becomes several digits if the indices have ``i // m`` and ``i % m``. The
        parts of a split of such a loop become one first.
        """
        self._contract_sums()
        while inside := self._inside_atoms():
            # a fact on the whole loop holds for few values of one digit, but not of several
            if not (
                any(map(self._joined, self._sorted()))
                or any(map(self._separated, inside))
                or any(map(self._united, self._dividends()))
            ):
                return
            self._contract_sums()

    def _contract_sums(self) -> None:
        while any(map(self._contracted, self._sorted())):
            pass

    def _sorted(self) -> list[Lin]:
        """Return the facts, those on few loops and sizes first."""
        return sorted(self.facts, key=lambda fact: len(set(fact.leaves())))

    def _bounded(self, fact: Lin) -> Bounded | None:
        """Return the number whose values are all below a limit where ``fact`` holds."""
        rest = Lin({p: c for p, c in fact.terms.items() if not varies(Lin({p: c}), self.extents)})
        number, limit = fact - rest, Lin.of(1) - rest
        number_form = radix(number, self.extents, self.ranges)
        if (
            number_form is None
            or number_form[0] != ZERO
            or not number_form[1]
            or not self.ranges.nonneg(limit)
        ):
            return None
        if not self.ranges.le(limit, number_form[2]):
            return None
        return Bounded(number, number_form[1], number_form[2], limit)

    def _contracted(self, fact: Lin) -> bool:
        """Replace the digits that ``fact`` bounds, if they stand in sums alone."""
        bounded = self._bounded(fact)
        if bounded is None:
            return False
        unit = next((a for a in bounded.axes if coefficient(bounded.number, a)[0] == ONE), None)
        if unit is None:
            return False
        whole = digit(bounded.limit)
        swapped = [_swapped(lin, bounded, unit, whole) for lin in self._without(fact)]
        return self._replace(swapped, bounded.axes, {whole: bounded.limit})

    def _joined(self, fact: Lin) -> bool:
        """Replace the digits that ``fact`` bounds by quotients and remainders of one digit."""
        bounded = self._bounded(fact)
        if bounded is None or not bounded.axes & set(self._inside_atoms()):
            return False
        return self._unite(bounded, self._without(fact))

    def _united(self, number: Lin) -> bool:
        """Replace the digits of ``number`` by quotients and remainders of one digit."""
        number_form = radix(number, self.extents, self.ranges)
        if (
            number_form is None
            or number_form[0] != ZERO
            or len(number_form[1]) < 2
            or number_form[1] & self.parts
        ):
            return False
        return self._unite(
            Bounded(number, number_form[1], number_form[2], number_form[2]), self._without(None)
        )

    def _unite(self, bounded: Bounded, lins: Sequence[Lin]) -> bool:
        whole = digit(bounded.limit)
        values: dict[object, Lin] = {}
        for axis in bounded.axes:
            weight, extent = coefficient(bounded.number, axis)[0], self.extents[axis]
            if weight is None:
                return False
            above = floordiv(Lin.of(whole), weight, self.ranges)
            last = weight * extent == bounded.count
            values[axis] = above if last else mod(above, extent, self.ranges)
        swapped = [rebuilt(lin, values.get, self.ranges) for lin in lins]
        return self._replace(swapped, bounded.axes, {whole: bounded.limit})

    def _dividends(self) -> list[Lin]:
        """Return the dividends of all quotients and remainders."""
        return [atom.num for lin in (*self.indices, *self.facts) for atom in divisions(lin)]

    def _inside_atoms(self) -> list[Axis]:
        """Return the loops that stand inside of quotients, remainders or other atoms."""
        inside = {
            leaf
            for lin in (*self.indices, *self.facts)
            for atom in lin.atoms()
            if not isinstance(atom, (Axis, Var))
            for leaf in Lin.of(atom).leaves()
        }
        return [axis for axis in self.extents if axis in inside]

    def _separated(self, axis: Axis) -> bool:
        """Replace a loop of fused axes by a digit for each of them."""
        lins = self._without(None)
        parts = separate(axis, self.extents[axis], lins, self.ranges)
        if parts is None:
            return False
        extents = {own: size for own, (_, size) in zip(parts.axes, parts.places)}
        swapped = [rebuilt(lin, parts.swap, self.ranges) for lin in lins]
        if not self._replace(swapped, {axis}, extents):
            return False
        self.parts |= set(parts.axes)
        return True

    def _without(self, fact: Lin | None) -> list[Lin]:
        """Return the indices, and the facts but for ``fact``."""
        return [*self.indices, *(other for other in self.facts if other is not fact)]

    def _replace(
        self, swapped: Sequence[Lin | None], axes: Container[Axis], extents: Mapping[Axis, Lin]
    ) -> bool:
        """Set the indices and facts to ``swapped``, over loops of ``extents`` in place of ``axes``.

        Return ``False`` if that is unknown, or if something still depends on ``axes``.
        """
        rest = {axis: size for axis, size in self.extents.items() if axis not in axes}
        certain = [lin for lin in swapped if lin is not None]
        sizes = (*rest.values(), *extents.values())
        if len(certain) < len(swapped) or any(varies(lin, axes) for lin in (*certain, *sizes)):
            return False
        self.indices, self.facts = certain[: len(self.indices)], certain[len(self.indices) :]
        self.extents = rest | dict(extents)
        return True


def _swapped(lin: Lin, bounded: Bounded, unit: Axis, whole: Axis) -> Lin | None:
    """Return ``lin`` with ``whole`` in place of the number, ``None`` if digits of it are left."""
    factor, _ = coefficient(lin, unit)
    if factor is None:
        return None
    rest = lin - bounded.number * factor
    return None if varies(rest, bounded.axes) else rest + Lin.of(whole) * factor
