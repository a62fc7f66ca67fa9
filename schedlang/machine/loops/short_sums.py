"""Short loops of sums that stay loops, since their written-out iterations would spill registers.

Iterations over the taps of a window read elements that others read, too. LLVM fully unrolls a short
loop, loads such an element once, and holds it until the last iteration that needs it. Where the
sums need these registers, it stores them to memory and loads them in each round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, product
from math import prod

from schedlang.expr.nodes import Axis, Var
from schedlang.index.linear import Lin
from schedlang.ir.accesses import loads, stores
from schedlang.ir.nodes import Block, Buffer, For, Stmt, Store, block_of, walk, with_held
from schedlang.ir.offsets import flat, lane_step
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.plain_loops import ROLLED
from schedlang.machine.loops.sums import vectors_of
from schedlang.target import Target

# LLVM 22 writes out three taps around a tile of 12 vectors of sums, and does not write out seven
MOST_TAPS = 4
# elements of a tile in all iterations, more of which no register file holds
MOST_ELEMENTS = 512


def keep_short_sums_rolled(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with a pragma on short loops whose iterations would share too many loads."""
    if not (job.target.facts.vector_arithmetic and job.may_have("unroll")):
        return body
    return block_of(_marked(body, job))


def _marked(stmt: Stmt, job: LoopJob) -> Stmt:
    marked = with_held(stmt, lambda inner: _marked(inner, job))
    if isinstance(stmt, For) and isinstance(marked, For) and _is_short(stmt):
        sites = stores(stmt.body)
        if len(sites) == 1 and not sites[0].guards:
            loops = (stmt, *sites[0].loops)
            if writing_out_spills(sites[0].stmt, [stmt], loops, job.target):
                return replace(marked, pragmas=(*marked.pragmas, (ROLLED, 1)))
    return marked


def _is_short(loop: For) -> bool:
    short = isinstance(loop.extent, int) and 2 <= loop.extent <= MOST_TAPS
    return short and loop.kind == "serial" and loop.axis.is_reduce


def writing_out_spills(
    store: Store, taps: Sequence[For], loops: Sequence[For], target: Target
) -> bool:
    """Return whether the sums of ``store`` fit the registers of ``target``, but not in all taps.

    ``loops`` are around the store. The ``taps`` among them are reduction loops that are written
    out, outside of unrolled rows and of lanes. It is ``False`` for a store that is not the update
    of a tile of vectors in registers.
    """
    rows = [f for f in loops if f.kind == "unroll" and f not in taps]
    lanes = next((f for f in loops if f.kind == "vectorize"), None)
    fixed = all(isinstance(f.extent, int) for f in (*taps, *rows))
    whole = lanes is not None and len(taps) + len(rows) + 1 == len(loops) and fixed
    if store.reducer is None or lanes is None or not whole or not rows:
        return False
    one, several = (registers_needed(store, each, rows, loops, target) for each in ((), taps))
    if one is None or several is None:
        return False
    return one <= target.vector_registers < several


def registers_needed(
    store: Store, taps: Sequence[For], rows: Sequence[For], loops: Sequence[For], target: Target
) -> int | None:
    """Return the most vectors that the sums of ``store`` and their operands are at a time.

    ``taps`` and unrolled ``rows`` are among the ``loops`` around the store, and are written out.
    Return ``None`` for sums that are not in vectors.
    """
    lanes = next((f for f in loops if f.kind == "vectorize"), None)
    count = vectors_of(store, tuple(loops), target.vector_width)
    if lanes is None or count is None:
        return None
    width = min(target.vector_width(buffer.dtype) for buffer in store.buffers)
    return count + _peak(store, taps, rows, lanes, width)


def rolled_sums(body: Block, job: LoopJob) -> list[tuple[For, Store, int]]:
    """Return the short loops that stay loops, each with its sum and what it would need.

    That is the number of vector registers that all its iterations would need, written out.
    """
    loops: list[tuple[For, Store, int]] = []
    for stmt, _ in walk(keep_short_sums_rolled(body, job)):
        if isinstance(stmt, For) and (ROLLED, 1) in stmt.pragmas and _is_short(stmt):
            (site,) = stores(stmt.body)
            rows = [f for f in site.loops if f.kind == "unroll"]
            needed = registers_needed(site.stmt, [stmt], rows, (stmt, *site.loops), job.target)
            if needed is not None:
                loops.append((stmt, site.stmt, needed))
    return loops


def _peak(store: Store, taps: Sequence[For], rows: Sequence[For], lanes: For, width: int) -> int:
    """Return the most registers of operands that a later copy of the update needs again.

    An operand that one copy reads needs none. Without ``taps``, the first copies alone count.
    """
    read = {(load.buffer, flat(load.buffer, load.indices)) for load in loads(store.values)}
    loops = [(f.axis, f.extent) for f in (*taps, *rows) if isinstance(f.extent, int)]
    copies = prod(n for _, n in loops)
    if copies * len(read) > MOST_ELEMENTS or not isinstance(lanes.extent, int):
        return 0
    first: dict[tuple[Buffer, Lin], int] = {}
    last: dict[tuple[Buffer, Lin], int] = {}
    for number, at in enumerate(product(*(range(n) for _, n in loops))):
        values: dict[Axis | Var, Lin] = {axis: Lin.of(n) for (axis, _), n in zip(loops, at)}
        for buffer, offset in read:
            element = buffer, offset.substitute(values)
            first.setdefault(element, number)
            last[element] = number
    vectors = -(-lanes.extent // width)
    changes = [0] * (copies + 1)
    for element, start in first.items():
        if start < last[element]:
            count = 1 if lane_step(element[1], lanes.axis) == 0 else vectors
            changes[start] += count
            changes[last[element] + 1] -= count
    return max(accumulate(changes))


__all__ = ["keep_short_sums_rolled", "registers_needed", "rolled_sums", "writing_out_spills"]
