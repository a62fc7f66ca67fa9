"""Keep tiles that are fetched ahead in registers while the current tile is used.

A thread that reads the next tile and stores it at once waits for global memory. So it reads into
registers, uses the current tile, and then stores. Source: CUTLASS,
"Efficient GEMM in CUDA", section "Pipelining".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Block, Buffer, Fetch, For, If, Load, Stmt, Store, expressions
from schedlang.ir.touched import loaded, stored

# bytes of a thread's registers, and elements, that wait for the next tiles of a loop
MOST_WAITING = 256
MOST_ELEMENTS = 64


@dataclass(frozen=True)
class Parted:
    """Fills in two parts: reads of global memory into ``waiting``, and stores from there.

    Fills that are left whole stand among the reads.
    """

    waiting: tuple[Buffer, ...]
    reads: Block
    stores: Block


def parted(fills: Sequence[Stmt]) -> Parted:
    """Split the fills of the next tiles into two parts where possible.

    Left whole are tiles that other fills read or that read theirs, that are not read from global
    memory, whose place or condition is data, with loops of unknown length, and what would take more
    than so many registers.
    """
    waiting: list[Buffer] = []
    reads: list[Stmt] = []
    stores: list[Stmt] = []
    for fill in fills:
        others = [f for f in fills if f is not fill]
        more = list(waiting)
        parts = _parts(fill, (), more) if _is_alone(fill, others) else None
        if parts is None or not _fits(more):
            reads.append(fill)
            continue
        waiting = more
        reads.append(parts[0])
        stores.append(parts[1])
    return Parted(tuple(waiting), Block(tuple(reads)), Block(tuple(stores)))


def _is_alone(fill: Stmt, others: Sequence[Stmt]) -> bool:
    """Return whether ``fill`` reads global memory and shares no tile with the others."""
    read = loaded(fill)
    shared = any(stored(fill) & loaded(f) or stored(f) & read for f in (fill, *others))
    return not shared and any(b.scope == "global" for b in read)


def _fits(waiting: Sequence[Buffer]) -> bool:
    size = sum(b.bytes or 0 for b in waiting)
    elements = sum(b.size or 0 for b in waiting)
    return size <= MOST_WAITING and elements <= MOST_ELEMENTS


def _parts(stmt: Stmt, loops: tuple[For, ...], waiting: list[Buffer]) -> tuple[Block, Block] | None:
    """Return the reading and the storing part; add the buffers between them to ``waiting``."""
    if isinstance(stmt, Block):
        parts = [_parts(s, loops, waiting) for s in stmt.stmts]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        return Block(tuple(r for r, _ in found)), Block(tuple(s for _, s in found))
    if isinstance(stmt, For) and not isinstance(stmt.extent, int):
        return None
    places = stmt.indices if isinstance(stmt, Store) else expressions(stmt)
    if any(isinstance(n, Load) for n in postorder(places)):
        # it is tested again behind the use of the current tile
        return None
    if isinstance(stmt, (For, If)):
        inner = (*loops, stmt) if isinstance(stmt, For) else loops
        inside = _parts(stmt.body, inner, waiting)
        if inside is None:
            return None
        made = _written_out(stmt)
        reads, stores = (replace(made, body=part) for part in inside)
        return Block((reads,)), Block((stores,))
    if isinstance(stmt, Store) and stmt.reducer is None:
        kept = tuple(_storage(b, loops, waiting) for b in stmt.buffers)
        waiting += kept
        at = tuple(loop.axis for loop in loops)
        values = tuple(Load(b, at, b.dtype) for b in kept)
        read = replace(stmt, buffers=kept, indices=at)
        return Block((read,)), Block((replace(stmt, values=values),))
    return (Block((stmt,)), Block()) if isinstance(stmt, Fetch) else None


def _written_out(stmt: For | If) -> For | If:
    """Return a serial loop as copies, since registers have no index."""
    if isinstance(stmt, For) and stmt.kind == "serial":
        return replace(stmt, kind="unroll")
    return stmt


def _storage(buffer: Buffer, loops: tuple[For, ...], waiting: Sequence[Buffer]) -> Buffer:
    """Return storage under a name of its own: all buffers that wait in a loop live together."""
    name, number = f"{buffer.name}.next", 1
    while any(b.name == name for b in waiting):
        number += 1
        name = f"{buffer.name}.next{number}"
    return Buffer(name, buffer.dtype, tuple(loop.extent for loop in loops), "local")


__all__ = ["parted"]
