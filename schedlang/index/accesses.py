"""Accesses to elements, and the enumeration of what two of them reach."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr
from schedlang.index.conditions import facts_of
from schedlang.index.enumeration import Values, leaves_of, spans_of, table, too_many
from schedlang.index.linear import Lin, Opaque, to_expr
from schedlang.index.ranges import Ranges

_MOST_INT64 = 2**62


@dataclass(frozen=True, eq=False)
class Access:
    """An access to the element at ``indices``.

    ``loops`` are around it, outer to inner, with their extents, and ``conds`` hold there.
    """

    indices: tuple[Lin, ...]
    loops: tuple[tuple[Axis, Lin], ...]
    conds: tuple[Expr, ...]
    ranges: Ranges

    @cached_property
    def facts(self) -> tuple[Lin, ...]:
        """Polynomials that are at most 0 where the access takes place."""
        return tuple(f for cond in self.conds for f in facts_of(cond, True, self.ranges))

    @cached_property
    def counts(self) -> dict[Axis, int]:
        """The extents of the loops whose extent is constant."""
        return {axis: extent.const for axis, extent in self.loops if extent.const is not None}


@dataclass(frozen=True, eq=False)
class Reached:
    """The elements that an access reaches, a column for each element and who reaches it.

    It is ``exact`` if each of them is reached; conditions on data may be left out otherwise.
    """

    columns: np.ndarray
    exact: bool


def reach(
    access: Access, indices: Sequence[Lin], together: Sequence[Axis], who: Mapping[Axis, int]
) -> Reached | None:
    """Return the elements at ``indices`` that ``access`` reaches, by the values of ``who``.

    A column holds the values of the axes ``together``, the indices, and a number for ``who``.
    Return ``None`` if there are too many to enumerate, or if they depend on data.
    """
    counts = {axis: n for axis, n in access.counts.items() if axis not in who}
    rows = len(together) + len(indices) + 1
    if 0 in access.counts.values() or 0 in who.values():
        return Reached(np.zeros((rows, 0), np.int64), True)
    spans_known = {axis: (0, n) for axis, n in (*who.items(), *counts.items())}
    roots = [to_expr(lin) for lin in indices]
    tests = [cond for cond in access.conds if spans_of([cond], spans_known) is not None]
    if spans_of(roots, spans_known) is None or any(axis not in counts for axis in together):
        return None
    exact = len(tests) == len(access.conds)
    shared = {*who, *together}
    fixed, tests = _separable(roots, tests, counts, shared)
    moving = leaves_of([*(r for n, r in enumerate(roots) if n not in fixed), *tests])
    spans = {axis: (0, n) for axis, n in who.items()}
    spans |= {a: (0, n) for a, n in counts.items() if a in moving or a in together}
    # an index of its own is enumerated by its distinct values
    listed = {n: Axis("value", len(values)) for n, values in fixed.items()}
    spans |= {axis: (0, len(fixed[n])) for n, axis in listed.items()}

    def value(n: int, root: Expr, values: Values) -> Any:
        return fixed[n][values[listed[n]]] if n in fixed else evaluate(root, values)

    def number(values: Values) -> Any:
        total: Any = 0
        for axis, extent in who.items():
            total = total * extent + values[axis]
        return total

    columns = [
        lambda values, n=n, root=root: value(n, root, values) for n, root in enumerate(roots)
    ]
    elements = table([*together, *columns, number], [(test, True) for test in tests], spans)
    return None if elements is None else Reached(elements, exact)


def _separable(
    roots: Sequence[Expr], tests: Sequence[Expr], counts: Mapping[Axis, int], shared: set[Axis]
) -> tuple[dict[int, np.ndarray], list[Expr]]:
    """Return the values of the indices that share no loop with anything else, by position.

    Such an index is replaced by its distinct values: ``k % 2`` has two, whatever the extent of
    ``k``. Return also the remaining tests: a test that only concerns the loops of such an index
    is applied here, and a test that shares no loop with anything and can hold is dropped.
    """
    values_by_index: dict[int, np.ndarray] = {}
    remaining = list(tests)
    leaves = [set(leaves_of([root])) for root in roots]
    for n, (root, mine) in enumerate(zip(roots, leaves)):
        within = [test for test in remaining if mine.issuperset(leaves_of([test]))]
        without = [test for test in remaining if not mine.issuperset(leaves_of([test]))]
        rest = _union(shared, leaves[:n], leaves[n + 1 :], (leaves_of([t]) for t in without))
        values = None if mine & rest else _values(root, within, mine, counts)
        if values is not None:
            values_by_index[n], remaining = np.unique(values), without
    coupled = []
    for n, test in enumerate(remaining):
        mine = set(leaves_of([test]))
        others = (leaves_of([t]) for t in (*remaining[:n], *remaining[n + 1 :]))
        values = None if mine & _union(shared, leaves, others) else _values(test, [], mine, counts)
        if values is None or not values.any():
            coupled.append(test)
    return values_by_index, coupled


def _union(*groups: Any) -> set[Expr]:
    """Return all leaves of a set and of lists of leaves."""
    first, *lists = groups
    return set(first).union(*(leaves for group in lists for leaves in group))


def _values(
    root: Expr, tests: Sequence[Expr], axes: set[Expr], counts: Mapping[Axis, int]
) -> np.ndarray | None:
    """Return the values of ``root`` where ``tests`` hold, over all iterations of its loops.

    Return ``None`` if it has no such loops, or if there are too many iterations.
    """
    spans = {axis: (0, n) for axis, n in counts.items() if axis in axes}
    columns = table([root], [(test, True) for test in tests], spans) if spans else None
    return None if columns is None else columns[0]


def meet(a: Reached, b: Reached) -> bool:
    """Return whether ``a`` and ``b`` have an element in common that different ``who`` reach."""
    one, other = a.columns, b.columns
    count = one.shape[1]
    if not count or not other.shape[1]:
        return False
    element, size = np.zeros(count + other.shape[1], np.int64), 1
    for left, right in zip(one[:-1], other[:-1]):
        least = min(left.min(), right.min())
        length = int(max(left.max(), right.max()) - least) + 1
        if size * length > _MOST_INT64:
            _, element = np.unique(element, return_inverse=True)
            size = int(element.max()) + 1
        element = element * length
        element[:count] += left - least
        element[count:] += right - least
        size *= length
    if too_many(size, kept=True):
        _, element = np.unique(element, return_inverse=True)
        size = int(element.max()) + 1
    ends = []
    for at, who in ((element[:count], one[-1]), (element[count:], other[-1])):
        least, most = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
        np.minimum.at(least, at, who)
        np.maximum.at(most, at, who)
        ends.append((least, most))
    (low, high), (least, most) = ends
    shared = (high >= 0) & (most >= 0)
    return bool((shared & ((low != least) | (high != most) | (low != high))).any())


def meet_by_enumeration(
    a: Access,
    b: Access,
    pairs: Iterable[tuple[Lin, Lin]],
    together: Sequence[Axis],
    who: Mapping[Axis, int],
) -> bool | None:
    """Return whether the accesses reach one element for different ``who``, by enumeration.

    ``pairs`` are equal if the elements are. Both accesses are in one iteration of the loops
    ``together``. Return ``None`` if enumeration cannot decide.

    >>> i, j = Axis("i", 4), Axis("j", 2)
    >>> loops = ((i, Lin.of(4)), (j, Lin.of(2)))
    >>> at = Access((Lin.of(i) * 2 + Lin.of(j),), loops, (), Ranges())
    >>> meet_by_enumeration(at, at, [(at.indices[0], at.indices[0])], [], {i: 4})
    False
    >>> meet_by_enumeration(at, at, [(at.indices[0], at.indices[0] + 1)], [], {i: 4})
    True
    """
    pairs = list(pairs)
    one = reach(a, [x for x, _ in pairs], together, who)
    two = None if one is None else reach(b, [y for _, y in pairs], together, who)
    if one is None or two is None:
        return None
    is_met = meet(one, two)
    return is_met if not is_met or (one.exact and two.exact) else None


def related_axes(axes: Sequence[Axis], pairs: Iterable[tuple[Lin, Lin]]) -> list[Axis]:
    """Return the ``axes`` that ``pairs`` depend on."""
    leaves = {leaf for pair in pairs for lin in pair for leaf in lin.leaves()}
    inside = leaves_of(leaf.expr for leaf in leaves if isinstance(leaf, Opaque))
    return [axis for axis in axes if axis in leaves or axis in inside]


def tests_of(axes: Sequence[Axis], accesses: Iterable[Access]) -> list[Axis]:
    """Return the ``axes`` that the conditions of ``accesses`` depend on."""
    leaves = leaves_of(cond for access in accesses for cond in access.conds)
    return [axis for axis in axes if axis in leaves]
