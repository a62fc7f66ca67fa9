"""Tiles of sums in a nest, and the vector registers that they need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from schedlang.expr.nodes import Axis, Var
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, If, Load, Stmt, Store
from schedlang.ir.offsets import flat, lane_step
from schedlang.machine.loops.sums import skips_iterations, steps_of, vectors_of
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
        if loop.kind in ("serial", "unroll") and loop.axis.is_reduce:
            yield from _updates_in(loop, steps_of(loop, nest))


def _updates_in(loop: For, steps: set[Axis]) -> Iterator[Update]:
    stack: list[tuple[Stmt, tuple[For, ...], If | None]] = [(loop.body, (), None)]
    while stack:
        stmt, inside, tail = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, inside, tail) for s in stmt.stmts)
        elif isinstance(stmt, If):
            kept = not stmt.tail or skips_iterations(stmt, steps, (loop, *inside))
            stack.append((stmt.body, inside, tail if kept else stmt))
        elif isinstance(stmt, For) and not (stmt.kind == "serial" and stmt.axis.is_reduce):
            stack.append((stmt.body, (*inside, stmt), tail))
        elif isinstance(stmt, Store) and stmt.reducer is not None:
            yield Update(stmt, loop, inside, tail)


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


def need(tile: Tile, target: Target) -> Need:
    """Return the vector registers that a tile needs."""
    width = min(target.vector_width(b.dtype) for b in tile.store.buffers)
    pieces = registers(size(tile.lanes), width)
    reads = _reads(tile.store, tile.unrolled, tile.lanes.axis)
    loops = (*tile.unrolled, tile.lanes)
    sums = vectors_of(tile.store, loops, target.vector_width, registers)
    assert sums is not None
    return Need(sums, _live_operands(reads) * pieces, _temporaries(reads, pieces, target))


def size(loop: For) -> int:
    """Return the extent of an unrolled or vectorized loop."""
    assert isinstance(loop.extent, int)
    return loop.extent


def registers(lanes: int, width: int) -> int:
    """Return the vector registers of ``lanes``, of which one holds ``width``.

    A remainder is split into powers of two, each of which takes a register.

    >>> registers(16, 8), registers(7, 8)
    (2, 3)
    """
    return lanes // width + bin(lanes % width).count("1")


# an element that an update reads: its buffer, its offset, and whether all lanes read that element
Operand = tuple[Buffer, Lin, bool]


def _reads(store: Store, unrolled: tuple[For, ...], lanes: Axis) -> list[set[Operand]]:
    """Return the operands of each unrolled copy of an update, in the order of the copies."""
    counts = [f.extent for f in unrolled if isinstance(f.extent, int)]
    if len(counts) < len(unrolled) or prod(counts) > MOST_COPIES:
        return []
    loads = [n for n in postorder(store.values) if isinstance(n, Load)]
    offsets = [(n.buffer, flat(n.buffer, n.indices)) for n in loads]
    found = []
    for place in product(*(range(c) for c in counts)):
        at: dict[Axis | Var, Lin] = {f.axis: Lin.of(k) for f, k in zip(unrolled, place)}
        found.append({(b, o.substitute(at), lane_step(o, lanes) == 0) for b, o in offsets})
    return found


def _live_operands(reads: list[set[Operand]]) -> int:
    """Return the most vectors that must be held at once because a later copy reads them again.

    A vector that is read once needs no register: it is a memory operand of the addition.
    """
    first: dict[Operand, int] = {}
    last: dict[Operand, int] = {}
    for n, operands in enumerate(reads):
        for operand in operands:
            first.setdefault(operand, n)
            last[operand] = n
    kept = [k for k in first if not k[2] and first[k] < last[k]]
    return max((sum(first[k] <= n <= last[k] for k in kept) for n in range(len(reads))), default=0)


def _temporaries(reads: list[set[Operand]], pieces: int, target: Target) -> int:
    """Return 1 if a register is needed for passing values, such as a broadcast element, else 0.

    Instructions on 64-byte vectors broadcast a memory operand, so one read needs no register.
    """
    times = Counter(operand for operands in reads for operand in operands)
    once = [
        sum(times[o] == 1 and (pieces == 1 or not o[2]) for o in operands) for operands in reads
    ]
    broadcast = any(o[2] and (times[o] * pieces > 1 or target.vector_bytes < 64) for o in times)
    return int(broadcast or not reads or any(n != 1 for n in once))


__all__ = ["Need", "Tile", "Update", "need", "size", "tile_of", "updates"]
