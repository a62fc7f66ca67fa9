"""Enumeration: expressions evaluated at every point of a box, in blocks of NumPy arrays.

There is one limit, :data:`MOST_POINTS`, for all questions. Within it the answers are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Binary, Call, Cast, Const, Expr, Select, Unary
from schedlang.expr.visit import postorder
from schedlang.index.conditions import Held

# the most points of a box at which expressions are evaluated
MOST_POINTS = 2**24
# a point whose values are kept takes the time and memory of so many that are only tested
KEPT = 8
# the points that are evaluated at once
BLOCK = 2**18

# the first value of each axis, and how many values it has
Spans = Mapping[Axis, tuple[int, int]]
Values = dict[Any, Any]


def leaves_of(roots: Iterable[Expr]) -> dict[Expr, None]:
    """Return the axes, sizes and elements that ``roots`` depend on, in order."""
    operations = (Binary, Call, Cast, Const, Select, Unary)
    return dict.fromkeys(n for n in postorder(list(roots)) if not isinstance(n, operations))


def spans_of(
    roots: Iterable[Expr], around: Mapping[Axis, tuple[int, int] | None]
) -> dict[Axis, tuple[int, int]] | None:
    """Return the spans of the axes that ``roots`` depend on, in the order of ``around``.

    Return ``None`` if ``roots`` depend on anything but axes of ``around`` whose span is known.

    >>> i, j = Axis("i", 4), Axis("j", 8)
    >>> spans_of([j * 2], {i: (0, 4), j: (0, 8)})
    {j: (0, 8)}
    """
    needed = leaves_of(roots)
    spans: dict[Axis, tuple[int, int]] = {}
    for axis, span in around.items():
        if axis in needed:
            if span is None:
                return None
            spans[axis] = span
    return spans if len(spans) == len(needed) else None


def too_many(points: int, kept: bool = False) -> bool:
    """Return whether there are more ``points`` than :data:`MOST_POINTS`; fewer may be ``kept``."""
    return points > MOST_POINTS // (KEPT if kept else 1)


def blocks(spans: Spans, kept: bool = False) -> Iterator[tuple[Values, tuple[int, ...]]] | None:
    """Return the values of the axes at all points, and the shape of the points, block by block.

    The arrays of a block broadcast to its shape. The last axis changes fastest. Return ``None`` if
    there are :func:`too_many` points.

    >>> i, j = Axis("i", 2), Axis("j", 3)
    >>> ((values, shape),) = blocks({i: (0, 2), j: (5, 3)})
    >>> (values[i] * 10 + values[j]).tolist(), shape
    ([[5, 6, 7], [15, 16, 17]], (2, 3))
    """
    counts = [count for _, count in spans.values()]
    points = prod(counts)
    if too_many(points, kept):
        return None
    return _blocks(spans, counts) if points else iter(())


def _blocks(spans: Spans, counts: Sequence[int]) -> Iterator[tuple[Values, tuple[int, ...]]]:
    # the axes before ``cut`` take one value in a block, the axis at ``cut`` some, the others all
    cut = len(counts)
    while cut and prod(counts[cut - 1 :]) <= BLOCK:
        cut -= 1
    cut = max(0, cut - 1)
    rows = max(1, BLOCK // prod(counts[cut + 1 :])) if counts else 1
    for outer in np.ndindex(*counts[:cut]):
        for first in range(0, counts[cut] if counts else 1, rows):
            values: Values = {}
            shape = []
            for place, (axis, (start, count)) in enumerate(spans.items()):
                if place < cut:
                    at = np.array([start + outer[place]])
                elif place == cut:
                    at = np.arange(start + first, start + min(count, first + rows))
                else:
                    at = np.arange(start, start + count)
                values[axis] = at.reshape([-1 if k == place else 1 for k in range(len(counts))])
                shape.append(len(at))
            yield values, tuple(shape)


def _holds(held: Iterable[Held], values: Values, shape: tuple[int, ...]) -> Any:
    """Return the points at which all of ``held`` hold; ``None`` for all points."""
    mask: Any = None
    for cond, truth in held:
        truths = np.asarray(evaluate(cond, values)).astype(bool) == truth
        mask = truths if mask is None else mask & truths
    return None if mask is None else np.broadcast_to(mask, shape)


def value_range(value: Expr, held: Sequence[Held], spans: Spans) -> tuple[int, int] | None:
    """Return the least and the largest ``value`` over all points where ``held`` hold.

    Return ``None`` if the conditions hold nowhere, or if there are too many points to try.

    >>> i = Axis("i", 8)
    >>> value_range(i * i % 5, [(i < 3, True)], {i: (0, 8)})
    (0, 4)
    """
    ends: list[tuple[int, int]] = []
    for values, shape in blocks(spans) or ():
        # where a condition guards against it, the value may divide by zero
        with np.errstate(all="ignore"):
            mask = _holds(held, values, shape)
            values_kept = np.asarray(evaluate(value, values))
            values_kept = values_kept if mask is None else np.broadcast_to(values_kept, shape)[mask]
        if values_kept.size:
            ends.append((int(values_kept.min()), int(values_kept.max())))
    return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None


def count(held: Sequence[Held], spans: Spans, sizes: Mapping[Any, Any] | None = None) -> int | None:
    """Return the number of points at which ``held`` hold; ``None`` if there are too many to try.

    ``sizes`` are the values of sizes.

    >>> i, j = Axis("i", 8), Axis("j", 8)
    >>> count([(i <= j, True)], {i: (0, 8), j: (0, 8)})
    36
    """
    parts = blocks(spans)
    if parts is None:
        return None
    total = 0
    for values, shape in parts:
        with np.errstate(all="ignore"):
            mask = _holds(held, {**values, **(sizes or {})}, shape)
        total += prod(shape) if mask is None else int(np.count_nonzero(mask))
    return total


def first_outside(
    value: Expr, extent: int, held: Sequence[Held], spans: Spans
) -> tuple[int, dict[Axis, int]] | tuple[()] | None:
    """Return the first ``value`` outside ``0..extent`` where ``held`` hold, and its point.

    Return ``()`` if there is none, and ``None`` if there are too many points to try.

    >>> i, j = Axis("i", 8), Axis("j", 8)
    >>> first_outside(i + j, 13, [(i < 7, True)], {i: (0, 8), j: (0, 8)})
    (13, {i: 6, j: 7})
    """
    parts = blocks(spans)
    if parts is None:
        return None
    for values, shape in parts:
        with np.errstate(all="ignore"):
            mask = _holds(held, values, shape)
            at = np.asarray(evaluate(value, values))
            outside = (at < 0) | (at >= extent)
        if mask is not None:
            outside = outside & mask
        if outside.any():
            outside = np.broadcast_to(outside, shape)
            first = int(np.argmax(outside))
            place = np.unravel_index(first, shape)
            point = {axis: int(np.broadcast_to(row, shape)[place]) for axis, row in values.items()}
            return int(np.broadcast_to(at, shape)[place]), point
    return ()


def table(
    roots: Sequence[Expr | Callable[[Values], Any]], held: Sequence[Held], spans: Spans
) -> np.ndarray | None:
    """Return a column for each point where ``held`` hold, with the value of each of ``roots``.

    A root is an expression, or a function of the values of the axes. Return ``None`` if there are
    too many points to keep.

    >>> i = Axis("i", 4)
    >>> table([i, i % 2], [(i > 0, True)], {i: (0, 4)}).tolist()
    [[1, 2, 3], [1, 0, 1]]
    """
    all_blocks = blocks(spans, kept=True)
    if all_blocks is None:
        return None
    parts = []
    for values, shape in all_blocks:
        with np.errstate(all="ignore"):
            mask = _holds(held, values, shape)
            found_at = [evaluate(r, values) if isinstance(r, Expr) else r(values) for r in roots]
        rows = [np.broadcast_to(np.asarray(row, np.int64), shape) for row in found_at]
        flat = [row.reshape(-1) if mask is None else row[mask] for row in rows]
        size = prod(shape) if mask is None else int(np.count_nonzero(mask))
        parts.append(np.stack(flat) if flat else np.zeros((0, size), np.int64))
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(roots), 0), np.int64)
