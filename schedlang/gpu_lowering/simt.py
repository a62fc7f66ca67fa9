"""The SIMT simulator: it runs a device program on NumPy arrays in lockstep.

All threads of many blocks run each statement at once under a mask, like a warp. The simulator finds
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
from schedlang.expr.bfloat import convert_values
from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.gpu_lowering.checked_memory import Lanes, Memory
from schedlang.gpu_lowering.counters import Counters
from schedlang.gpu_lowering.fragments import WARP_INDEX
from schedlang.gpu_lowering.lanes import on_lanes
from schedlang.gpu_lowering.ledger import Ledger
from schedlang.gpu_lowering.lockstep import Lockstep, batches, number, perform
from schedlang.gpu_lowering.matrix_loads import row_of_lane, rows
from schedlang.gpu_lowering.program import Launch, Program, Scratch
from schedlang.gpu_lowering.warp_products import multiply
from schedlang.instructions.fragments import FRAGMENT, ROW, WARP
from schedlang.ir.nodes import (
    Alloc,
    Barrier,
    Buffer,
    Commit,
    Exchange,
    For,
    If,
    Load,
    Stmt,
    Store,
    walk,
)
from schedlang.ir.updates import as_plain_store
from schedlang.state.state import PRIVATE

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
    program: Program,
    args: Sequence[Any],
    sizes: Mapping[Var, int],
    order: str = "forward",
    seed: int = 0,
    watched: bool = True,
    late: bool = True,
) -> Simulation:
    """Run ``program`` on ``args``: one value for each argument besides the outputs, in order.

    Lanes store in ``order``. An asynchronous copy happens at the latest moment that the waits
    allow, or at once if it is not ``late``. Raise :class:`~schedlang.errors.VerifyError` if the
    program breaks a rule. If ``watched`` is false, races are not detected, which is faster.
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
            scalars[arg] = convert_values(value, arg.dtype)
    for arg in nest.args:
        if isinstance(arg, Buffer):
            memories[arg] = Memory(arg, _shape(arg, scalars), 1, watched)
    for arg, value in zip(inputs, args):
        if isinstance(arg, Buffer):
            memories[arg].fill(np.asarray(value))
    ledgers = {launch.name: Ledger(launch.body) for launch in program.launches}
    device = _Run(memories, scalars, order, random.Random(seed), watched, late)
    with np.errstate(all="ignore"):
        device.steps(program, ledgers)
    chosen = _partly_written(program)
    for buffer in nest.outputs:
        if buffer not in chosen and not memories[buffer].written.all():
            missing = memories[buffer].index(int(np.argmin(memories[buffer].written[0])))
            raise VerifyError(f"{buffer.name}{missing} is never written")
    return Simulation(tuple(memories[b].array() for b in nest.outputs), ledgers)


def _shape(buffer: Buffer, values: Mapping[Any, Any]) -> tuple[int, ...]:
    # what a stage without elements reads of another one may come out as fewer than none
    return tuple(max(0, number(extent, values)) for extent in buffer.shape)


def _partly_written(program: Program) -> set[Buffer]:
    """Return the buffers with elements that a store predicate leaves unwritten."""
    guards = [s for x in program.launches for s, _ in walk(x.body) if isinstance(s, If)]
    stores = [s for g in guards if g.predicate for s, _ in walk(g) if isinstance(s, Store)]
    return {b for store in stores for b in store.buffers}


@dataclass(frozen=True, eq=False)
class _Flying:
    """An asynchronous copy of some lanes that is not there yet."""

    memory: Memory
    at: Lanes
    values: np.ndarray
    unset: np.ndarray

    def writes(self, memory: Memory, lanes: Lanes, k: int) -> bool:
        """Return whether it writes the element that lane ``k`` accesses."""
        same = (self.at.rows == lanes.rows[k]) & (self.at.offsets == lanes.offsets[k])
        return memory is self.memory and bool(same.any())


@dataclass(eq=False)
class _Run:
    """The simulated device: global memory, sizes, the order of lanes in a store, and delays."""

    memories: dict[Buffer, Memory]
    scalars: dict[Any, Any]
    order: str
    random: random.Random
    watched: bool
    late: bool

    def steps(self, program: Program, ledgers: Mapping[str, Ledger]) -> None:
        for step in perform(program.steps, self.scalars):
            if isinstance(step, Scratch):
                shape = _shape(step.buffer, self.scalars)
                self.memories[step.buffer] = Memory(step.buffer, shape, 1, self.watched)
                continue
            for memory in self.memories.values():
                memory.forget_threads()
            for numbers, values in batches(step, self.scalars, MOST_LANES):
                _Blocks(self, step, ledgers[step.name], numbers, values).run()


class _Blocks(Lockstep):
    """Some blocks of a kernel, with the memory of their threads."""

    def __init__(
        self,
        device: _Run,
        launch: Launch,
        ledger: Ledger,
        numbers: np.ndarray,
        values: dict[Axis, np.ndarray],
    ) -> None:
        super().__init__(launch, ledger, {**device.scalars, **values}, len(numbers))
        self.device = device
        lanes = np.arange(launch.threads)
        self.rows = np.broadcast_to(np.arange(len(numbers))[:, None], self.shape)
        self.threads = np.broadcast_to(lanes[None, :], self.shape)
        self.numbers = np.broadcast_to(numbers[:, None], self.shape)
        self.time = np.zeros(self.shape, np.int64)
        self.memories: dict[Buffer, Memory] = {}
        # lanes whose value depends on elements that were never written, and the first such element
        self.unset = np.zeros(self.shape, bool)
        self.missing = ""
        # asynchronous copies since the last commit, and the groups that are not there yet
        self.issued: list[_Flying] = []
        self.groups: list[list[_Flying]] = []

    def statement(self, stmt: Stmt) -> None:
        super().statement(stmt)
        if isinstance(stmt, Alloc):
            self.allocate(stmt.buffer)
        elif isinstance(stmt, Store):
            self.store(stmt)
        elif isinstance(stmt, Commit):
            self.groups.append(self.issued)
            self.issued = []
        elif isinstance(stmt, Barrier):
            if stmt.pending is not None:
                self.wait_for_copies(stmt.pending)
            self.barrier()
        elif isinstance(stmt, Exchange):
            self.exchange(stmt)

    def allocate(self, buffer: Buffer) -> None:
        """Allocate storage with nothing written: a row for each block or each thread."""
        each = {"shared": 1, FRAGMENT: self.shape[1] // WARP}.get(buffer.scope, self.shape[1])
        rows = self.shape[0] * each
        shape = _shape(buffer, self.device.scalars)
        watched = self.device.watched and buffer.scope == "shared"
        self.memories[buffer] = Memory(buffer, shape, rows, watched)

    def memory(self, buffer: Buffer) -> Memory:
        return self.memories.get(buffer) or self.device.memories[buffer]

    def known(self, root: Expr) -> np.ndarray:
        """Evaluate an index, condition or extent; raise if it depends on unwritten elements."""
        self.unset = np.zeros(self.shape, bool)
        result = self.value(root)
        self.refuse_unset()
        return result

    def refuse_unset(self) -> None:
        if (self.unset & self.active).any():
            raise VerifyError(f"{self.missing} is read before it is written")

    def value(self, root: Expr) -> np.ndarray:
        stage = getattr(self.stmt, "stage", self.launch.stage)

        def read(load: Load, at: list[np.ndarray], active: np.ndarray) -> np.ndarray:
            return self.read(load, at, active, stage)

        return np.broadcast_to(on_lanes(root, self.values, self.active, read), self.shape)

    def lanes_at(
        self, memory: Memory, offsets: np.ndarray, active: np.ndarray, stage: str
    ) -> Lanes:
        scope = memory.buffer.scope
        rows = self.rows if scope == "shared" else np.zeros_like(self.rows)
        if scope == "local":
            rows = self.rows * self.shape[1] + self.threads
        elif scope == FRAGMENT:
            rows = self.rows * (self.shape[1] // WARP) + self.threads // WARP
        lanes = [a[active] for a in (rows, offsets, self.threads, self.numbers)]
        if self.device.order == "reverse":
            lanes = [a[::-1] for a in lanes]
        elif self.device.order == "shuffle":
            turn = np.array(self.device.random.sample(range(len(lanes[0])), len(lanes[0])), int)
            lanes = [a[turn] for a in lanes]
        rows, offsets, threads, numbers = lanes
        return Lanes(rows, offsets, threads, numbers, stage)

    def read(self, load: Load, at: list[np.ndarray], active: np.ndarray, stage: str) -> np.ndarray:
        memory = self.memory(load.buffer)
        self.check_holder(memory, at, active, stage)
        offsets = memory.offset(at, active, stage)
        self.request(memory, load.indices, offsets, active, False)
        plain = self.lanes_at(memory, offsets, active, stage)
        values = np.zeros(self.shape, memory.data.dtype)
        elements, unset = memory.load(plain, self._times(plain))
        lanes = (plain.blocks - self.numbers[0, 0], plain.threads)
        values[lanes] = elements
        if unset.any():
            first = int(np.argmax(unset))
            element = memory.index(int(plain.offsets[first]))
            self.missing = f"{memory.buffer.name}{element} of stage {stage}"
            if any(copy.writes(memory, plain, first) for copy in self.flying):
                self.missing += ", whose asynchronous copy no thread has waited for,"
            self.unset[lanes] |= unset
        return values

    def _times(self, accessed: Lanes) -> np.ndarray:
        return self.time[accessed.blocks - self.numbers[0, 0], accessed.threads]

    def update(self, stmt: Store) -> None:
        """Run an atomic update: one lane after the other combines its value."""
        assert stmt.reducer is not None
        at = [self.known(i) for i in stmt.indices]
        (buffer,), (value,) = stmt.buffers, (self.known(v) for v in stmt.values)
        memory = self.memory(buffer)
        offsets = memory.offset(at, self.active, stmt.stage)
        for stores in (False, True):
            self.request(memory, stmt.indices, offsets, self.active, stores)
        accessed = self.lanes_at(memory, offsets, self.active, stmt.stage)
        lanes = (accessed.blocks - self.numbers[0, 0], accessed.threads)
        operands = value[lanes].astype(memory.data.dtype)
        memory.update(accessed, stmt.reducer, operands, self._times(accessed))

    def store(self, stmt: Store) -> None:
        if stmt.atomic:
            self.update(stmt)
            return
        plain = stmt if stmt.reducer is None else as_plain_store(stmt)
        at = [self.known(i) for i in plain.indices]
        self.unset = np.zeros(self.shape, bool)
        values = [self.value(v) for v in plain.values]
        for buffer, value in zip(plain.buffers, values):
            if buffer.scope == "global":
                self.refuse_unset()
            memory = self.memory(buffer)
            self.check_holder(memory, at, self.active, stmt.stage)
            offsets = memory.offset(at, self.active, stmt.stage)
            self.request(memory, plain.indices, offsets, self.active, True)
            accessed = self.lanes_at(memory, offsets, self.active, stmt.stage)
            lanes = (accessed.blocks - self.numbers[0, 0], accessed.threads)
            operands = value[lanes].astype(memory.data.dtype)
            unset = self.unset[lanes]
            if stmt.asynchronous and self.device.late:
                self.issued.append(_Flying(memory, accessed, operands, unset))
                # until the copy is there, nobody may read what was there before
                unset = np.ones_like(unset)
            memory.store(accessed, operands, unset, self._times(accessed))

    def check_holder(
        self, memory: Memory, at: Sequence[np.ndarray], active: np.ndarray, stage: str
    ) -> None:
        """Raise if a thread accesses an element of a fragment that another one holds."""
        if memory.buffer.scope != FRAGMENT:
            return
        wrong = active & (at[-2] != self.threads % WARP)
        if wrong.any():
            lane, own = int(at[-2][wrong][0]), int(self.threads[wrong][0])
            raise VerifyError(
                f"{memory.buffer.name}: thread {own} accesses an element that lane {lane} of its "
                f"warp holds (stage {stage})"
            )

    def product(self, loop: For) -> None:
        """Compute an instruction of a warp, from what all of its threads hold."""
        super().product(loop)
        warps = self.active.reshape(self.shape[0], -1, WARP).any(axis=2)
        blocks, numbers = np.nonzero(warps)

        def first(value: Any) -> np.ndarray:
            lanes = np.broadcast_to(value, self.shape)
            return lanes[blocks, numbers * WARP].reshape(-1, 1, 1)

        values = {
            key: first(value) if isinstance(value, np.ndarray) else value
            for key, value in self.values.items()
        }
        multiply(loop, values, blocks * warps.shape[1] + numbers, self.memory)

    def load(self, loop: For) -> None:
        """Let the lanes that give rows read them, for the lanes that get their elements."""
        super().load(loop)
        if not self.device.watched:
            return
        lane = next(i.axis for i in self.launch.block if i.tag == WARP_INDEX)
        giving = self.active & (self.known(lane) < rows(loop))
        for element in range(ROW // itemsize(row_of_lane(loop, lane)[0].dtype)):
            buffer, indices = row_of_lane(loop, lane, element)
            memory = self.memory(buffer)
            offsets = memory.offset([self.known(i) for i in indices], giving, loop.stage)
            accessed = self.lanes_at(memory, offsets, giving, loop.stage)
            memory.load(accessed, self._times(accessed))

    @property
    def flying(self) -> list[_Flying]:
        """The asynchronous copies that are not there yet."""
        return [copy for group in (*self.groups, self.issued) for copy in group]

    def wait_for_copies(self, pending: int) -> None:
        """Let all groups of copies arrive but the last ``pending``."""
        while len(self.groups) > pending:
            for copy in self.groups.pop(0):
                copy.memory.store(copy.at, copy.values, copy.unset, self._times(copy.at))

    def request(
        self,
        memory: Memory,
        indices: Sequence[Expr],
        offsets: np.ndarray,
        active: np.ndarray,
        stores: bool,
    ) -> None:
        buffer = memory.buffer
        lanes = 0 if buffer.scope in PRIVATE else self.lanes_of(buffer, indices)
        if lanes:
            self.count(buffer, lanes, stores, offsets * itemsize(buffer.dtype), active)

    def barrier(self) -> None:
        some = np.asarray(self.active.any(axis=1))
        if (some != self.active.all(axis=1)).any():
            raise VerifyError(
                f"kernel {self.launch.name}: some threads of a block wait at a barrier that others "
                "do not reach"
            )
        self.time = self.time + some[:, None]

    def exchange(self, stmt: Exchange) -> None:
        other = self.threads[0] ^ stmt.distance
        inside = np.where(other < self.shape[1], other, 0)
        if (self.active & ~(self.active[:, inside] & (other < self.shape[1]))).any():
            raise VerifyError(
                f"kernel {self.launch.name}: a thread exchanges a value with an inactive thread of "
                "its warp"
            )
        stage = self.launch.stage
        for into, source in zip(stmt.into, stmt.source):
            self.unset = np.zeros(self.shape, bool)
            load = self.value(Load(source, stmt.indices, source.dtype))
            unset = self.unset[:, inside]
            at = [self.value(i) for i in stmt.indices]
            memory = self.memory(into)
            offsets = memory.offset(at, self.active, stage)
            accessed = self.lanes_at(memory, offsets, self.active, stage)
            lanes = (accessed.blocks - self.numbers[0, 0], accessed.threads)
            memory.store(accessed, load[:, inside][lanes], unset[lanes], self._times(accessed))
