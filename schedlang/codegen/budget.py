"""Tiles of sums that do not stay in the vector registers of the target, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import NamedTuple

from schedlang.codegen.sums import leaves_out_steps, vectors_of
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis, Var
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, If, Load, Stmt, Store
from schedlang.ir.offsets import flat, lane_step
from schedlang.target import Target

# unrolled further than this, a tile is far beyond any budget and not looked at in detail
MOST_COPIES = 512


def spills(nest: Nest, target: Target) -> list[str]:
    """A sentence for each tile that does not fit into the vector registers of ``target``."""
    found: dict[str, None] = {}
    for update in _updates(nest):
        if (text := _too_many(update, target)) is not None:
            found[text] = None
    return list(found)


def guarded(nest: Nest, target: Target) -> list[str]:
    """A sentence for each tile that would stay in registers, were it not for a guard.

    Where only the rest of a tile is guarded, beside a main loop without a test, there is none; nor
    where all reduction loops are unrolled: LLVM then decides.
    """
    updates = [update for update in _updates(nest) if update.step.kind == "serial"]
    free = {update.store.stage for update in updates if update.guard is None}
    found: dict[str, None] = {}
    for update in updates:
        guard = update.guard
        tile = _tile(update, target) if guard and update.store.stage not in free else None
        if guard and tile is not None and tile.need(target).sums <= target.vector_registers:
            found[
                f"stage {tile.store.stage}: its tile of {tile} could stay in vector registers, but "
                f"the test {guard.cond} ({guard.note}) stands in its reduction loops, so that "
                "sums go through memory in each iteration. "
                'A split with tail="cut", or by a factor that divides the extent, needs no test.'
            ] = None
    return list(found)


@dataclass(frozen=True)
class Update:
    """A sum, ``step``, the innermost reduction loop around it, and the loops from there on.

    ``guard`` is a test in that loop that keeps the sum in memory, other than the user's own.
    """

    store: Store
    step: For
    inside: tuple[For, ...]
    guard: If | None


def _updates(nest: Nest) -> Iterator[Update]:
    for loop in nest.loops:
        if loop.kind in ("serial", "unroll") and loop.axis.is_reduce:
            yield from _updates_in(loop, nest)


def _updates_in(loop: For, nest: Nest) -> Iterator[Update]:
    steps = {f.axis for f in nest.loops if f.stage == loop.stage and f.axis.is_reduce}
    stack: list[tuple[Stmt, tuple[For, ...], If | None]] = [(loop.body, (), None)]
    while stack:
        stmt, inside, guard = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, inside, guard) for s in stmt.stmts)
        elif isinstance(stmt, If):
            kept = leaves_out_steps(stmt, steps, (loop, *inside))
            stack.append((stmt.body, inside, guard if kept or stmt.predicate else stmt))
        elif isinstance(stmt, For) and not (stmt.kind == "serial" and stmt.axis.is_reduce):
            stack.append((stmt.body, (*inside, stmt), guard))
        elif isinstance(stmt, Store) and stmt.reducer is not None:
            yield Update(stmt, loop, inside, guard)


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

    def need(self, target: Target) -> Need:
        around = (*self.unrolled, self.lanes)
        width = target.vector_width(self.store.buffers[0].dtype)
        pieces = -(-_size(self.lanes) // width)
        reads = _reads(self.store, self.unrolled, self.lanes.axis)
        sums = vectors_of(self.store, around, target.vector_width)
        return Need(sums or 0, _held(reads) * pieces, _passing(reads, pieces, target))


class Need(NamedTuple):
    """Vector registers for sums, for operands that several of them read, and for the rest."""

    sums: int
    operands: int
    more: int


def _tile(update: Update, target: Target) -> Tile | None:
    loops = (update.step, *update.inside)
    lanes = next((f for f in loops if f.kind == "vectorize"), None)
    if lanes is None or vectors_of(update.store, loops, target.vector_width) is None:
        return None
    # a reduction that is unrolled adds to the same sums
    unrolled = [f for f in loops if f.kind == "unroll" and not f.axis.is_reduce]
    return Tile(update.store, tuple(unrolled), lanes)


def _too_many(update: Update, target: Target) -> str | None:
    tile = _tile(update, target)
    if tile is None:
        return None
    need = tile.need(target)
    if sum(need) <= target.vector_registers:
        return None
    parts = [
        f"{count} {what}"
        for count, what in zip(need, ("for sums", "for operands that several sums read", "more"))
        if count
    ]
    return (
        f"stage {tile.store.stage}: its tile of {tile} needs {sum(need)} vector registers "
        f"({', '.join(parts)}); {target.vector_bytes * 8}-bit vectors have "
        f"{target.vector_registers}, so that sums go through memory in each iteration. "
        f"{_advice(tile, target)}"
    )


def _advice(tile: Tile, target: Target) -> str:
    """The most of the tile that fits, with less of its outermost loop."""
    registers = target.vector_registers
    loops = (*tile.unrolled, tile.lanes)
    step = 1 if tile.unrolled else target.vector_width(tile.store.buffers[0].dtype)
    size = _size(loops[0])
    most = min(size - 1, registers * size // tile.need(target).sums)
    for fewer in range(most // step * step, 0, -step):
        *unrolled, lanes = (replace(loops[0], extent=fewer), *loops[1:])
        if sum(Tile(tile.store, tuple(unrolled), lanes).need(target)) <= registers:
            return f"Make the tile smaller: {fewer} of {loops[0].axis.name} would fit."
    return f"Make the tile smaller, {tile.lanes.axis.name} first."


def _size(loop: For) -> int:
    assert isinstance(loop.extent, int)
    return loop.extent


# what one sum reads: the element of a buffer, and whether all lanes read that one
Operand = tuple[Buffer, Lin, bool]


def _reads(store: Store, unrolled: tuple[For, ...], lanes: Axis) -> list[set[Operand]]:
    """What each copy of an update reads besides its sum, in the order of the copies."""
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


def _held(reads: list[set[Operand]]) -> int:
    """The most vectors that are kept from one copy to a later one.

    One that is read once is an operand in memory of the instruction that adds.
    """
    first: dict[Operand, int] = {}
    last: dict[Operand, int] = {}
    for n, operands in enumerate(reads):
        for operand in operands:
            first.setdefault(operand, n)
            last[operand] = n
    kept = [k for k in first if not k[2] and first[k] < last[k]]
    return max((sum(first[k] <= n <= last[k] for k in kept) for n in range(len(reads))), default=0)


def _passing(reads: list[set[Operand]], pieces: int, target: Target) -> int:
    """Whether a register is needed for what passes by, such as an element for all lanes.

    The widest x86 vectors spread an element to all lanes as they read it, once.
    """
    times = Counter(operand for operands in reads for operand in operands)
    once = [
        sum(times[o] == 1 and (pieces == 1 or not o[2]) for o in operands) for operands in reads
    ]
    spread = any(o[2] and (times[o] * pieces > 1 or target.vector_bytes < 64) for o in times)
    return int(spread or not reads or any(n != 1 for n in once))


__all__ = ["guarded", "spills"]
