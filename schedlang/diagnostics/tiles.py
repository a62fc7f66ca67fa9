"""Tiles of sums in a nest, and the vector registers that they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin
from schedlang.ir.accesses import loads, stores
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Block,
    Buffer,
    Copies,
    Copy,
    For,
    If,
    Kept,
    Lanes,
    Stmt,
    Store,
    held_statements,
    walk,
)
from schedlang.ir.offsets import flat, lane_step
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.strips import strip_mine
from schedlang.machine.loops.sums import skips_iterations, steps_of, vectors_of
from schedlang.machine.loops.unroll import unroll
from schedlang.target import Target

# a tile of more copies does not fit any register file, so its reads are not examined
MOST_COPIES = 512


@dataclass(frozen=True)
class Update:
    """The update of a sum, a reduction loop ``step`` around it, and the loops between.

    None of the loops between is a serial reduction loop. ``tail`` is the tail test of a split
    inside ``step`` that keeps the sum in memory, if there is one.
    """

    store: Store
    step: For
    inside: tuple[For, ...]
    tail: If | None


def updates(nest: Nest) -> Iterator[Update]:
    """Yield each update of sums in a nest, once for each reduction loop that may keep them."""
    for loop in nest.loops:
        if _may_keep(loop):
            yield from _updates_of(loop, steps_of(loop, nest))


def updates_in(root: Stmt, steps: Mapping[str, Set[Axis]]) -> Iterator[Update]:
    """Yield the updates of :func:`updates` in a statement; ``steps`` are the nest's, by stage."""
    for loop, _ in walk(root):
        if isinstance(loop, For) and _may_keep(loop):
            yield from _updates_of(loop, steps[loop.stage])


def _may_keep(loop: For) -> bool:
    return loop.kind in ("serial", "unroll") and loop.axis.is_reduce


def _updates_of(loop: For, steps: Set[Axis]) -> Iterator[Update]:
    for site in reversed(stores(loop.body)):
        steps_inside = any(f.kind == "serial" and f.axis.is_reduce for f in site.loops)
        if site.stmt.reducer is None or steps_inside:
            continue
        around = (loop, *site.loops)
        tails = [g for g in site.guards if g.tail and not skips_iterations(g, steps, around)]
        yield Update(site.stmt, loop, site.loops, tails[-1] if tails else None)


@dataclass(frozen=True)
class Tile:
    """The sums of an update: unrolled loops around a vectorized one."""

    store: Store
    unrolled: tuple[For, ...]
    lanes: For

    def __str__(self) -> str:
        loops = (*self.unrolled, self.lanes)
        shape = " x ".join(str(f.extent) for f in loops)
        names = " and ".join(f.axis.name for f in loops)
        return f"{shape} {self.store.buffers[0].dtype} ({names})"


class Need(NamedTuple):
    """Vector registers for sums, for operands that several of them read, and for the rest."""

    sums: int
    operands: int
    more: int


def tile_of(update: Update, target: Target) -> Tile | None:
    """Return the tile of an update whose loop is vectorized and whose sums can be kept."""
    loops = (update.step, *update.inside)
    lanes = next((f for f in loops if f.kind == "vectorize"), None)
    if lanes is None or vectors_of(update.store, loops, target.vector_width) is None:
        return None
    # an unrolled reduction axis adds to the same sums, so it makes the tile no larger
    unrolled = [f for f in loops if f.kind == "unroll" and not f.axis.is_reduce]
    return Tile(update.store, tuple(unrolled), lanes)


def need(update: Update, job: LoopJob) -> Need:
    """Return the vector registers that the tile of ``update`` needs if its sums are kept in them.

    They are counted in the vectors that the passes over loops make of the tile.
    """
    store, target = update.store, job.target
    loops = (update.step, *update.inside)
    if prod(size(f) for f in loops if f.kind == "unroll") > MOST_COPIES:
        return Need(vectors_of(store, loops, target.vector_width, registers) or 0, 0, 1)
    read = [(load.buffer, flat(load.buffer, load.indices)) for load in loads(store.values)]
    stored = [(buffer, flat(buffer, store.indices)) for buffer in store.buffers]
    width = min(target.vector_width(buffer.dtype) for buffer in store.buffers)
    sums: dict[Any, int] = {}
    reads: list[_Read] = []
    for lanes, values in _vectors(update, job):
        at = {**values, lanes.axis: lanes.start}
        for buffer, offset in stored:
            place = (buffer, offset.substitute(at))
            sums[place] = registers(lanes.count, target.vector_width(buffer.dtype))
        operands = ((b, o.substitute(at), lane_step(o, lanes.axis) == 0) for b, o in read)
        reads.append(_Read(frozenset(operands), registers(lanes.count, width)))
    return Need(sum(sums.values()), _live_operands(reads), _temporaries(reads, target))


def size(loop: For) -> int:
    """Return the extent of an unrolled or vectorized loop."""
    assert isinstance(loop.extent, int)
    return loop.extent


def registers(lanes: int, width: int) -> int:
    """Return the number of vector registers for ``lanes``, if one register holds ``width`` lanes.

    A remainder is split into powers of two, and each of these takes a register.

    >>> registers(16, 8), registers(7, 8)
    (2, 3)
    """
    return lanes // width + bin(lanes % width).count("1")


def _vectors(update: Update, job: LoopJob) -> Iterator[tuple[Lanes, Mapping[Any, Lin]]]:
    """Yield the lanes of each vector of an update, and the values of axes in its copy, in order.

    The copies of an unrolled reduction add to the same sums, so one stands for them all.
    """
    body = Block((Kept(frozenset(update.store.buffers), Block((update.step,))),))
    for run in (strip_mine, unroll):
        body = run(body, job)
    stack: list[tuple[Stmt, Mapping[Any, Lin], Lanes | None]] = [(body, {}, None)]
    while stack:
        stmt, values, lanes = stack.pop()
        if stmt is update.store and lanes is not None:
            yield lanes, values
        elif isinstance(stmt, Copies):
            copies = stmt.copies[:1] if stmt.copies[0].axis.is_reduce else stmt.copies
            for copy in reversed(copies):
                stack.append((copy.body, {**values, copy.axis: Lin.of(copy.at)}, lanes))
        else:
            if isinstance(stmt, Lanes):
                lanes = stmt
            elif isinstance(stmt, Copy):
                # the last lane of a vectorized loop is a scalar, which takes a register, too
                lanes = Lanes(stmt.axis, Lin.of(stmt.at), 1, stmt.body)
            stack.extend((inner, values, lanes) for inner in reversed(held_statements(stmt)))


@dataclass(frozen=True)
class _Read:
    """The elements that a vector of an update reads, and the registers of a vector.

    Each is a buffer, an offset, and whether all lanes read that element.
    """

    operands: frozenset[tuple[Buffer, Lin, bool]]
    taken: int


def _live_operands(reads: list[_Read]) -> int:
    """Return the most registers that are held at once because a later vector needs them again.

    A vector that is read once needs no register: it is a memory operand of the addition.
    """
    first: dict[Any, int] = {}
    last: dict[Any, int] = {}
    for n, read in enumerate(reads):
        for operand in read.operands:
            first.setdefault(operand, n)
            last[operand] = n
    repeated = [k for k in first if not k[2] and first[k] < last[k]]
    return max(
        (
            sum(reads[first[k]].taken for k in repeated if first[k] <= n <= last[k])
            for n in range(len(reads))
        ),
        default=0,
    )


def _temporaries(reads: list[_Read], target: Target) -> int:
    """Return 1 if a register is needed for passing values, such as a broadcast element, else 0.

    Instructions on 64-byte vectors broadcast a memory operand, so one read needs no register.
    """
    times: Counter[Any] = Counter()
    for read in reads:
        times.update({o: read.taken if o[2] else 1 for o in read.operands})
    once = [sum(times[o] == 1 for o in read.operands) for read in reads]
    broadcast = any(o[2] and (times[o] > 1 or target.vector_bytes < 64) for o in times)
    return int(broadcast or not reads or any(n != 1 for n in once))
