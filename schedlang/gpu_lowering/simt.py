"""The SIMT simulator: it runs a device program on NumPy arrays in lockstep.

All threads of many blocks run each statement at once under a mask, as warps do. The simulator finds
races between barriers, barriers that not all threads reach, accesses outside a buffer, and elements
that are read before they are written. It also counts memory requests.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.errors import CallError, VerifyError
from schedlang.expr.bfloat import converted
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.gpu_lowering.checked_memory import Lanes, Memory
from schedlang.gpu_lowering.counters import Counters
from schedlang.gpu_lowering.lanes import lanes_at_once, lanes_differ, on_lanes
from schedlang.gpu_lowering.ledger import Ledger
from schedlang.gpu_lowering.program import Launch, Program, Repeat, Scratch, Step
from schedlang.ir.nodes import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Exchange,
    For,
    If,
    Load,
    Stmt,
    Store,
    walk,
)
from schedlang.ir.trimmed import trimmed
from schedlang.ir.updates import combined

ORDERS = ("forward", "reverse", "shuffle")
# the most lanes that run a statement at once
MOST_LANES = 2**15


@dataclass(frozen=True)
class Simulation:
    """The results of a simulated program, and the memory requests of each kernel by its name."""

    outputs: tuple[np.ndarray, ...]
    ledgers: Mapping[str, Ledger]

    @property
    def counters(self) -> dict[str, Counters]:
        return {name: ledger.total for name, ledger in self.ledgers.items()}


def simulate(
    program: Program, args: Sequence[Any], sizes: Mapping[Var, int], order: str = "forward",
    seed: int = 0, watched: bool = True,
) -> Simulation:  # fmt: skip
    """Run ``program`` on ``args``: one value for each argument that is no output, in order.

    Lanes store in ``order``. Raise :class:`~schedlang.errors.VerifyError` if the program breaks a
    rule. If ``watched`` is false, races are not detected, which is faster.
    """
    if order not in ORDERS:
        raise CallError(f"order={order!r} is not an order; choose one of {', '.join(ORDERS)}")
    nest = program.nest
    scalars: dict[Any, Any] = dict(sizes)
    memories: dict[Buffer, Memory] = {}
    inputs = [a for a in nest.args if isinstance(a, Var) or a not in nest.outputs]
    if len(inputs) != len(args):
        raise CallError(f"{nest.name} takes {len(inputs)} arguments, got {len(args)}")
    for arg, value in zip(inputs, args):
        if isinstance(arg, Var):
            scalars[arg] = converted(value, arg.dtype)
    for arg in nest.args:
        if isinstance(arg, Buffer):
            memories[arg] = Memory(arg, _shape(arg, scalars), 1, watched)
    for arg, value in zip(inputs, args):
        if isinstance(arg, Buffer):
            memories[arg].fill(np.asarray(value))
    ledgers = {launch.name: Ledger(launch.body) for launch in program.launches}
    run = _Run(memories, scalars, ledgers, order, random.Random(seed), watched)
    with np.errstate(all="ignore"):
        run.steps(program.steps)
    chosen = _partly_written(program)
    for buffer in nest.outputs:
        if buffer not in chosen and not memories[buffer].written.all():
            missing = memories[buffer].index(int(np.argmin(memories[buffer].written[0])))
            raise VerifyError(f"{buffer.name}{missing} is never written")
    return Simulation(tuple(memories[b].array() for b in nest.outputs), ledgers)


def _shape(buffer: Buffer, values: Mapping[Any, Any]) -> tuple[int, ...]:
    # what a stage without elements reads of another one may come out as fewer than none
    given = (e if isinstance(e, int) else int(evaluate(e, values)) for e in buffer.shape)
    return tuple(max(0, extent) for extent in given)


def _partly_written(program: Program) -> set[Buffer]:
    """Return the buffers in which a store predicate leaves elements unwritten."""
    guards = [s for x in program.launches for s, _ in walk(x.body) if isinstance(s, If)]
    stores = [s for g in guards if g.predicate for s, _ in walk(g) if isinstance(s, Store)]
    return {b for store in stores for b in store.buffers}


@dataclass(eq=False)
class _Run:
    """The simulated host: it holds global memory and sizes, and runs the kernels in order."""

    memories: dict[Buffer, Memory]
    scalars: dict[Any, Any]
    ledgers: dict[str, Ledger]
    order: str
    random: random.Random
    watched: bool

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Launch):
                self.launch(step)
            elif isinstance(step, Scratch):
                shape = _shape(step.buffer, self.scalars)
                self.memories[step.buffer] = Memory(step.buffer, shape, 1, self.watched)
            elif isinstance(step, Repeat):
                for turn in range(self.number(step.extent)):
                    self.scalars[step.axis] = turn
                    self.steps(step.body)
            elif evaluate(step.cond, self.scalars):
                self.steps(step.body)

    def number(self, extent: int | Expr) -> int:
        return extent if isinstance(extent, int) else int(evaluate(extent, self.scalars))

    def launch(self, launch: Launch) -> None:
        for memory in self.memories.values():
            memory.forget_threads()
        grid = [self.number(i.extent) for i in launch.grid]
        blocks = int(np.prod(grid))
        at_once = max(1, MOST_LANES // launch.threads)
        for first in range(0, blocks, at_once):
            numbers = np.arange(first, min(blocks, first + at_once))
            place = np.unravel_index(numbers, grid) if grid else ()
            values = {i.axis: row[:, None] for i, row in zip(launch.grid, place)}
            self.ledgers[launch.name].begin(len(numbers), launch.threads)
            _Blocks(self, launch, numbers, values).block(launch.body)
            self.ledgers[launch.name].end()


class _Blocks:
    """Some blocks of a kernel: a row of lanes for each block."""

    def __init__(
        self, run: _Run, launch: Launch, numbers: np.ndarray, values: dict[Axis, np.ndarray]
    ) -> None:
        self.run = run
        self.launch = launch
        self.ledger = run.ledgers[launch.name]
        count = launch.threads
        lanes = np.arange(count)
        extents = [int(i.extent) for i in launch.block]
        # x varies fastest
        place = np.unravel_index(lanes, extents[::-1])[::-1] if extents else ()
        self.values: dict[Any, Any] = {**run.scalars, **values}
        self.values.update({i.axis: row[None, :] for i, row in zip(launch.block, place)})
        self.shape = (len(numbers), count)
        self.rows = np.broadcast_to(np.arange(len(numbers))[:, None], self.shape)
        self.threads = np.broadcast_to(lanes[None, :], self.shape)
        self.numbers = np.broadcast_to(numbers[:, None], self.shape)
        self.active = np.ones(self.shape, bool)
        # the statement that runs, to which accesses are counted
        self.stmt: Stmt = launch.body
        self.time = np.zeros(self.shape, np.int64)
        self.memories: dict[Buffer, Memory] = {}
        self.lane: tuple[For, int] | None = None
        # lanes whose value depends on elements that were never written, and the first such element
        self.unset = np.zeros(self.shape, bool)
        self.missing = ""

    def block(self, block: Block) -> None:
        for stmt in block.stmts:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        self.stmt = stmt
        if isinstance(stmt, Block):
            self.block(stmt)
        elif isinstance(stmt, Alloc):
            self.allocate(stmt.buffer)
        elif isinstance(stmt, For):
            self.loop(stmt)
        elif isinstance(stmt, If):
            cond = np.broadcast_to(self.known(stmt.cond, stmt), self.shape)
            self.ledger.branch(stmt, cond, self.active)
            self.under(self.active & cond, stmt.body)
        elif isinstance(stmt, Store):
            self.store(stmt)
        elif isinstance(stmt, Barrier):
            self.barrier()
        elif isinstance(stmt, Exchange):
            self.exchange(stmt)

    def under(self, mask: np.ndarray, body: Block) -> None:
        if not mask.any():
            return
        before, self.active = self.active, mask
        self.block(body)
        self.active = before

    def loop(self, loop: For) -> None:
        found = trimmed(loop)
        # each thread counts from the start of its own range
        start = self.end(found.start, loop)
        counts = self.end(found.stop, loop)
        if found.tests:
            counts = np.maximum(np.broadcast_to(counts - start, self.shape), 0)
        most = counts if isinstance(counts, int) else int(counts[self.active].max(initial=0))
        around = self.lane
        for turn in range(most):
            self.values[loop.axis] = start + np.int64(turn)
            if loop.kind == "vectorize" and not lanes_differ(loop):
                self.lane = (loop, turn)
            mask = self.active if isinstance(counts, int) else self.active & (turn < counts)
            self.under(mask, found.body)
        self.lane = around

    def end(self, value: int | Expr, loop: For) -> Any:
        """Return an end of a loop's range: a number, or one of each thread."""
        if isinstance(value, int):
            return value
        return np.broadcast_to(self.known(value, loop), self.shape)

    def allocate(self, buffer: Buffer) -> None:
        """Allocate storage with nothing written: a row for each block or each thread."""
        rows = self.shape[0] if buffer.scope == "shared" else self.shape[0] * self.shape[1]
        shape = _shape(buffer, self.run.scalars)
        watched = self.run.watched and buffer.scope == "shared"
        self.memories[buffer] = Memory(buffer, shape, rows, watched)

    def memory(self, buffer: Buffer) -> Memory:
        return self.memories.get(buffer) or self.run.memories[buffer]

    def known(self, root: Expr, stmt: Stmt) -> Any:
        """Evaluate an index, condition or extent; raise if it depends on unwritten elements."""
        self.unset = np.zeros(self.shape, bool)
        found = self.value(root, stmt)
        self.refuse_unset()
        return found

    def refuse_unset(self) -> None:
        if (self.unset & self.active).any():
            raise VerifyError(f"{self.missing} is read before it is written")

    def value(self, root: Expr, stmt: Stmt) -> Any:
        stage = getattr(stmt, "stage", self.launch.stage)

        def read(load: Load, at: list[np.ndarray], active: np.ndarray) -> np.ndarray:
            return self.read(load, at, active, stage)

        return on_lanes(root, self.values, self.active, read)

    def lanes_at(
        self, memory: Memory, offsets: np.ndarray, active: np.ndarray, stage: str
    ) -> Lanes:
        scope = memory.buffer.scope
        rows = self.rows if scope == "shared" else np.zeros_like(self.rows)
        if scope == "local":
            rows = self.rows * self.shape[1] + self.threads
        lanes = [a[active] for a in (rows, offsets, self.threads, self.numbers)]
        if self.run.order == "reverse":
            lanes = [a[::-1] for a in lanes]
        elif self.run.order == "shuffle":
            turn = np.array(self.run.random.sample(range(len(lanes[0])), len(lanes[0])), int)
            lanes = [a[turn] for a in lanes]
        rows, offsets, threads, numbers = lanes
        return Lanes(rows, offsets, threads, numbers, stage)

    def read(self, load: Load, at: list[np.ndarray], active: np.ndarray, stage: str) -> np.ndarray:
        memory = self.memory(load.buffer)
        offsets = memory.offset(at, active, stage)
        self.count(memory, load.indices, offsets, active, False)
        plain = self.lanes_at(memory, offsets, active, stage)
        values = np.zeros(self.shape, memory.data.dtype)
        found, unset = memory.load(plain, self._times(plain))
        lanes = (plain.blocks - self.numbers[0, 0], plain.threads)
        values[lanes] = found
        if unset.any():
            element = memory.index(int(plain.offsets[unset][0]))
            self.missing = f"{memory.buffer.name}{element} of stage {stage}"
            self.unset[lanes] |= unset
        return values

    def _times(self, accessed: Lanes) -> np.ndarray:
        times: np.ndarray = self.time[accessed.blocks - self.numbers[0, 0], accessed.threads]
        return times

    def update(self, stmt: Store) -> None:
        """Run an atomic update: one lane after the other combines its value."""
        assert stmt.reducer is not None
        at = [np.broadcast_to(self.known(i, stmt), self.shape) for i in stmt.indices]
        (buffer,), (value,) = stmt.buffers, (self.known(v, stmt) for v in stmt.values)
        memory = self.memory(buffer)
        offsets = memory.offset(at, self.active, stmt.stage)
        for stores in (False, True):
            self.count(memory, stmt.indices, offsets, self.active, stores)
        accessed = self.lanes_at(memory, offsets, self.active, stmt.stage)
        lanes = (accessed.blocks - self.numbers[0, 0], accessed.threads)
        given = np.broadcast_to(value, self.shape)[lanes].astype(memory.data.dtype)
        memory.update(accessed, stmt.reducer, given, self._times(accessed))

    def store(self, stmt: Store) -> None:
        if stmt.atomic:
            self.update(stmt)
            return
        plain = stmt if stmt.reducer is None else combined(stmt)
        at = [np.broadcast_to(self.known(i, plain), self.shape) for i in plain.indices]
        self.unset = np.zeros(self.shape, bool)
        values = [np.broadcast_to(self.value(v, plain), self.shape) for v in plain.values]
        for buffer, value in zip(plain.buffers, values):
            if buffer.scope == "global":
                self.refuse_unset()
            memory = self.memory(buffer)
            offsets = memory.offset(at, self.active, stmt.stage)
            self.count(memory, plain.indices, offsets, self.active, True)
            accessed = self.lanes_at(memory, offsets, self.active, stmt.stage)
            lanes = (accessed.blocks - self.numbers[0, 0], accessed.threads)
            given = value[lanes].astype(memory.data.dtype)
            memory.store(accessed, given, self.unset[lanes], self._times(accessed))

    def count(
        self, memory: Memory, indices: Sequence[Expr], offsets: np.ndarray, active: np.ndarray,
        stores: bool,
    ) -> None:  # fmt: skip
        if memory.buffer.scope == "local":
            return
        width = itemsize(memory.buffer.dtype)
        lanes = 1
        if self.lane is not None:
            loop, turn = self.lane
            turns, lanes = lanes_at_once(memory.buffer, indices, loop)
            if turn % turns:
                return
            width *= lanes
        scope = "shared" if memory.buffer.scope == "shared" else "global"
        bytes_ = offsets * itemsize(memory.buffer.dtype)
        self.ledger.access(self.stmt, scope, stores, bytes_, active, width, lanes)

    def barrier(self) -> None:
        some = np.asarray(self.active.any(axis=1))
        if (some != self.active.all(axis=1)).any():
            raise VerifyError(
                f"kernel {self.launch.name}: some threads of a block wait at a barrier that others "
                "do not reach"
            )
        self.ledger.wait(self.stmt, barriers=int(some.sum()))
        self.time = self.time + some[:, None]

    def exchange(self, stmt: Exchange) -> None:
        other = self.threads[0] ^ stmt.distance
        inside = np.where(other < self.shape[1], other, 0)
        if (self.active & ~(self.active[:, inside] & (other < self.shape[1]))).any():
            raise VerifyError(
                f"kernel {self.launch.name}: a thread exchanges a value with an inactive thread of "
                "its warp"
            )
        warps = -(-self.shape[1] // 32)
        times = warps * int(self.active.any(axis=1).sum()) * len(stmt.into)
        self.ledger.wait(self.stmt, exchanges=times)
        stage = self.launch.stage
        for into, source in zip(stmt.into, stmt.source):
            self.unset = np.zeros(self.shape, bool)
            load = self.value(Load(source, stmt.indices, source.dtype), stmt)
            unset = self.unset[:, inside]
            at = [np.broadcast_to(self.value(i, stmt), self.shape) for i in stmt.indices]
            memory = self.memory(into)
            offsets = memory.offset(at, self.active, stage)
            accessed = self.lanes_at(memory, offsets, self.active, stage)
            lanes = (accessed.blocks - self.numbers[0, 0], accessed.threads)
            memory.store(accessed, load[:, inside][lanes], unset[lanes], self._times(accessed))
