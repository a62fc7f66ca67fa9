"""What a program is expected to cost on a GPU, from one warp of each kernel: it orders candidates.

Instructions that can be issued, sectors that memory has to move and passes of shared memory, each
against what a device does in a second, stretched where too few warps run to hide their waits
(a roofline with occupancy; Williams, Waterman and Patterson, "Roofline", CACM 2009). The addresses
of a first warp stand for those of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from schedlang.autotune.costs.devices import speed_of
from schedlang.autotune.costs.estimate import Estimate, arithmetic, work_of
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.linear import to_expr
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.visit import postorder
from schedlang.grid.counters import BANKS, SECTOR, WARP, WORD
from schedlang.grid.lanes import lanes_at_once
from schedlang.grid.program import Launch, Program, Repeat, Step, When
from schedlang.ir.nodes import Barrier, Block, Buffer, Exchange, For, If, Load, Stmt, Store, walk
from schedlang.ir.offsets import flat
from schedlang.target import Target

# how much more than global memory caches serve
CACHED = 2.5
# bytes of them that one multiprocessor takes in a cycle (A100: 5120 in all, by its whitepaper)
TAKEN = 64
# warp instructions that a multiprocessor issues in a cycle, and warps that hide a wait
ISSUE, HIDING = 4, 12
LAUNCH = 3e-6
BARRIER = 30
SYMBOLIC = 256


@dataclass
class _Work:
    """What one warp does, over all of its iterations."""

    instructions: float = 0.0
    sectors: float = 0.0
    passes: float = 0.0


def estimate_gpu(program: Program, target: Target) -> Estimate:
    """The cost of ``program`` on ``target``; ``flops`` are those of a whole call.

    >>> import schedlang as sl
    >>> from schedlang.grid.lower import device_program
    >>> def made(threads):
    ...     A = sl.placeholder((1 << 20,), name="A")
    ...     B = sl.compute((1 << 20,), lambda i: A[i] + 1, name="B")
    ...     s = sl.schedule(B)
    ...     block, thread = s[B].split(B.op.axis[0], factor=threads)
    ...     s[B].bind(block, "blockIdx.x"); s[B].bind(thread, "threadIdx.x")
    ...     return device_program(sl.lower(s), sl.Target("cuda"))
    >>> few, many = (estimate_gpu(made(n), sl.Target("cuda")) for n in (8, 256))
    >>> few.seconds > many.seconds
    True
    """
    seconds = 0.0
    for launch, times in _launches(program.steps, 1):
        work = _Work()
        _walk(launch, launch.body, 1.0, work, _lanes(launch), None)
        blocks = prod(_size(i.extent) for i in launch.grid)
        warps = -(-launch.threads // WARP)
        seconds += times * (LAUNCH + _seconds(launch, work, blocks, warps, target))
    return Estimate(seconds, work_of(program.nest))


def _launches(steps: Sequence[Step], times: int) -> Iterator[tuple[Launch, int]]:
    """Each kernel, and how often the host launches it."""
    for step in steps:
        if isinstance(step, Launch):
            yield step, times
        elif isinstance(step, Repeat):
            yield from _launches(step.body, times * _size(step.extent))
        elif isinstance(step, When):
            yield from _launches(step.body, times)


def _seconds(launch: Launch, work: _Work, blocks: int, warps: int, target: Target) -> float:
    device, speed = target.device, speed_of(target)
    units = speed.multiprocessors
    held = max(1, registers(launch)) * launch.threads
    resident = max(1, min(
        device.threads_per_sm // launch.threads, device.blocks_per_sm,
        device.shared_per_sm // max(1, launch.shared_bytes), device.registers_per_sm // held or 1,
    ))  # fmt: skip
    # the last wave takes as long as a full one
    waves = -(-blocks // (units * resident))
    active = min(resident, -(-blocks // units)) * warps
    stretch = max(1.0, HIDING / active)
    # blocks that one multiprocessor has to do
    share = waves * resident if blocks > units * resident else -(-blocks // units)
    issue = share * warps * work.instructions / ISSUE / speed.clock
    shared = share * warps * work.passes / speed.clock
    moved = warps * work.sectors * SECTOR * max(
        blocks / (speed.memory * CACHED), share / (TAKEN * speed.clock)
    )  # fmt: skip
    slow = max(issue, shared, moved)
    spilled = 2.0 if registers(launch) > device.registers else 1.0
    return spilled * stretch * (slow + 0.3 * (issue + shared + moved - slow))


def registers(launch: Launch) -> int:
    """Registers that a thread needs: its local storage, and what addresses take.

    Part of that storage is what waits for the next tile of a double buffer. Each element has a
    register of its own, a small one too.
    """
    local = {b for s, _ in walk(launch.body) for b in _buffers(s) if b.scope == "local"}
    return 24 + sum((b.size or 0) * -(-itemsize(b.dtype) // WORD) for b in local)


def _buffers(stmt: Stmt) -> Sequence[Buffer]:
    return stmt.buffers if isinstance(stmt, Store) else ()


def _walk(
    launch: Launch,
    stmt: Stmt,
    times: float,
    work: _Work,
    lanes: Mapping[Any, Any],
    wide: For | None,
) -> None:
    if isinstance(stmt, Block):
        for inner in stmt.stmts:
            _walk(launch, inner, times, work, lanes, wide)
    elif isinstance(stmt, For):
        turns = stmt.extent if isinstance(stmt.extent, int) else SYMBOLIC
        if stmt.kind == "serial":
            work.instructions += 3 * times * turns
        inner_wide = stmt if stmt.kind == "vectorize" else wide
        _walk(launch, stmt.body, times * turns, work, lanes, inner_wide)
    elif isinstance(stmt, If):
        work.instructions += 2 * times
        _walk(launch, stmt.body, times, work, lanes, wide)
    elif isinstance(stmt, (Barrier, Exchange)):
        work.instructions += BARRIER * times
    elif isinstance(stmt, Store):
        _store(stmt, times, work, lanes, wide)


def _store(
    store: Store, times: float, work: _Work, lanes: Mapping[Any, Any], wide: For | None
) -> None:
    work.instructions += times * arithmetic(store, 1)[0]
    reads = [n for n in postorder((*store.values, *store.indices)) if isinstance(n, Load)]
    accesses = [(n.buffer, n.indices) for n in reads]
    accesses += [(b, store.indices) for b in store.buffers]
    if store.reducer is not None:
        accesses += [(b, store.indices) for b in store.buffers]
    for buffer, indices in accesses:
        if buffer.scope == "local":
            continue
        together, width = (1, 1) if wide is None else lanes_at_once(buffer, indices, wide)
        each = times / together
        work.instructions += each
        sectors, passes = _request(buffer, tuple(indices), lanes, width)
        if buffer.scope == "shared":
            work.passes += each * passes
        else:
            work.sectors += each * sectors


def _request(
    buffer: Buffer, indices: tuple[Expr, ...], lanes: Mapping[Any, Any], width: int
) -> tuple[float, float]:
    """Sectors of global memory, or passes of shared memory, of one request of a first warp."""
    size = itemsize(buffer.dtype)
    offset = to_expr(flat(buffer, indices))
    values = dict(lanes)
    for node in postorder([offset]):
        if isinstance(node, (Axis, Var)) and node not in values:
            values[node] = 0
        if isinstance(node, Load):
            # an address out of memory: each thread its own
            return float(WARP), float(WARP)
    count = len(next(iter(lanes.values()))) if lanes else 1
    at = np.broadcast_to(np.asarray(evaluate(offset, values)), (count,)) * size
    if buffer.scope != "shared":
        return float(len(np.unique(at // SECTOR)) * -(-width * size // SECTOR)), 0.0
    words = np.unique(at // WORD)
    _, crowd = np.unique(words % BANKS, return_counts=True)
    return 0.0, float(max(crowd.max(initial=1), width * size / WORD * len(words) / BANKS))


def _lanes(launch: Launch) -> dict[Any, Any]:
    """The thread indices of a first warp."""
    extents = [_size(i.extent) for i in launch.block]
    numbers = np.arange(min(WARP, prod(extents)))
    place = np.unravel_index(numbers, extents[::-1])[::-1] if extents else ()
    return {i.axis: row for i, row in zip(launch.block, place)}


def _size(extent: int | Expr) -> int:
    return extent if isinstance(extent, int) else SYMBOLIC


__all__ = ["estimate_gpu", "registers"]
