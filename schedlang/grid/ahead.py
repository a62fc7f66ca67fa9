"""Tiles that are fetched ahead wait in registers while the present one is used.

A thread that stored what it reads of the next tile at once would wait for global memory before it
goes on. So it reads into storage of its own, uses the present tile, and stores then. Source:
CUTLASS, "Efficient GEMM in CUDA", section "Pipelining".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Block, Buffer, Fetch, For, If, Load, Stmt, Store, expressions

# bytes of a thread's registers that wait for the next tile
MOST_WAITING = 256


@dataclass(frozen=True)
class Parted:
    """A fill in two: what reads global memory into ``waiting``, and what stores that."""

    waiting: tuple[Buffer, ...]
    reads: Block
    stores: Block


def parted(fills: Sequence[Stmt]) -> Parted | None:
    """The fills of the next tile in two parts.

    ``None`` where that is not worth it or not possible: for tiles that are not read from global
    memory, for loops of unknown length, for more than so many registers.
    """
    waiting: list[Buffer] = []
    parts = _parts(Block(tuple(fills)), (), waiting)
    if parts is None or not any(map(_is_far, fills)):
        return None
    if sum(b.bytes or 0 for b in waiting) > MOST_WAITING:
        return None
    return Parted(tuple(waiting), *parts)


def _parts(stmt: Stmt, loops: tuple[For, ...], waiting: list[Buffer]) -> tuple[Block, Block] | None:
    if isinstance(stmt, Block):
        parts = [_parts(s, loops, waiting) for s in stmt.stmts]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        return Block(tuple(r for r, _ in found)), Block(tuple(s for _, s in found))
    if isinstance(stmt, For) and not isinstance(stmt.extent, int):
        return None
    if isinstance(stmt, (For, If)):
        inside = _parts(stmt.body, (*loops, stmt) if isinstance(stmt, For) else loops, waiting)
        if inside is None:
            return None
        made = _written_out(stmt)
        reads, stores = (replace(made, body=part) for part in inside)
        return Block((reads,)), Block((stores,))
    if isinstance(stmt, Store) and stmt.reducer is None:
        kept = tuple(_storage(b, loops) for b in stmt.buffers)
        waiting += kept
        at = tuple(loop.axis for loop in loops)
        values = tuple(Load(b, at, b.dtype) for b in kept)
        read = replace(stmt, buffers=kept, indices=at)
        return Block((read,)), Block((replace(stmt, values=values),))
    return (Block((stmt,)), Block()) if isinstance(stmt, Fetch) else None


def _written_out(stmt: For | If) -> For | If:
    """A serial loop as copies: where they count, storage is no register."""
    if isinstance(stmt, For) and stmt.kind == "serial":
        return replace(stmt, kind="unroll")
    return stmt


def _storage(buffer: Buffer, loops: tuple[For, ...]) -> Buffer:
    shape = tuple(loop.extent for loop in loops)
    return Buffer(f"{buffer.name}.next", buffer.dtype, shape, "local")


def _is_far(stmt: Stmt) -> bool:
    """Whether ``stmt`` reads global memory."""
    if isinstance(stmt, Block):
        return any(map(_is_far, stmt.stmts))
    if isinstance(stmt, (For, If)):
        return _is_far(stmt.body)
    nodes = postorder(expressions(stmt))
    return any(isinstance(n, Load) and n.buffer.scope == "global" for n in nodes)


__all__ = ["parted"]
