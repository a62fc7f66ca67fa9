"""Tiles of sums that take more vector registers than the target has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from schedlang.codegen.sums import vectors_of
from schedlang.expr.linear import Lin
from schedlang.expr.nodes import Axis, Var
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, For, If, Load, Stmt, Store
from schedlang.ir.offsets import flat, lane_step
from schedlang.target import Target

# unrolled further than this, a tile is far beyond any budget and not looked at in detail
MOST_COPIES = 512


def spills(nest: Nest, target: Target) -> list[str]:
    """A sentence for each tile that does not fit into the vector registers of ``target``."""
    found: dict[str, None] = {}
    for loop in nest.loops:
        if loop.kind == "serial" and loop.axis.is_reduce:
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
    width = target.vector_width(store.buffers[0].dtype)
    operands = _operands(store, unrolled, lanes.axis) * -(-lanes.extent // width)
    needed = sums + operands + 1
    if needed <= target.vector_registers:
        return None
    loops = [*unrolled, lanes]
    shape = " x ".join(str(f.extent) for f in loops)
    axes, dtype = " and ".join(f.axis.name for f in loops), store.buffers[0].dtype
    return (
        f"stage {store.stage}: its tile of {shape} {dtype} ({axes}) needs {needed} "
        f"vector registers, {sums} for sums, {operands} for operands and 1 more; "
        f"{target.vector_bytes * 8}-bit vectors have {target.vector_registers}, so that some sums "
        "go through memory in each iteration. Make the tile smaller."
    )


def _operands(store: Store, unrolled: list[For], lanes: Axis) -> int:
    """The different vectors that one iteration reads, besides the sums."""
    extents = [f.extent for f in unrolled]
    counts = [e for e in extents if isinstance(e, int)]
    copies = 1
    for count in counts:
        copies *= count
    loads = [n for n in postorder(store.values) if isinstance(n, Load)]
    if len(counts) < len(extents) or copies > MOST_COPIES:
        return 0
    found = set()
    for load in loads:
        offset = flat(load.buffer, load.indices)
        if lane_step(offset, lanes) == 0:
            continue
        for place in product(*(range(c) for c in counts)):
            at: dict[Axis | Var, Lin] = {f.axis: Lin.of(k) for f, k in zip(unrolled, place)}
            found.add((load.buffer, offset.substitute(at)))
    return len(found)


__all__ = ["spills"]
