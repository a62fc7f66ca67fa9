"""The interpreter of machine nests: it runs the statements one by one, on NumPy arrays.

Every access is checked. Scratch storage is first filled with NaN or odd numbers. The threads of a
GPU's block take turns: each runs up to its next barrier or exchange.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, Optional

import numpy as np

from schedlang.expr.dtypes import storage_dtype
from schedlang.intrinsics import twins
from schedlang.machine.evaluate import Evaluator, intrinsic
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import (
    Alloc,
    Array,
    Barrier,
    Body,
    Fn,
    For,
    Function,
    Hint,
    If,
    Invoke,
    Let,
    Prefetch,
    Run,
    SharedCopy,
    Stmt,
    Store,
    Thread,
    View,
)

# what a thread waits for: a barrier, or the value of another thread at a distance
Wait = Optional[tuple[Any, int]]
Steps = Generator[Wait, Any, None]


@dataclass
class Work:
    """The elements that a run read from and wrote to each array, by its name."""

    loads: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Machine:
    """The functions of a nest, how values are computed, and the order of parallel loops."""

    functions: Mapping[str, Function]
    evaluate: Evaluator
    work: Work
    rng: Optional[random.Random] = None
    indices: Mapping[str, int] = field(default_factory=dict)
    shared: Optional[dict[str, np.ndarray]] = None

    def call(self, function: Function, given: Sequence[Any]) -> Steps:
        space = dict(zip((p.name for p in function.parameters), given))
        yield from self.body(function.body, space)

    def body(self, body: Body, space: dict[str, Any]) -> Steps:
        for stmt in body:
            yield from self.statement(stmt, space)

    def statement(self, stmt: Stmt, space: dict[str, Any]) -> Steps:
        if isinstance(stmt, Let):
            space[stmt.reg.name] = self.evaluate(stmt.value, space)
        elif isinstance(stmt, Store):
            yield from self.store(stmt, space)
        elif isinstance(stmt, For):
            yield from self.loop(stmt, space)
        elif isinstance(stmt, If):
            side = stmt.body if self.evaluate(stmt.cond, space) else stmt.orelse
            yield from self.body(side, space)
        elif isinstance(stmt, Alloc):
            space[stmt.array.name] = self.allocated(stmt, space)
        elif isinstance(stmt, View):
            start, count = (int(self.evaluate(v, space)) for v in (stmt.start, stmt.count))
            dtype = storage_dtype(stmt.array.dtype)
            space[stmt.array.name] = twins.arena_array(space[stmt.whole.name], start, count, dtype)
        elif isinstance(stmt, Run):
            given = [space[a.name] if isinstance(a, Array) else self.evaluate(a, space)
                     for a in stmt.args]  # fmt: skip
            yield from self.call(self.functions[stmt.function], given)
        elif isinstance(stmt, Invoke):
            sizes = [int(self.evaluate(size, space)) for size in stmt.sizes]
            boxes = []
            for k, (array, start, rank) in enumerate(zip(stmt.given, stmt.starts, stmt.ranks)):
                own, sizes = sizes[: 2 * rank], sizes[2 * rank :]
                at = self.evaluate(start, space)
                seen = self.work.loads if k < stmt.inputs else self.work.stores
                seen[array.name] += prod(own[:rank])
                boxes.append((space[array.name], at, own[:rank], own[rank:]))
            twins.invoke(space[stmt.table.name], stmt.position, *boxes)
        elif isinstance(stmt, Thread):
            space[stmt.reg.name] = self.indices[stmt.tag]
        elif isinstance(stmt, SharedCopy):
            assert stmt.how == "copy_async", "threads of a warp wait for no others here"
            into, source = space[stmt.array.name], space[stmt.source.name]
            at, start = (int(self.evaluate(v, space)) for v in (stmt.at, stmt.start))
            into[at : at + stmt.count] = source[start : start + stmt.count]
            self.work.loads[stmt.source.name] += stmt.count
            self.work.stores[stmt.array.name] += stmt.count
        elif isinstance(stmt, Barrier):
            yield None
        else:
            assert isinstance(stmt, (Hint, Prefetch))

    def loop(self, stmt: For, space: dict[str, Any]) -> Steps:
        start, stop = (int(self.evaluate(end, space)) for end in (stmt.start, stmt.stop))
        iterations: Sequence[int] = range(start, stop, stmt.step)
        if stmt.parallel and self.rng is not None:
            iterations = list(iterations)
            self.rng.shuffle(iterations)
        for index in iterations:
            if stmt.again is not None and not self.evaluate(stmt.again, space):
                break
            space[stmt.index.name] = index
            yield from self.body(stmt.body, space)

    def store(self, stmt: Store, space: dict[str, Any]) -> Steps:
        array, at = space[stmt.array.name], self.evaluate(stmt.at, space)
        if isinstance(stmt.value, Fn) and stmt.value.name == "exchange":
            read, distance = stmt.value.args
            value = yield self.evaluate(read, space), self.evaluate(distance, space)
        else:
            value = self.evaluate(stmt.value, space)
        more: list[Any] = [] if stmt.step == 1 else [stmt.step]
        after: list[Any] = []
        count = max(stmt.value.type.lanes, 1)
        if stmt.mask is not None:
            after.append(self.evaluate(stmt.mask, space))
            count = int(np.count_nonzero(after[0]))
        self.work.stores[stmt.array.name] += count
        intrinsic(stmt.how, stmt.array.dtype)(array, at, *more, value, *after)

    def allocated(self, stmt: Alloc, space: dict[str, Any]) -> np.ndarray:
        size = int(self.evaluate(stmt.count, space))
        made = twins.heap_array(size, storage_dtype(stmt.array.dtype))
        if stmt.place == "shared" and self.shared is not None:
            return self.shared.setdefault(stmt.array.name, made)
        return made


def interpret_machine(
    nest: MachineNest, args: Sequence[Any], order: Optional[random.Random] = None
) -> Work:
    """Run the entry of ``nest`` on ``args``: flat arrays and scalars, in the order of parameters.

    An array of short floats is given as uint16. ``order`` shuffles the iterations of parallel
    loops. Raises :class:`IndexError` for an access outside of an array.
    """
    machine = _machine(nest, order)
    with np.errstate(all="ignore"):
        for _ in machine.call(nest.entry, args):
            raise AssertionError("a CPU kernel waits for no other thread")
    return machine.work


def interpret_kernel(
    function: Function, args: Sequence[Any], grid: Sequence[int], block: Sequence[int]
) -> Work:
    """Run a GPU kernel on ``args``, for ``grid`` blocks of ``block`` threads, in x, y and z."""
    machine = _machine(MachineNest((function,)), None)
    with np.errstate(all="ignore"):
        for where in product(*(range(n) for n in reversed(grid))):
            _block(machine, function, args, where[::-1], block)
    return machine.work


def _machine(nest: MachineNest, order: Optional[random.Random]) -> Machine:
    evaluate = Evaluator()
    work = Work(loads=evaluate.loads)
    return Machine({f.name: f for f in nest.functions}, evaluate, work, order)


def _block(
    machine: Machine, function: Function, args: Sequence[Any], where: Sequence[int],
    block: Sequence[int],
) -> None:  # fmt: skip
    """Run the threads of one block; all of them reach each barrier and exchange."""
    shared: dict[str, np.ndarray] = {}
    threads: list[Steps] = []
    for place in product(*(range(n) for n in reversed(block))):
        indices = {f"blockIdx.{k}": n for k, n in zip("xyz", where)}
        indices |= {f"threadIdx.{k}": n for k, n in zip("xyz", place[::-1])}
        own = Machine(machine.functions, machine.evaluate, machine.work, None, indices, shared)
        threads.append(own.call(function, args))
    answers: list[Any] = [None] * len(threads)
    while threads:
        waits: list[Wait] = []
        ended = 0
        for thread, answer in zip(threads, answers):
            try:
                waits.append(thread.send(answer))
            except StopIteration:
                ended += 1
        if ended:
            assert ended == len(threads), "some threads ended before a barrier of the others"
            return
        answers = [
            None if wait is None else _other(waits, position, wait[1])
            for position, wait in enumerate(waits)
        ]


def _other(waits: Sequence[Wait], position: int, distance: int) -> Any:
    """Return the value that the thread exchanges whose number differs in the bit ``distance``."""
    other = position ^ distance
    wait = waits[other] if other < len(waits) else waits[position]
    assert wait is not None, "all threads of a warp take part in an exchange"
    return wait[0]


__all__ = ["Work", "interpret_kernel", "interpret_machine"]
