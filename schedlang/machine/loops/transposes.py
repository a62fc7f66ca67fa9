"""Transposed loads: the lanes are far apart, and the copies of a loop read adjacent elements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from schedlang.expr.lazy import eager
from schedlang.expr.nodes import Axis, Var
from schedlang.index.linear import Lin
from schedlang.ir.nodes import (
    Block,
    Columns,
    Copies,
    Copy,
    If,
    Lanes,
    Load,
    Masked,
    Stmt,
    Store,
    block_of,
    held_statements,
    with_fields,
    with_held,
)
from schedlang.ir.offsets import CLOSE, lane_step, offset_of, sum_of_axes
from schedlang.ir.rewrite import distinct
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.strips import buffers_of

FEWEST, MOST = 4, 16
Values = Mapping[Axis | Var, Lin]


def transpose_loads(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with the blocks listed that copies read whole, where copies share loads.

    Such a block of up to ``MOST`` columns is loaded once by rows, and transposed in registers.
    """
    if not job.may_have("unroll"):
        return body
    return block_of(_transposed(body, job.values))


def _transposed(stmt: Stmt, values: Values) -> Stmt:
    if isinstance(stmt, Copy):
        values = {**values, stmt.axis: Lin.of(stmt.at)}
    if not isinstance(stmt, Copies) or not stmt.share:
        return with_held(stmt, lambda inner: _transposed(inner, values))
    if not any(_may_be_column(load, place) for load, place in _loads(stmt, _Place(values), set())):
        return stmt
    stored = {b for s in distinct(stmt) for b in buffers_of(s)}
    read: dict[Columns, set[int]] = defaultdict(set)
    for load, place in _loads(stmt, _Place(values)):
        if load.buffer not in stored:
            for block, column in columns_of(load, place.values, place.extents, place.lanes):
                read[block].add(column)
    whole = frozenset(block for block, columns in read.items() if len(columns) == block.count)
    return with_fields(stmt, blocks=whole)


@dataclass(frozen=True)
class _Place:
    """The values of axes in a copy, the number of copies of each axis, and the lanes around."""

    values: Values
    extents: Mapping[Axis, int] = field(default_factory=dict)
    lanes: Lanes | None = None


def _loads(
    stmt: Stmt, place: _Place, seen: set[int] | None = None
) -> Iterator[tuple[Load, _Place]]:
    """Yield each load that copies make in every lane, under no lazy choice, with its place.

    With ``seen``, the first copy counts for all that hold the same body; their ids are added.
    """
    if isinstance(stmt, Store):
        yield from ((node, place) for node in eager(stmt.values) if isinstance(node, Load))
        return
    if isinstance(stmt, (If, Masked)):
        return
    if isinstance(stmt, Copies) and stmt.share:
        axis = stmt.copies[0].axis
        place = replace(place, extents={**place.extents, axis: len(stmt.copies)})
    elif isinstance(stmt, Copy):
        if seen is not None and id(stmt.body) in seen:
            return
        if seen is not None:
            seen.add(id(stmt.body))
        place = replace(place, values={**place.values, stmt.axis: Lin.of(stmt.at)})
    elif isinstance(stmt, Lanes):
        place = replace(place, lanes=stmt)
    for inner in held_statements(stmt):
        yield from _loads(inner, place, seen)


def _may_be_column(load: Load, place: _Place) -> bool:
    """Return whether a copy may read a column of a block, as far as one copy tells."""
    plain, lanes = sum_of_axes(load.buffer, load.indices), place.lanes
    if lanes is None or plain is None:
        return lanes is not None
    return any(_strides_fit(plain, axis, lanes) for axis in place.extents)


def columns_of(
    load: Load, values: Values, extents: Mapping[Axis, int], lanes: Lanes | None
) -> Iterator[tuple[Columns, int]]:
    """Yield each block that ``load`` reads a column of in a copy, with the number of the column.

    ``values`` are the values of the copy, and ``extents`` the numbers of copies of its axes.
    """
    if lanes is None or lanes.start.const is None:
        # each copy has a loop over vectors of its own, so the copies cannot share a block
        return
    plain = sum_of_axes(load.buffer, load.indices)
    for axis, extent in extents.items():
        if plain is not None and not _strides_fit(plain, axis, lanes):
            continue
        others = {a: v for a, v in values.items() if a is not axis}
        offset = offset_of(load.buffer, load.indices, others)
        step, at = lane_step(offset, lanes.axis), values[axis].const
        if step is None or abs(step) <= CLOSE or lane_step(offset, axis) != 1 or at is None:
            continue
        start = at // MOST * MOST
        count = min(MOST, extent - start)
        if count >= FEWEST:
            first = offset.substitute({axis: Lin.of(start), lanes.axis: lanes.start})
            yield Columns(load.buffer, first, step, count, lanes.count, axis), at - start


def _strides_fit(offset: Lin, axis: Axis, lanes: Lanes) -> bool:
    """Return whether the lanes of a sum of axes are far apart, and its copies adjacent.

    The values of other axes are constant, and change neither.
    """
    terms = offset.terms
    return terms.get((axis,)) == 1 and abs(terms.get((lanes.axis,), 0)) > CLOSE
