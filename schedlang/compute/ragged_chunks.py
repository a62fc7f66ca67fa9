"""The evaluation of reductions over ragged ranges by NumPy, in chunks.

The points of all ranges stand in one list, row after row, so that NumPy sees arrays without gaps.
The list is one dimension; axes on which no range depends are the others. Segments of the list are
then reduced by ``ufunc.reduceat``, or in a tree by other combiners.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from schedlang.compute.chunks import (
    CHUNK,
    Arrays,
    Box,
    Prepared,
    boxes,
    check_guards,
    inside,
    read_clipped,
    shrink,
)
from schedlang.compute.fold import ACCUMULATORS, Masked, combine_kept
from schedlang.compute.ragged import without_ranges
from schedlang.compute.read import Read
from schedlang.compute.tensor import ComputeOp
from schedlang.errors import BoundsError, explain
from schedlang.expr.evaluate import Program, plan
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.expr.visit import axes_in

Values = Mapping[Any, Any]


@dataclass(frozen=True)
class _Layout:
    """The axes of an operation by their place in the arrays.

    The list runs over the data axes ``rows``, then over the reduction axes ``listed``. ``summed``
    and ``columns`` are the other reduction and data axes, each a dimension.
    """

    rows: tuple[Axis, ...]
    listed: tuple[Axis, ...]
    summed: tuple[Axis, ...]
    columns: tuple[Axis, ...]

    @staticmethod
    def of(op: ComputeOp) -> _Layout:
        waiting = [a for a in op.reduce_axis if a.bounds is not None]
        needed: dict[Axis, None] = {}
        while waiting:
            axis = waiting.pop()
            if axis not in needed:
                needed[axis] = None
                waiting += _dependences(axis)
        return _Layout(
            tuple(a for a in op.axis if a in needed),
            _ordered(op, needed),
            tuple(a for a in op.reduce_axis if a not in needed),
            tuple(a for a in op.axis if a not in needed),
        )


def _dependences(axis: Axis) -> list[Axis]:
    """Return the axes on which the range of ``axis`` depends."""
    ends = [e for e in axis.bounds or () if isinstance(e, Expr)]
    return axes_in(ends)


def has_ranges(op: ComputeOp) -> bool:
    """Return whether a reduction axis has a range that depends on the operation's own axes alone.

    ``cache_write`` gives a stage new data axes. Then only its condition has the ranges.
    """
    own = {*op.axis, *op.reduce_axis}
    return any(a.bounds is not None for a in op.reduce_axis) and all(
        d in own for a in op.reduce_axis for d in _dependences(a)
    )


def _ordered(op: ComputeOp, needed: Mapping[Axis, None]) -> tuple[Axis, ...]:
    """Return the reduction axes among ``needed``, each after those its range depends on."""
    waiting = [a for a in op.reduce_axis if a in needed]
    order: list[Axis] = []
    while waiting:
        axis = next(a for a in waiting if not any(d in waiting for d in _dependences(a)))
        waiting.remove(axis)
        order.append(axis)
    return tuple(order)


def execute_ragged(stage: Prepared, arrays: Arrays, outs: Sequence[np.ndarray], data: Box) -> None:
    """Write the elements of a reduction with ragged axes at the points ``data`` into ``outs``."""
    runner = _Runner(stage, arrays)
    layout, op = runner.layout, stage.op
    spans = dict(zip(op.axis, data))
    lengths = [max(1, stop - start) for start, stop in (spans[a] for a in layout.rows)]
    steps = shrink(lengths, [range(len(lengths))], max(256, CHUNK // runner.expanded))
    for rows in boxes(tuple(spans[a] for a in layout.rows), steps):
        totals = runner.rows(rows, tuple(spans[a] for a in layout.columns))
        shape = [stop - start for start, stop in rows]
        order = (*layout.rows, *layout.columns)
        place = {**dict(zip(layout.rows, rows)), **{a: spans[a] for a in layout.columns}}
        where = tuple(slice(*place[a]) for a in op.axis)
        for out, total in zip(outs, totals):
            grid = total.reshape((*shape, *total.shape[1:]))
            out[where] = grid.transpose([order.index(a) for a in op.axis])


class _Runner:
    """The programs of one operation, and the arrays that they read."""

    def __init__(self, stage: Prepared, arrays: Arrays) -> None:
        op = stage.op
        self.stage, self.arrays = stage, arrays
        self.layout = _Layout.of(op)
        self.spans = dict(zip(stage.axes, stage.spans))
        own = without_ranges(op.where, len(op.limits))
        self.program = plan((*op.body, *(() if own is None else (own,))))
        self.tested = own is not None
        self.init = plan(op.init) if op.init else None
        self.ends: dict[Axis, Program] = {}
        for axis in self.layout.listed:
            if axis.bounds is not None:
                roots = [e if isinstance(e, Expr) else Const(e, "int64") for e in axis.bounds]
                self.ends[axis] = plan(roots)
        # the points that the axes before the last make of one row, at most
        before = self.layout.listed[:-1]
        self.expanded = max(1, prod(self.spans[a][1] - self.spans[a][0] for a in before))

    @property
    def budget(self) -> int:
        """The most elements of a chunk, so that all live temporaries fit in 64 MiB."""
        return min(CHUNK, max(2**23 // max(self.program.peak, 1), 256))

    def run(self, program: Program, values: Values) -> tuple[Any, ...]:
        outside: list[tuple[Read, tuple[Any, ...]]] = []

        def read(node: Read, indices: tuple[Any, ...]) -> Any:
            array = self.arrays[node.tensor]
            if all(inside(i, n) for i, n in zip(indices, array.shape)):
                return array[indices]
            outside.append((node, indices))
            return read_clipped(array, indices)

        results = program.run(values, read)
        if outside:
            check_guards(self.stage, outside, values, self.arrays)
        return results

    def rows(self, rows: Box, columns: Box) -> list[np.ndarray]:
        """Return the values of each part, one row for each point of ``rows``."""
        widths = [stop - start for start, stop in rows]
        count = prod(widths)
        points: dict[Any, np.ndarray] = {
            a: at.reshape(-1) + start
            for a, at, (start, _) in zip(self.layout.rows, np.indices(widths), rows)
        }
        totals = self.starts(points, count, columns)
        row = np.arange(count)
        for axis in self.layout.listed[:-1]:
            first, length = self.range_of(axis, points, len(row))
            at, step = _expanded(length, 0, int(length.sum()))
            points = {a: v[at] for a, v in points.items()}
            points[axis], row = first[at] + step, row[at]
        last = self.layout.listed[-1]
        first, length = self.range_of(last, points, len(row))
        widths = [stop - start for start, stop in (*self.summed, *columns)]
        steps = shrink(widths, [range(len(widths))], max(1, self.budget // 64))
        most = max(64, self.budget // max(1, prod(steps)))
        every = int(length.sum())
        for start in range(0, every, most):
            at, step = _expanded(length, start, min(start + most, every))
            inner = {a: v[at] for a, v in points.items()}
            inner[last] = first[at] + step
            for box in boxes((*self.summed, *columns), steps):
                self.add(totals, inner, row[at], box, columns)
        return totals

    @property
    def summed(self) -> Box:
        return tuple(self.spans[a] for a in self.layout.summed)

    def starts(self, points: Values, count: int, columns: Box) -> list[np.ndarray]:
        """Return the initial value of each part at all rows and columns."""
        op, reducer = self.stage.op, self.stage.op.combiner
        values: Sequence[Any] = [np.array(c.value, c.dtype) for c in reducer.identity]
        if self.init is not None:
            values = self.run(self.init, self.placed(points, self.layout.columns, columns))
        kinds = [s.dtype for s in op.body]
        if self.stage.ufunc in (np.add, np.multiply):
            kinds = [ACCUMULATORS.get(k, k) for k in kinds]
        shape = (count, *(stop - start for start, stop in columns))
        return [np.broadcast_to(v, shape).astype(k) for v, k in zip(values, kinds)]

    def placed(self, points: Values, axes: Sequence[Axis], box: Box) -> dict[Any, Any]:
        """Return the values of all leaves, whose dimensions are ``points``, then ``axes``."""
        values: dict[Any, Any] = dict(self.stage.sizes)
        more = (1,) * len(axes)
        values |= {a: np.reshape(v, (-1, *more)) for a, v in points.items()}
        for k, (axis, (start, stop)) in enumerate(zip(axes, box)):
            shape = [1] * (1 + len(axes))
            shape[k + 1] = stop - start
            values[axis] = np.arange(start, stop).reshape(shape)
        return values

    def range_of(self, axis: Axis, points: Values, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the first value and the number of values of ``axis`` at each point."""
        low, high = self.spans[axis]
        if axis not in self.ends:
            return np.full(count, low), np.full(count, max(0, high - low))
        ends = self.run(self.ends[axis], {**self.stage.sizes, **points})
        first, stop = (np.broadcast_to(e, (count,)).astype(np.int64) for e in ends)
        length = np.maximum(stop - first, 0)
        wrong = (length > 0) & ((first < low) | (stop > high))
        if wrong.any():
            at = int(np.flatnonzero(wrong)[0])
            where = ", ".join(f"{a.name} = {v[at]}" for a, v in points.items())
            assert axis.bounds is not None
            raise BoundsError(
                explain(
                    f"{self.stage.op.name} reduces over {axis.name} in "
                    f"({axis.bounds[0]}, {axis.bounds[1]})",
                    f"the range is {first[at]}..{stop[at]}{where and f' where {where}'}, but what "
                    f"it indexes has the extent {low}..{high}",
                    "Correct the array that holds the range; sl.assume declares what it may hold, "
                    "and checks it at each call.",
                )
            )
        return first, length

    def add(
        self, totals: list[np.ndarray], points: Values, row: np.ndarray, box: Box, columns: Box
    ) -> None:
        """Combine the values at ``points`` and ``box`` into ``totals``; ``row`` ascends."""
        stage, layout = self.stage, self.layout
        count = len(layout.summed)
        values = self.run(self.program, self.placed(points, (*layout.summed, *layout.columns), box))
        widths = [stop - start for start, stop in box]
        parts = [np.broadcast_to(v, (len(row), *widths)) for v in values]
        segment = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
        within = (slice(a - s, b - s) for (a, b), (s, _) in zip(box[count:], columns))
        place: Any = (row[segment], *within)
        if stage.ufunc is None:
            mask = parts.pop() if self.tested else None
            flat = [np.reshape(p, (-1, *p.shape[count + 1 :])) for p in parts]
            masked = None if mask is None else np.reshape(mask, (-1, *mask.shape[count + 1 :]))
            every = np.repeat(row, prod(widths[:count]))
            folded = _fold_segments(stage.op.combiner, Masked(tuple(flat), masked), every)
            before = Masked(tuple(t[place] for t in totals))
            for total, value in zip(totals, combine_kept(stage.op.combiner, before, folded).parts):
                total[place] = value
            return
        value = parts[0]
        if self.tested:
            (unit,) = stage.op.combiner.identity
            value = np.where(parts[1], value, np.array(unit.value, unit.dtype))
        if count:
            value = stage.ufunc.reduce(value, axis=tuple(range(1, count + 1)), dtype=self.kind)
        part = stage.ufunc.reduceat(value, segment, axis=0, dtype=self.kind)
        (total,) = totals
        total[place] = stage.ufunc(total[place], part)

    @property
    def kind(self) -> str | None:
        """The dtype in which a ufunc reduces the elements."""
        own = self.stage.op.body[0].dtype
        return None if self.stage.ufunc in (np.minimum, np.maximum) else ACCUMULATORS.get(own, own)


def _expanded(length: np.ndarray, start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for points ``start..stop`` of all ranges in a row, the range and the place in it."""
    ends = np.cumsum(length)
    flat = np.arange(start, stop)
    at = np.searchsorted(ends, flat, side="right")
    return at, flat - (ends - length)[at]


def _fold_segments(reducer: Any, rows: Masked, segment: np.ndarray) -> Masked:
    """Return each segment of ``rows`` reduced to one row, by combining neighbours in a tree."""
    while True:
        starts = np.r_[True, segment[1:] != segment[:-1]]
        first = np.maximum.accumulate(np.where(starts, np.arange(len(segment)), 0))
        place = np.arange(len(segment)) - first
        if not (place > 0).any():
            return rows
        even = np.flatnonzero(place % 2 == 0)
        after = np.minimum(even + 1, len(segment) - 1)
        paired = (even + 1 < len(segment)) & (segment[after] == segment[even])
        joined = combine_kept(reducer, rows[even[paired]], rows[after[paired]])
        mask = None if rows.kept is None else rows.kept[even].copy()
        parts = [p[even].copy() for p in rows.parts]
        for part, value in zip(parts, joined.parts):
            part[paired] = value
        if mask is not None:
            mask[paired] = joined.kept
        rows, segment = Masked(tuple(parts), mask), segment[even]
