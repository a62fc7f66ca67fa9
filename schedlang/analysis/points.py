"""How often a statement runs: the points of the loops around it where its conditions hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from schedlang.analysis.closed import as_sympy, closed_count
from schedlang.analysis.conditions import (
    AtLeast,
    Either,
    Held,
    Item,
    Never,
    Unknown,
    expressions_of,
    items_of,
    leaves_of,
    negated,
)
from schedlang.analysis.enumerated import enumerated
from schedlang.expr.interval import Ranges
from schedlang.expr.linear import ZERO, Lin
from schedlang.expr.nodes import Axis, Var
from schedlang.ir.printer import expr_text

# values of short axes that are tried one by one under a formula
MOST_FIXED = 64
# alternatives that are counted by what they leave out, each of which doubles the work
MOST_EITHER = 6

Loops = tuple[tuple[Axis, Lin], ...]


@dataclass(eq=False)
class Counter:
    """Counts points, and remembers counts; ``bounds`` says which of them are upper bounds.

    ``names`` are the printed names of loop variables.
    """

    names: dict[Axis, str] = field(default_factory=dict)
    bounds: dict[str, None] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)

    def count(self, loops: Loops, held: Sequence[Held]) -> Any:
        """The points of ``loops`` where all of ``held`` hold: an ``int``, or of sympy's."""
        # nodes compare by identity, and outlive the counter
        key = (loops, tuple((id(cond), truth) for cond, truth in held))
        if key not in self.known:
            self.known[key] = self._counted(loops, held)
        return self.known[key]

    def _counted(self, loops: Loops, held: Sequence[Held]) -> Any:
        if any(extent.const is not None and extent.const <= 0 for _, extent in loops):
            return 0
        ranges = Ranges({axis: (ZERO, extent - 1) for axis, extent in loops})
        return self._count(dict(loops), items_of(held, ranges), ranges, MOST_EITHER)

    def _count(
        self, extents: Mapping[Axis, Lin], items: Sequence[Item], ranges: Ranges, depth: int
    ) -> Any:
        if any(isinstance(item, Never) for item in items):
            return 0
        for item in items:
            if isinstance(item, Unknown):
                self._bound(item)
        result: Any = 1
        free = dict(extents)
        for axes, part in _components([i for i in items if not isinstance(i, Unknown)], extents):
            inside = {axis: free.pop(axis) for axis in axes}
            result = result * self._component(inside, part, ranges, depth)
        for extent in free.values():
            result = result * (as_sympy(extent) if extent.const is None else extent.const)
        return result

    def _component(
        self, extents: Mapping[Axis, Lin], items: Sequence[Item], ranges: Ranges, depth: int
    ) -> Any:
        key = (tuple(extents.items()), frozenset(items))
        if key not in self.known:
            found = self._found(extents, items, ranges, depth)
            if found is None:
                for item in items:
                    self._bound(item)
                found = prod(_number(extent) for extent in extents.values())
            self.known[key] = found
        return self.known[key]

    def _found(
        self, extents: Mapping[Axis, Lin], items: Sequence[Item], ranges: Ranges, depth: int
    ) -> Any | None:
        numbers = {a: e.const for a, e in extents.items() if e.const is not None}
        symbolic = len(numbers) < len(extents) or any(
            isinstance(leaf, Var) for item in items for leaf in leaves_of(item)
        )
        if not symbolic:
            found = enumerated(numbers, items)
            if found is not None:
                return found
        either = next((item for item in items if isinstance(item, Either)), None)
        if either is not None:
            return self._without(extents, items, either, ranges, depth)
        if not symbolic or not all(isinstance(item, AtLeast) for item in items):
            return None
        rows = [item.lin for item in items if isinstance(item, AtLeast)]
        return self._formula(extents, rows, ranges, MOST_FIXED)

    def _without(
        self, extents: Mapping[Axis, Lin], items: Sequence[Item], either: Either, ranges: Ranges,
        depth: int,
    ) -> Any | None:  # fmt: skip
        """All points of the others less those where neither alternative holds."""
        if not depth:
            return None
        rest = [item for item in items if item is not either]
        neither = items_of((*negated(either.first), *negated(either.second)), ranges)
        merged = list(dict.fromkeys((*rest, *neither)))
        every = self._count(extents, rest, ranges, depth - 1)
        return every - self._count(extents, merged, ranges, depth - 1)

    def _formula(
        self, extents: Mapping[Axis, Lin], rows: Sequence[Lin], ranges: Ranges, most: int
    ) -> Any | None:
        found = closed_count(extents, rows, ranges)
        if found is not None or not extents:
            return found if extents else _condition(rows)
        short = [a for a, e in extents.items() if e.const is not None and e.const <= most]
        if not short:
            return None
        axis = min(short, key=lambda a: extents[a].const or 0)
        length = extents[axis].const or 0
        others = {a: e for a, e in extents.items() if a is not axis}
        total: Any = 0
        for value in range(length):
            left: list[Item] = []
            for row in rows:
                fixed = row.substitute({axis: Lin.of(value)})
                if ranges.nonneg(-fixed - 1):
                    left = [Never()]
                    break
                if not ranges.nonneg(fixed):
                    left.append(AtLeast(fixed))
            part = self._fixed(others, left, ranges, most // length)
            if part is None:
                return None
            total = total + part
        return total

    def _fixed(
        self, extents: Mapping[Axis, Lin], items: Sequence[Item], ranges: Ranges, most: int
    ) -> Any | None:
        if any(isinstance(item, Never) for item in items):
            return 0
        result: Any = 1
        free = dict(extents)
        for axes, part in _components(items, extents):
            inside = {axis: free.pop(axis) for axis in axes}
            rows = [item.lin for item in part if isinstance(item, AtLeast)]
            found = self._formula(inside, rows, ranges, most)
            if found is None:
                return None
            result = result * found
        for extent in free.values():
            result = result * _number(extent)
        return result

    def _bound(self, item: Item) -> None:
        for cond in expressions_of(item):
            self.bounds.setdefault(f"as if {expr_text(cond, self.names)} always held")


def _number(extent: Lin) -> Any:
    return as_sympy(extent) if extent.const is None else extent.const


def _condition(rows: Sequence[Lin]) -> Any:
    """1 where conditions on sizes alone hold, else 0."""
    import sympy

    held = sympy.And(*(as_sympy(row) >= 0 for row in rows))
    return sympy.Piecewise((1, held), (0, True))


def _components(
    items: Sequence[Item], extents: Mapping[Axis, Lin]
) -> list[tuple[list[Axis], list[Item]]]:
    """``items`` in groups that share no axis, each with its axes."""
    groups: list[tuple[set[Axis], list[Item]]] = []
    for item in items:
        axes = {leaf for leaf in leaves_of(item) if isinstance(leaf, Axis)}
        joined = [item]
        rest = []
        for group in groups:
            if group[0] & axes:
                axes = axes | group[0]
                joined = [*group[1], *joined]
            else:
                rest.append(group)
        groups = [*rest, (axes, joined)]
    return [([a for a in extents if a in axes], found) for axes, found in groups]


__all__ = ["Counter", "Loops"]
