"""Register staging: the next tile waits in registers while the current tile is used.

A thread that loads the next tile and stores it at once stalls on global memory. So it loads into
registers, uses the current tile, and then stores. Source: CUTLASS, "Efficient GEMM in CUDA",
section "Pipelining".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlang.expr.visit import postorder
from schedlang.ir.accesses import loaded, stored
from schedlang.ir.nodes import Block, Buffer, Fetch, For, If, Load, Stmt, Store, expressions

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


def staged_fills(fills: Sequence[Stmt]) -> StagedFills:
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
        more = list(waiting)
        parts = _parts(fill, (), more) if _is_alone(fill, others) else None
        if parts is None or not _fits(more):
            reads.append(fill)
            continue
        waiting = more
        reads.append(parts[0])
        stores.append(parts[1])
    return StagedFills(tuple(waiting), Block(tuple(reads)), Block(tuple(stores)))


def _is_alone(fill: Stmt, others: Sequence[Stmt]) -> bool:
    """Return whether ``fill`` reads global memory and shares no tile with ``others``."""
    read = loaded(fill)
    shared = any(stored(fill) & loaded(f) or stored(f) & read for f in (fill, *others))
    return not shared and any(b.scope == "global" for b in read)


def _fits(waiting: Sequence[Buffer]) -> bool:
    size = sum(b.bytes or 0 for b in waiting)
    elements = sum(b.size or 0 for b in waiting)
    return size <= MOST_WAITING and elements <= MOST_ELEMENTS


def _parts(stmt: Stmt, loops: tuple[For, ...], waiting: list[Buffer]) -> tuple[Block, Block] | None:
    """Return the reads and the stores of ``stmt``; add the buffers between them to ``waiting``.

    Return ``None`` if ``stmt`` cannot be divided.
    """
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
        # the store evaluates these again after the current tile was used, when data may differ
        return None
    if isinstance(stmt, (For, If)):
        inner = (*loops, stmt) if isinstance(stmt, For) else loops
        inside = _parts(stmt.body, inner, waiting)
        if inside is None:
            return None
        made = _unrolled(stmt)
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


def _unrolled(stmt: For | If) -> For | If:
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


__all__ = ["staged_fills"]
