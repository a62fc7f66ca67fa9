"""Counting of executions: the points of a statement's loops at which its conditions hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import lcm, prod
from typing import Any, TypeVar

from schedlang.analysis.closed_forms import (
    Formula,
    as_sympy,
    closed_count,
    largest,
    length_of,
    where_positive,
    without_axes,
    without_implied,
)
from schedlang.compute.facts import facts_of
from schedlang.compute.segments import Segments, find_segments
from schedlang.compute.segments import is_monotonic as of_tensor
from schedlang.expr.nodes import ArrayRead, Axis, Const, Var
from schedlang.index.conjunctions import (
    AtLeast,
    Either,
    Held,
    Item,
    Never,
    Unknown,
    expressions_of,
    items_of,
    leaves_of,
    negate,
)
from schedlang.index.counting import count_by_enumeration
from schedlang.index.linear import ZERO, Div, Extreme, Lin, Mod, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import floordiv
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import Load
from schedlang.ir.printer import expr_text

# the most values of short axes when a formula is evaluated value by value
MOST_FIXED = 64
# the most disjunctions in one count; each doubles the work
MOST_EITHER = 6

ItemT = TypeVar("ItemT", bound=Item)

_ALWAYS: Held = (Const(True, "bool"), True)
Loops = tuple[tuple[Axis, Lin], ...]


@dataclass(eq=False)
class Counter:
    """A counter of points, which caches its counts.

    ``bounds`` describes the conditions that made a count an upper bound. ``names`` are the
    printed names of loop variables; if they are ``None``, ``bounds`` stays empty.
    """

    names: dict[Axis, str] | None = field(default_factory=dict)
    bounds: dict[str, None] = field(default_factory=dict)
    counts: dict[Any, Any] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    exact: bool = True

    def count(self, loops: Loops, held: Sequence[Held]) -> Any:
        """Return the number of points of ``loops`` at which all of ``held`` hold.

        It is an ``int`` or a sympy expression.
        """
        key = (loops, tuple((id(cond), truth) for cond, truth in held))
        if key not in self.counts:
            # keep the conditions alive, since their ids are the key
            self.counts[key] = self._counted(loops, held), tuple(held)
        return self.counts[key][0]

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
        unknown = [item for item in items if isinstance(item, Unknown)]
        for segment in find_segments([item.cond for item in unknown], is_monotonic):
            # all segments together have the points of the box around them
            used = {id(cond) for cond in segment.conditions}
            unknown = [item for item in unknown if id(item.cond) not in used]
            extents = {a: e for a, e in extents.items() if a not in segment.rows}
            items = [i for i in items if segment.rows.isdisjoint(leaves_of(i))]
            self._note_segments(segment)
        for item in unknown:
            self._note_bound(item)
        result: Any = 1
        free = dict(extents)
        for axes, part in _components([i for i in items if not isinstance(i, Unknown)], extents):
            inside = {axis: free.pop(axis) for axis in axes}
            result = result * self._component(inside, part, ranges, depth)
        for extent in free.values():
            result = result * length_of(extent)
        return result

    def _component(
        self, extents: Mapping[Axis, Lin], items: Sequence[Item], ranges: Ranges, depth: int
    ) -> Any:
        key = (tuple(extents.items()), frozenset(items))
        if key not in self.known:
            number = self._exact_count(extents, items, ranges, depth)
            if number is None:
                self.known[key] = prod(length_of(e) for e in extents.values()), False
                for item in items:
                    self._note_bound(item)
            else:
                self.known[key] = number, True
        value, exact = self.known[key]
        self.exact &= exact
        return value

    def _exact_count(
        self, extents: Mapping[Axis, Lin], items: Sequence[Item], ranges: Ranges, depth: int
    ) -> Any | None:
        numbers = {a: e.const for a, e in extents.items() if e.const is not None}
        symbolic = len(numbers) < len(extents) or any(
            isinstance(leaf, Var) for item in items for leaf in leaves_of(item)
        )
        if not symbolic:
            number = count_by_enumeration(numbers, items)
            if number is not None:
                return number
        either = next((item for item in items if isinstance(item, Either)), None)
        if either is not None:
            return self._count_either(extents, items, either, ranges, depth)
        if not all(isinstance(item, AtLeast) for item in items):
            return None
        return self._formula(extents, items, ranges, MOST_FIXED)

    def _count_either(
        self,
        extents: Mapping[Axis, Lin],
        items: Sequence[Item],
        either: Either,
        ranges: Ranges,
        depth: int,
    ) -> Any | None:
        """Count the points of the other items, minus those where neither alternative holds."""
        if not depth:
            return None
        rest = [item for item in items if item is not either]
        neither = items_of((*negate(either.first), *negate(either.second)), ranges)
        merged = list(dict.fromkeys((*rest, *neither)))
        every = self._count(extents, rest, ranges, depth - 1)
        before, self.exact = self.exact, True
        neither_holds = self._count(extents, merged, ranges, depth - 1)
        exact, self.exact = self.exact, before
        # subtracting an upper bound would give too few
        return every - neither_holds if exact else None

    def _formula(
        self, extents: Mapping[Axis, Lin], items: Sequence[Item], ranges: Ranges, most: int
    ) -> Any | None:
        """Count by formula, for up to ``most`` values of short axes one by one."""
        rows = without_implied([item.lin for item in items if isinstance(item, AtLeast)], ranges)
        result: Any = 1
        free = dict(extents)
        # without the rows that are implied, some axes may be free or apart
        for axes, part in _components([AtLeast(row, _ALWAYS) for row in rows], extents):
            inside = {axis: free.pop(axis) for axis in axes}
            number = self._connected(inside, [row.lin for row in part], ranges, most)
            if number is None:
                return None
            result = result * number
        return result * prod(length_of(extent) for extent in free.values())

    def _connected(
        self, extents: Mapping[Axis, Lin], rows: Sequence[Lin], ranges: Ranges, most: int
    ) -> Any | None:
        """Count by formula the points at which ``rows`` hold, which connect all ``extents``."""
        if not extents:
            return _condition(rows)
        formula = closed_count(extents, rows, ranges)
        if formula is not None:
            value = self._with_zero_step(formula, extents, rows, most)
            return None if value is None else where_positive(value, extents.values(), 0)
        spaces = _split_space(extents, rows, most)
        total: Any = 0
        for inside, values in spaces:
            part = self._parts(inside, rows, values, most // len(spaces))
            if part is None:
                return None
            total = total + part
        return total if spaces else None

    def _with_zero_step(
        self, formula: Formula, extents: Mapping[Axis, Lin], rows: Sequence[Lin], most: int
    ) -> Any | None:
        """Return the ``formula``, with another for the sizes at which its step is 0."""
        if formula.step is None:
            return formula.value
        others = {a: e for a, e in extents.items() if a not in formula.stepped}
        part = self._parts(others, [without_axes(row, formula.stepped) for row in rows], {}, most)
        if part is None:
            return None
        import sympy

        at_zero = part * prod(length_of(extents[axis]) for axis in formula.stepped)
        return sympy.Piecewise(
            (at_zero, sympy.Eq(as_sympy(formula.step), 0)), (formula.value, True)
        )

    def _parts(
        self,
        extents: Mapping[Axis, Lin],
        rows: Sequence[Lin],
        values: Mapping[Axis, Lin],
        most: int,
    ) -> Any | None:
        """Count by formula the points at which ``rows`` hold with ``values`` put in."""
        ranges = Ranges({axis: (ZERO, extent - 1) for axis, extent in extents.items()})
        rows = [to_lin(to_expr(row), values, ranges) for row in rows]
        if any(ranges.nonneg(-row - 1) for row in rows):
            return 0
        items = [AtLeast(row, _ALWAYS) for row in rows if not ranges.nonneg(row)]
        return self._formula(extents, items, ranges, most)

    def _note_segments(self, segments: Segments) -> None:
        self.exact = False
        if self.names is not None:
            ends = " and ".join(expr_text(cond, self.names) for cond in segments.conditions)
            self.bounds.setdefault(f"as if the ranges {ends} filled the box around them")

    def _note_bound(self, item: Item) -> None:
        self.exact = False
        if self.names is None:
            return
        for cond in expressions_of(item):
            self.bounds.setdefault(f"as if {expr_text(cond, self.names)} always held")


def is_monotonic(read: ArrayRead) -> bool:
    """Return whether ``read``, of a tensor or a buffer, is of an input declared monotonic."""
    if isinstance(read, Load):
        facts = None if read.buffer.tensor is None else facts_of(read.buffer.tensor)
        return facts is not None and facts.monotonic
    return of_tensor(read)


def largest_rows(loops: Loops, held: Sequence[Held]) -> list[Lin] | None:
    """Return forms that are all 0 or more if and only if ``held`` hold at a point of ``loops``.

    Return ``None`` if no point is the best for all conditions. The loops are not empty.
    """
    ranges = Ranges({axis: (ZERO, extent - 1) for axis, extent in loops})
    items = items_of(held, ranges)
    rows = [item.lin for item in items if isinstance(item, AtLeast)]
    return largest(dict(loops), rows) if len(rows) == len(items) else None


Space = tuple[dict[Axis, Lin], dict[Axis, Lin]]


def _split_space(extents: Mapping[Axis, Lin], rows: Sequence[Lin], most: int) -> list[Space]:
    """Split ``extents`` into simpler spaces, each with the value of the axis that was split.

    An axis in ``//`` or ``%`` by a constant is split by its remainder, a short axis by its value.
    """
    for axis, extent in extents.items():
        numbers = {d for row in rows for d in _divisors(row, axis)}
        period = lcm(*numbers) if numbers else 0
        if 1 < period <= most:
            part = Axis(f"{axis.name}.each", to_expr(extent))
            return [
                (
                    {
                        part if a is axis else a: _with_remainder(e, rest, period)
                        if a is axis
                        else e
                        for a, e in extents.items()
                    },
                    {axis: Lin.of(part) * period + rest},
                )
                for rest in range(period)
            ]
    short = [a for a, e in extents.items() if e.const is not None and e.const <= most]
    if not short:
        return []
    axis = min(short, key=lambda a: extents[a].const or 0)
    others = {a: e for a, e in extents.items() if a is not axis}
    return [(others, {axis: Lin.of(value)}) for value in range(extents[axis].const or 0)]


def _with_remainder(extent: Lin, rest: int, period: int) -> Lin:
    """Return how many numbers in ``0..extent`` have the remainder ``rest`` modulo ``period``."""
    return floordiv(extent + (period - 1 - rest), Lin.of(period), Ranges())


def _divisors(lin: Lin, axis: Axis) -> set[int]:
    """Return the constant divisors of terms with ``axis``."""
    divisors: set[int] = set()
    stack = list(lin.atoms())
    while stack:
        atom = stack.pop()
        if isinstance(atom, (Div, Mod)):
            if atom.den.const and any(leaf is axis for leaf in atom.num.leaves()):
                divisors.add(abs(atom.den.const))
            stack += [*atom.num.atoms(), *atom.den.atoms()]
        elif isinstance(atom, Extreme):
            stack += [inner for arg in atom.args for inner in arg.atoms()]
    return divisors


def _condition(rows: Sequence[Lin]) -> Any:
    """Return 1 if all ``rows``, which depend on sizes only, are 0 or more, else 0."""
    import sympy

    held = sympy.And(*(as_sympy(row) >= 0 for row in rows))
    return sympy.Piecewise((1, held), (0, True))


def _components(
    items: Sequence[ItemT], extents: Mapping[Axis, Lin]
) -> list[tuple[list[Axis], list[ItemT]]]:
    """Return groups of ``items`` that share no axes, each with its axes."""
    groups: list[tuple[set[Axis], list[ItemT]]] = []
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
    return [([a for a in extents if a in axes], members) for axes, members in groups]
