"""The work of the first warp of a kernel, which stands for all warps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from schedlang.autotune.costs.arithmetic import instructions
from schedlang.diagnostics.sites import SYMBOLIC
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.gpu_lowering.counters import BANKS, SECTOR, WARP, WORD
from schedlang.gpu_lowering.fragment_registers import in_registers
from schedlang.gpu_lowering.lanes import lane_step, lanes_at_once
from schedlang.gpu_lowering.program import Launch
from schedlang.index.linear import to_expr
from schedlang.ir.accesses import Access, accesses, stores
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Barrier,
    Block,
    Buffer,
    Exchange,
    For,
    If,
    Kept,
    Load,
    Stmt,
    Store,
    held_statements,
    walk,
)
from schedlang.ir.offsets import flat
from schedlang.machine.loops.instructions import use_instructions
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.sums import keep_sums
from schedlang.target import Target

# instructions that a barrier stands for
# nobody has measured this value
BARRIER = 30
# the instructions of a loop that the instruction cache holds (fitted on an H100)
CODE = 2048


@dataclass(frozen=True)
class Warp:
    """The first warp of a kernel: the thread indices of its lanes."""

    lanes: Mapping[Any, Any]


@dataclass(frozen=True)
class Around:
    """The context of a statement.

    * ``times``: how often it runs.
    * ``wide``: the innermost vectorized or unrolled loop around it, if there is one.
    * ``unrolled``: the other unrolled loops around it, up to the next serial loop.
    * ``kept``: the buffers whose sums are kept in registers.
    """

    times: float = 1.0
    wide: For | None = None
    unrolled: tuple[For, ...] = ()
    kept: frozenset[Buffer] = frozenset()


@dataclass
class Work:
    """The work of one warp, over all of its iterations.

    ``fetched`` counts the instructions of loops that are too long for the instruction cache.
    """

    instructions: float = 0.0
    fetched: float = 0.0
    sectors: float = 0.0
    passes: float = 0.0


def work_of_warp(launch: Launch, nest: Nest, target: Target) -> Work:
    """Return the work of the first warp of a kernel of ``nest``."""
    work, job = Work(), LoopJob(nest, target)
    body = keep_sums(use_instructions(in_registers(launch), job), job)
    _walk(Warp(_lanes(launch)), body, Around(), work)
    return work


def size_of(extent: int | Expr) -> int:
    """Return an extent, or ``SYMBOLIC`` if it is not constant."""
    return extent if isinstance(extent, int) else SYMBOLIC


def _walk(warp: Warp, stmt: Stmt, around: Around, work: Work) -> None:
    if isinstance(stmt, For):
        _loop(warp, stmt, around, work)
        return
    if isinstance(stmt, Kept):
        _add_kept(warp, stmt, around, work)
        return
    if isinstance(stmt, If):
        work.instructions += 2 * around.times
    elif isinstance(stmt, (Barrier, Exchange)):
        work.instructions += BARRIER * around.times
    elif isinstance(stmt, Store):
        _store(warp, stmt, around, work)
    for inner in held_statements(stmt):
        _walk(warp, inner, around, work)


def _loop(warp: Warp, loop: For, around: Around, work: Work) -> None:
    turns = size_of(loop.extent)
    if loop.kind == "serial":
        work.instructions += 3 * around.times * turns
    # the compiler joins the accesses of an unrolled loop, too
    joins = loop.kind == "vectorize" or (loop.kind == "unroll" and turns > 1)
    unrolled = () if loop.kind == "serial" else around.unrolled
    if joins and around.wide is not None:
        unrolled = (*unrolled, around.wide)
    inside = replace(
        around, times=around.times * turns, wide=loop if joins else around.wide, unrolled=unrolled
    )
    before = work.instructions
    _walk(warp, loop.body, inside, work)
    if loop.kind == "serial" and not _has_serial_loop(loop.body):
        issued = work.instructions - before
        work.fetched += issued if issued > CODE * around.times * turns else 0.0


def _has_serial_loop(body: Block) -> bool:
    return any(isinstance(s, For) and s.kind == "serial" for s, _ in walk(body))


def _add_kept(warp: Warp, kept: Kept, around: Around, work: Work) -> None:
    """Add the work of statements whose sums are in registers: they are stored once, at the end."""
    for site in stores(kept.body):
        if kept.buffers & set(site.stmt.buffers):
            for access in site.accesses:
                if access.stores:
                    _access(warp, access, around, work)
    _walk(warp, kept.body, replace(around, kept=kept.buffers), work)


def _store(warp: Warp, store: Store, around: Around, work: Work) -> None:
    work.instructions += around.times * instructions(store, postorder(store.values), lambda _: 1, 1)
    for access in accesses(store):
        if not access.updates or access.buffer not in around.kept:
            _access(warp, access, around, work)


def _access(warp: Warp, access: Access, around: Around, work: Work) -> None:
    buffer, indices = access.buffer, access.indices
    if buffer.scope == "local":
        return
    wide = around.wide
    together, width = (1, 1) if wide is None else lanes_at_once(buffer, indices, wide)
    each = around.times / together
    offset = flat(buffer, indices)
    for loop in around.unrolled:
        # one access serves all iterations that need the same element
        if lane_step(offset, loop.axis) == 0:
            each /= size_of(loop.extent)
    work.instructions += each
    sectors, passes = _request(buffer, indices, warp.lanes, max(width, access.count))
    if buffer.scope == "shared":
        work.passes += each * passes
    else:
        work.sectors += each * sectors


def _request(
    buffer: Buffer, indices: tuple[Expr, ...], lanes: Mapping[Any, Any], width: int
) -> tuple[float, float]:
    """Return the sectors of global memory and the passes of shared memory of a warp's request."""
    size = itemsize(buffer.dtype)
    offset = to_expr(flat(buffer, indices))
    values = dict(lanes)
    for node in postorder([offset]):
        if isinstance(node, (Axis, Var)) and node not in values:
            values[node] = 0
        if isinstance(node, Load):
            # an index read from memory: assume a different one for each thread
            return float(WARP), float(WARP)
    count = len(next(iter(lanes.values()))) if lanes else 1
    at = np.broadcast_to(np.asarray(evaluate(offset, values)), (count,)) * size
    if buffer.scope != "shared":
        return float(len(np.unique(at // SECTOR)) * -(-width * size // SECTOR)), 0.0
    words = np.unique(at // WORD)
    _, crowd = np.unique(words % BANKS, return_counts=True)
    return 0.0, float(max(crowd.max(initial=1), width * size / WORD * len(words) / BANKS))


def _lanes(launch: Launch) -> dict[Any, Any]:
    """Return the thread indices of the first warp, by axis."""
    extents = [size_of(i.extent) for i in launch.block]
    numbers = np.arange(min(WARP, prod(extents)))
    place = np.unravel_index(numbers, extents[::-1])[::-1] if extents else ()
    return {i.axis: row for i, row in zip(launch.block, place)}
