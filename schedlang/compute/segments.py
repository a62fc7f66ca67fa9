"""Ranges that are segments of one array: ``P[i] <= k < P[i + 1]`` for a monotonic ``P``.

The segments of different ``i`` do not overlap, so all of them together have at most as many points
as the box around them. That is what a count of the work of a sparse row needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedlang.compute.facts import facts_of
from schedlang.compute.read import Read
from schedlang.expr import dtypes
from schedlang.expr.nodes import ArrayRead, Axis, Binary, Cast, Expr
from schedlang.index.linear import Lin
from schedlang.index.simplify import to_lin

Monotonic = Callable[[ArrayRead], bool]


@dataclass(frozen=True)
class Segments:
    """Two conditions that say that an index lies in a segment, and what they depend on.

    ``rows`` are the axes that number the segments, and ``inside`` the axes of the index.
    """

    conditions: tuple[Expr, Expr]
    rows: frozenset[Axis]
    inside: frozenset[Axis]


def is_monotonic(read: ArrayRead) -> bool:
    """Return whether ``read`` is of a tensor that is declared monotonic."""
    facts = facts_of(read.tensor) if isinstance(read, Read) else None
    return facts is not None and facts.monotonic


def find_segments(
    conditions: Sequence[Expr], monotonic: Monotonic = is_monotonic
) -> list[Segments]:
    """Return the pairs of ``conditions`` that bound an index by a segment.

    >>> import schedlang as sl
    >>> from schedlang.expr.lazy import conditions
    >>> P = sl.assume(sl.placeholder((9,), "int32", name="P"), monotonic=True, within=(0, 50))
    >>> X = sl.placeholder((50,), name="X")
    >>> def row(i):
    ...     k = sl.reduce_axis((P[i], P[i + 1]), name="k")
    ...     return sl.sum(X[k], axis=k)
    >>> op = sl.compute((8,), row, name="S").op
    >>> [(set(s.rows), set(s.inside)) for s in find_segments(conditions(op.where))]
    [({i}, {k})]
    """
    segments = []
    starts = [(c, c.a, c.b) for c in conditions if isinstance(c, Binary) and c.op == ">="]
    stops = [(c, c.a, c.b) for c in conditions if isinstance(c, Binary) and c.op == "<"]
    for start, index, low in starts:
        for stop, other, high in stops:
            rows = _rows(_read(low), _read(high), monotonic)
            if rows is None or to_lin(index) != to_lin(other):
                continue
            axes, inside = _axes(rows), _axes(to_lin(index))
            if axes and not axes & inside:
                segments.append(Segments((start, stop), axes, inside))
    return segments


def _read(value: Expr) -> ArrayRead | None:
    if isinstance(value, Cast) and dtypes.is_integer(value.a.dtype):
        value = value.a
    return value if isinstance(value, ArrayRead) else None


def _rows(low: ArrayRead | None, high: ArrayRead | None, monotonic: Monotonic) -> Lin | None:
    """Return the number of the segment from ``low`` to ``high``, if they are one."""
    if low is None or high is None or low.source != high.source or len(low.indices) != 1:
        return None
    rows, after = (to_lin(read.indices[0]) for read in (low, high))
    return rows if after - rows == Lin.of(1) and monotonic(low) and monotonic(high) else None


def _axes(lin: Lin) -> frozenset[Axis]:
    return frozenset(leaf for leaf in lin.leaves() if isinstance(leaf, Axis))
