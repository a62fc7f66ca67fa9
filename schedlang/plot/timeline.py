"""The order of a loop nest: a time for each run of each of its statements.

A step is one run of one store. The lanes of a vectorized loop, and threads, take a step together.
Parallel loops run on one thread. The times belong to the loop nest that is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from schedlang.errors import PlotError, explain
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin, to_expr
from schedlang.ir.accesses import Access, accesses, stores
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Alloc, Buffer, For, If, Load, Stmt, Store, held_statements, walk
from schedlang.plot.subject import shape_of

# loops whose iterations run at the same time
TOGETHER = ("vectorize", "vthread", "thread")


@dataclass(frozen=True, eq=False)
class Timed:
    """A store with its loops: iteration ``v`` of loop ``k`` is ``v * units[k]`` after ``base``.

    ``counts`` are the iterations of the loops that are drawn. ``guards`` are conditions, and
    ``known`` are the values of sizes.
    """

    store: Store
    loops: tuple[For, ...]
    counts: tuple[int, ...]
    units: tuple[int, ...]
    guards: tuple[Expr, ...]
    base: int
    known: Mapping[Any, int]

    @property
    def values(self) -> dict[Any, Any]:
        """The value of each loop at each point, as arrays that broadcast to ``counts``."""
        indices: dict[Any, Any] = dict(self.known)
        for k, (loop, count) in enumerate(zip(self.loops, self.counts)):
            place = [1] * len(self.counts)
            place[k] = count
            indices[loop.axis] = np.arange(count).reshape(place)
        return indices

    @property
    def times(self) -> np.ndarray:
        """The time of each point, before the steps that guards skip are left out."""
        total = np.full((1,) * len(self.counts), self.base, np.int64)
        values = self.values
        for loop, unit in zip(self.loops, self.units):
            total = total + values[loop.axis] * unit
        return np.broadcast_to(total, self.counts)

    def active(self, tests: tuple[Expr, ...] = ()) -> np.ndarray:
        """Return at which points the statement runs, and ``tests`` hold."""
        values, shape = self.values, self.counts
        mask = np.ones(shape, bool)
        for cond in (*self.guards, *tests):
            mask = mask & np.asarray(evaluate(cond, values))
        for loop in self.loops:
            if isinstance(loop.extent, Expr):
                mask = mask & (values[loop.axis] < np.asarray(evaluate(loop.extent, values)))
        return mask

    @property
    def accesses(self) -> list[Access]:
        """Return the accesses of a step, loads first."""
        return accesses(self.store, tested=True)


@dataclass(frozen=True, eq=False)
class Timeline:
    """The timed statements of a nest, in program order.

    ``starts`` has the base and the units of each loop, by its id, for the time at which one of its
    iterations begins. ``places`` maps each allocated buffer to its allocation.
    """

    nest: Nest
    sites: tuple[Timed, ...]
    starts: Mapping[int, tuple[int, tuple[int, ...]]]
    places: Mapping[Buffer, Alloc]
    length: int
    known: Mapping[Any, int] = field(default_factory=dict)

    def ranks(self) -> np.ndarray:
        """Return the number of steps before each time, without those that guards skip.

        The last element is the number of all steps.
        """
        run = np.zeros(self.length, bool)
        for site in self.sites:
            run[site.times[site.active()]] = True
        return np.concatenate([[0], np.cumsum(run)])

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        """Return the shape to draw ``buffer`` in: its tensor's, if the buffer holds a part."""
        alloc = self.places.get(buffer)
        if alloc is None or alloc.layout or buffer.tensor is None:
            return shape_of(buffer.shape)
        extents = buffer.tensor.shape
        return tuple(e if isinstance(e, int) else int(evaluate(e, self.known)) for e in extents)

    def positions(self, site: Timed, access: Access) -> tuple[np.ndarray, np.ndarray]:
        """Return the flat position of the accessed element at each point, and where there is one.

        The element is one of the tensor, also if the buffer holds a part of it.
        """
        buffer, values = access.buffer, site.values
        alloc = self.places.get(buffer)
        origin: tuple[Lin, ...] = ()
        if alloc is not None and not alloc.layout and buffer.tensor is not None:
            origin = alloc.origin
        shape = self.shape(buffer)
        flat = np.zeros((1,) * len(site.counts), np.int64)
        inside = site.active(access.tests)
        for k, (index, extent) in enumerate(zip(access.indices, shape)):
            at = np.asarray(evaluate(index, values))
            if origin:
                at = at + np.asarray(evaluate(to_expr(origin[k]), values))
            # a tile that is rounded up reaches past its tensor
            inside = inside & (at >= 0) & (at < extent)
            flat = flat * extent + at
        return np.broadcast_to(flat, site.counts), np.broadcast_to(inside, site.counts)


def timeline(
    nest: Nest, sizes: Mapping[Any, int], most: Mapping[Axis, int] | None = None
) -> Timeline:
    """Return the timeline of ``nest``, whose sizes are numbers.

    ``most`` limits the iterations of some loops. Raise :class:`~schedlang.errors.PlotError` if data
    decide which statements run.
    """
    limits = most or {}
    spans: dict[int, int] = {}
    counts: dict[int, int] = {}
    _measure(nest.body, (), dict(sizes), limits, spans, counts)
    sites: list[Timed] = []
    starts: dict[int, tuple[int, tuple[int, ...]]] = {}
    places = {s.buffer: s for s, _ in walk(nest.body) if isinstance(s, Alloc)}

    def visit(
        stmt: Stmt,
        loops: tuple[For, ...],
        units: tuple[int, ...],
        guards: tuple[Expr, ...],
        base: int,
    ) -> None:
        if isinstance(stmt, For):
            unit = 0 if stmt.kind in TOGETHER else spans[id(stmt.body)]
            loops, units = (*loops, stmt), (*units, unit)
            starts[id(stmt)] = base, units
        elif isinstance(stmt, If):
            guards = (*guards, stmt.cond)
        elif isinstance(stmt, Store):
            loop_counts = tuple(counts[id(loop)] for loop in loops)
            sites.append(Timed(stmt, loops, loop_counts, units, guards, base, sizes))
        for inner in held_statements(stmt):
            visit(inner, loops, units, guards, base)
            base += spans[id(inner)]

    visit(nest.body, (), (), (), 0)
    return Timeline(nest, tuple(sites), starts, places, spans[id(nest.body)], sizes)


def points(nest: Nest, known: Mapping[Any, int], most: Mapping[Axis, int]) -> int:
    """Return how many points the statements of :func:`timeline` have."""
    counts: dict[int, int] = {}
    _measure(nest.body, (), dict(known), most, {}, counts)
    return sum(prod(counts[id(loop)] for loop in site.loops) for site in stores(nest.body))


def _measure(
    stmt: Stmt,
    loops: tuple[For, ...],
    values: dict[Any, Any],
    limits: Mapping[Axis, int],
    spans: dict[int, int],
    counts: dict[int, int],
) -> int:
    """Record how long each statement takes at most, and how often each loop runs at most."""
    if isinstance(stmt, For):
        extent = stmt.extent
        if isinstance(extent, Expr):
            _refuse_data((extent,), f"the loop {stmt.axis.name}")
            extent = _largest(extent, loops, counts, values)
        counts[id(stmt)] = min(extent, limits.get(stmt.axis, extent))
        loops = (*loops, stmt)
    elif isinstance(stmt, If):
        _refuse_data((stmt.cond,), f"the guard {stmt.cond}")
    length = int(isinstance(stmt, Store))
    length += sum(_measure(s, loops, values, limits, spans, counts) for s in held_statements(stmt))
    if isinstance(stmt, For) and stmt.kind not in TOGETHER:
        length *= counts[id(stmt)]
    spans[id(stmt)] = length
    return length


def _largest(
    extent: Expr, loops: tuple[For, ...], counts: Mapping[int, int], values: Mapping[Any, Any]
) -> int:
    """Return the largest value of the extent of a loop over the iterations around it."""
    needed = set(postorder((extent,)))
    around = [loop for loop in loops if loop.axis in needed]
    inputs = dict(values)
    for k, loop in enumerate(around):
        place = [1] * len(around)
        place[k] = counts[id(loop)]
        inputs[loop.axis] = np.arange(counts[id(loop)]).reshape(place)
    return max(0, int(np.max(evaluate(extent, inputs), initial=0)))


def _refuse_data(roots: tuple[Expr, ...], what: str) -> None:
    load = next((n for n in postorder(roots) if isinstance(n, Load)), None)
    if load is not None:
        raise PlotError(
            explain(
                "a picture of the order of a nest",
                f"{what} depends on the values of {load.buffer.name}, and a picture has none",
                "Draw a computation whose loops and indices do not read tensors.",
            )
        )


def refuse_gather(access: Access) -> None:
    """Raise :class:`~schedlang.errors.PlotError` if data decide which element is accessed."""
    _refuse_data((*access.indices, *access.tests), f"an index of {access.buffer.name}")
