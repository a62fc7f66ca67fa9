"""Tiles of sums that take more vector registers than the target has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import prod

from schedlang.codegen.sums import vectors_of
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
    for loop in nest.loops:
        if loop.kind in ("serial", "unroll") and loop.axis.is_reduce:
            for store, around in _updates(loop):
                text = _too_many(store, around, target)
                if text is not None:
                    found[text] = None
    return list(found)


def _updates(loop: For) -> Iterator[tuple[Store, tuple[For, ...]]]:
    """The updates for which ``loop`` is the innermost reduction, with the loops around them."""
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(loop.body, (loop,))]
    while stack:
        stmt, around = stack.pop()
        if isinstance(stmt, Block):
            stack.extend((s, around) for s in stmt.stmts)
        elif isinstance(stmt, If):
            stack.append((stmt.body, around))
        elif isinstance(stmt, For) and not (stmt.kind == "serial" and stmt.axis.is_reduce):
            stack.append((stmt.body, (*around, stmt)))
        elif isinstance(stmt, Store) and stmt.reducer is not None:
            yield stmt, around


def _too_many(store: Store, around: tuple[For, ...], target: Target) -> str | None:
    # a reduction that is unrolled adds to the same sums
    unrolled = [f for f in around if f.kind == "unroll" and not f.axis.is_reduce]
    lanes = next((f for f in around if f.kind == "vectorize"), None)
    sums = vectors_of(store, around, target.vector_width)
    if lanes is None or sums is None or not isinstance(lanes.extent, int):
        return None
    pieces = -(-lanes.extent // target.vector_width(store.buffers[0].dtype))
    reads = _reads(store, unrolled, lanes.axis)
    operands = _held(reads) * pieces
    more = _passing(reads, pieces, target)
    needed = sums + operands + more
    if needed <= target.vector_registers:
        return None
    loops = [*unrolled, lanes]
    shape = " x ".join(str(f.extent) for f in loops)
    axes, dtype = " and ".join(f.axis.name for f in loops), store.buffers[0].dtype
    return (
        f"stage {store.stage}: its tile of {shape} {dtype} ({axes}) needs {needed} "
        f"vector registers, {sums} for sums, {operands} for operands that several sums read"
        f"{f' and {more} more' if more else ''}; "
        f"{target.vector_bytes * 8}-bit vectors have {target.vector_registers}, so that sums "
        "go through memory in each iteration. Make the tile smaller."
    )


# what one sum reads: the element of a buffer, and whether all lanes read that one
Operand = tuple[Buffer, Lin, bool]


def _reads(store: Store, unrolled: list[For], lanes: Axis) -> list[set[Operand]]:
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


__all__ = ["spills"]
