"""Register staging: the next tile waits in registers while the current tile is used.

A thread that loads the next tile and stores it at once stalls on global memory. So it loads into
registers, uses the current tile, and then stores. Source: CUTLASS, "Efficient GEMM in CUDA",
section "Pipelining".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlang.expr.visit import postorder
from schedlang.ir.accesses import read_buffers, sites, written_buffers
from schedlang.ir.nodes import Block, Buffer, Fetch, For, Load, Stmt, Store, expressions
from schedlang.ir.rewrite import deep

# the loads of what each store stores
Kept = dict[Stmt, tuple[Load, ...]]

# the most bytes and elements of the next tiles that a thread keeps in registers
MOST_WAITING = 256
MOST_ELEMENTS = 64


@dataclass(frozen=True)
class StagedFills:
    """Fills in two parts: reads of global memory into ``waiting``, and stores from there.

    Fills that are not divided are among the reads.
    """

    waiting: tuple[Buffer, ...]
    reads: Block
    stores: Block


def stage_fills(fills: Sequence[Stmt]) -> StagedFills:
    """Divide the fills of the next tiles into reads and stores where possible.

    A fill is not divided in these cases: it shares a tile with another fill, it does not read
    global memory, its indices or conditions depend on data, it has a loop of symbolic extent, or
    it would take too many registers.
    """
    waiting: list[Buffer] = []
    reads: list[Stmt] = []
    stores: list[Stmt] = []
    for fill in fills:
        others = [f for f in fills if f is not fill]
        registers = _kept(fill, waiting) if _is_alone(fill, others) else None
        more = [*waiting, *_buffers(registers or {})]
        if registers is None or not _fits(more):
            reads.append(fill)
            continue
        waiting = more
        reads.append(_reads(fill, registers))
        stores.append(_stores(fill, registers))
    return StagedFills(tuple(waiting), Block(tuple(reads)), Block(tuple(stores)))


def _is_alone(fill: Stmt, others: Sequence[Stmt]) -> bool:
    """Return whether ``fill`` reads global memory and shares no tile with ``others``."""
    read = read_buffers(fill)
    shared = any(
        written_buffers(fill) & read_buffers(f) or written_buffers(f) & read
        for f in (fill, *others)
    )
    return not shared and any(b.scope == "global" for b in read)


def _fits(waiting: Sequence[Buffer]) -> bool:
    size = sum(b.bytes or 0 for b in waiting)
    elements = sum(b.size or 0 for b in waiting)
    return size <= MOST_WAITING and elements <= MOST_ELEMENTS


def _kept(fill: Stmt, waiting: Sequence[Buffer]) -> Kept | None:
    """Return what each store of ``fill`` stores, from registers besides ``waiting``.

    Return ``None`` if ``fill`` cannot be divided.
    """
    values_stored: Kept = {}
    for site in sites(fill):
        stmt = site.stmt
        if isinstance(stmt, For) and not isinstance(stmt.extent, int):
            return None
        places = stmt.indices if isinstance(stmt, Store) else expressions(stmt)
        if any(isinstance(n, Load) for n in postorder(places)):
            # the store evaluates these again after the current tile was used, when data may differ
            return None
        if isinstance(stmt, Store) and stmt.reducer is None:
            registers_taken = [*waiting, *_buffers(values_stored)]
            registers = [_storage(b, site.loops, registers_taken) for b in stmt.buffers]
            at = tuple(loop.axis for loop in site.loops)
            values_stored[stmt] = tuple(Load(b, at, b.dtype) for b in registers)
        elif not (stmt.HELD or isinstance(stmt, Fetch)):
            return None
    return values_stored


def _buffers(kept: Kept) -> list[Buffer]:
    return [load.buffer for loads in kept.values() for load in loads]


def _reads(fill: Stmt, kept: Kept) -> Stmt:
    """Return ``fill`` with its elements in registers."""

    def read(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store):
            return _unrolled(stmt)
        loads = kept[stmt]
        return replace(stmt, buffers=tuple(x.buffer for x in loads), indices=loads[0].indices)

    return deep(fill, read)


def _stores(fill: Stmt, kept: Kept) -> Stmt:
    """Return ``fill`` with the values that wait in registers."""

    def store(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store):
            return replace(stmt, values=kept[stmt])
        return Block() if isinstance(stmt, Fetch) else _unrolled(stmt)

    return deep(fill, store)


def _unrolled(stmt: Stmt) -> Stmt:
    """Return a serial loop as an unrolled one, since registers cannot be indexed."""
    if isinstance(stmt, For) and stmt.kind == "serial":
        return replace(stmt, kind="unroll")
    return stmt


def _storage(buffer: Buffer, loops: tuple[For, ...], waiting: Sequence[Buffer]) -> Buffer:
    """Return local storage for a staged tile, under a name that none of ``waiting`` has."""
    name, number = f"{buffer.name}.next", 1
    while any(b.name == name for b in waiting):
        number += 1
        name = f"{buffer.name}.next{number}"
    return Buffer(name, buffer.dtype, tuple(loop.extent for loop in loops), "local")
