"""Factors of steps that advice proposes: where possible, they divide the axis."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.expr.nodes import Axis

# rows of a tile of sums; the others are tried where none of these divides
ROWS, OTHER_ROWS = (4, 6, 8), (5, 7)


def dividing(axis: Axis, factors: Sequence[int]) -> list[int]:
    """Return the ``factors`` that divide the extent of an axis, or all if none does.

    >>> dividing(Axis("i", 1000), (8, 16)), dividing(Axis("i", 1001), (8, 16))
    ([8], [8, 16])
    """
    extent = axis.extent
    exact = [f for f in factors if isinstance(extent, int) and not extent % f]
    return exact or list(factors)


def rows_of(axis: Axis) -> list[int]:
    """Return the rows of a tile of sums along an axis: numbers that divide it, if it is known.

    >>> rows_of(Axis("i", 1000)), rows_of(Axis("i", 1001))
    ([4, 8], [7])
    """
    if not isinstance(axis.extent, int):
        return list(ROWS)
    exact = [[r for r in tried if not axis.extent % r] for tried in (ROWS, OTHER_ROWS)]
    return exact[0] or exact[1]


def near(axis: Axis, factor: int) -> int:
    """Return the largest divisor of an extent that is more than half of ``factor``, if any.

    Otherwise return ``factor``.

    >>> near(Axis("i", 1000), 16), near(Axis("i", 1009), 16)
    (10, 16)
    """
    extent = axis.extent
    if not isinstance(extent, int):
        return factor
    return next((f for f in range(factor, factor // 2, -1) if not extent % f), factor)
