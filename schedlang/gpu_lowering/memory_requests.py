"""The memory requests of a program from its addresses, without computing values.

:func:`counted` counts all of them, and :func:`requests_of_block` reports those of one block.

Addresses and conditions must not depend on data; otherwise :func:`counted` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import Program as Evaluation
from schedlang.expr.evaluate import evaluate, plan
from schedlang.expr.nodes import Expr, Select
from schedlang.expr.visit import postorder
from schedlang.gpu_lowering.lanes import lanes_at_once, lanes_differ
from schedlang.gpu_lowering.ledger import Ledger
from schedlang.gpu_lowering.program import Launch, Program, Repeat, Scratch, Step
from schedlang.index.linear import to_expr
from schedlang.ir.accesses import Access, accesses
from schedlang.ir.nodes import (
    Barrier,
    Block,
    Buffer,
    Exchange,
    For,
    If,
    Load,
    Stmt,
    Store,
    expressions,
    walk,
)
from schedlang.ir.offsets import flat
from schedlang.ir.trimmed import trimmed
from schedlang.ir.updates import combined

# the most lanes whose addresses are computed at once
MOST_LANES = 2**16


def decided_by_data(program: Program) -> bool:
    """Return whether an address, a condition or the extent of a loop depends on data."""
    for launch in program.launches:
        for stmt, _ in walk(launch.body):
            deciding: list[Expr] = []
            if isinstance(stmt, Store):
                deciding += stmt.indices
            elif isinstance(stmt, (If, For)):
                deciding += expressions(stmt)
            for node in postorder(expressions(stmt)):
                if isinstance(node, Load):
                    deciding += node.indices
                elif isinstance(node, Select) and node.lazy:
                    deciding.append(node.cond)
            if any(isinstance(n, Load) for n in postorder(deciding)):
                return True
    return False


def counted(program: Program, scalars: Mapping[Any, Any]) -> dict[str, Ledger]:
    """Return the requests of each kernel, for given sizes and scalar arguments.

    Raise if :func:`decided_by_data` holds.
    """
    ledgers = {launch.name: Ledger(launch.body) for launch in program.launches}
    _host(program.steps, dict(scalars), ledgers)
    return ledgers


@dataclass(frozen=True, eq=False)
class Request:
    """An access of the threads of one block to global or shared memory.

    ``bytes`` are the offsets in the buffer, ``active`` tells which threads take part, and ``width``
    are the bytes for each of them.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    stores: bool
    bytes: np.ndarray
    active: np.ndarray
    width: int


def requests_of_block(
    launch: Launch, block: Sequence[int], scalars: Mapping[Any, Any],
    see: Callable[[Request], None], stores_to: Buffer | None = None, most: int | None = None,
) -> bool:  # fmt: skip
    """Report to ``see`` each request of one block of a kernel, in program order.

    ``block`` has a number for each index of ``launch.grid``. ``stores_to`` leaves out all but the
    stores to one buffer, and those that a loop repeats. After ``most`` requests, if given, the
    others are left out. Return whether these were all. Addresses must not depend on data.
    """
    walker = _Walker(launch, Ledger(launch.body), see, stores_to, most)
    values = {i.axis: np.full((1, 1), at) for i, at in zip(launch.grid, block)}
    walker.run({**scalars, **values}, 1)
    return not walker.stopped


def _host(steps: Sequence[Step], scalars: dict[Any, Any], ledgers: dict[str, Ledger]) -> None:
    for step in steps:
        if isinstance(step, Launch):
            _launch(step, scalars, ledgers[step.name])
        elif isinstance(step, Repeat):
            for turn in range(_number(step.extent, scalars)):
                _host(step.body, {**scalars, step.axis: turn}, ledgers)
        elif not isinstance(step, Scratch) and evaluate(step.cond, scalars):
            _host(step.body, scalars, ledgers)


def _number(extent: int | Expr, scalars: Mapping[Any, Any]) -> int:
    return extent if isinstance(extent, int) else int(evaluate(extent, scalars))


def _launch(launch: Launch, scalars: Mapping[Any, Any], ledger: Ledger) -> None:
    grid = [_number(i.extent, scalars) for i in launch.grid]
    blocks = int(np.prod(grid))
    walker = _Walker(launch, ledger)
    at_once = max(1, MOST_LANES // launch.threads)
    for first in range(0, blocks, at_once):
        numbers = np.arange(first, min(blocks, first + at_once))
        place = np.unravel_index(numbers, grid) if grid else ()
        values = {i.axis: row[:, None] for i, row in zip(launch.grid, place)}
        walker.run({**scalars, **values}, len(numbers))


class _Walker:
    """A pass that runs the loops and conditions of a kernel for many blocks and counts accesses."""

    def __init__(
        self, launch: Launch, ledger: Ledger, see: Callable[[Request], None] | None = None,
        stores_to: Buffer | None = None, most: int | None = None,
    ) -> None:  # fmt: skip
        self.launch = launch
        # how many more requests are reported, and whether there were others
        self.left = most
        self.stopped = False
        self.ledger = ledger
        self.see = see
        self.stores_to = stores_to
        # each access of a statement, with its offset
        self.accesses: dict[int, list[tuple[Access, Evaluation]]] = {}
        self.loud: set[int] = set()
        self.moving: dict[int, bool] = {}
        self._prepare(launch.body)
        extents = [int(i.extent) for i in launch.block]
        lanes = np.arange(launch.threads)
        # x varies fastest
        place = np.unravel_index(lanes, extents[::-1])[::-1] if extents else ()
        self.threads: dict[Any, Any] = {i.axis: r[None, :] for i, r in zip(launch.block, place)}
        self.values: dict[Any, Any] = {}
        self.lane: tuple[For, int] | None = None
        self.shape = (0, launch.threads)

    def _prepare(self, stmt: Stmt) -> bool:
        """Record the accesses of each statement; return whether ``stmt`` has any to count."""
        if isinstance(stmt, Block):
            found = any([self._prepare(s) for s in stmt.stmts])
        elif isinstance(stmt, (For, If)):
            self.accesses[id(stmt)] = self._wanted(stmt)
            # a condition counts, too, unless only some stores are wanted
            found = self._prepare(stmt.body)
            found = found or (isinstance(stmt, If) and self.stores_to is None)
            found = found or bool(self.accesses[id(stmt)])
        else:
            self.accesses[id(stmt)] = self._wanted(stmt)
            waits = isinstance(stmt, (Barrier, Exchange)) and self.stores_to is None
            found = waits or bool(self.accesses[id(stmt)])
        if found:
            self.loud.add(id(stmt))
        return found

    def _wanted(self, stmt: Stmt) -> list[tuple[Access, Evaluation]]:
        only = self.stores_to
        if isinstance(stmt, Store) and stmt.reducer is not None:
            stmt = combined(stmt)
        return [
            (a, plan((to_expr(flat(a.buffer, a.indices)),)))
            for a in accesses(stmt, tested=True)
            if a.buffer.scope != "local" and (only is None or (a.stores and a.buffer is only))
        ]  # fmt: skip

    def run(self, values: Mapping[Any, Any], blocks: int) -> None:
        self.values = {**values, **self.threads}
        self.shape = (blocks, self.launch.threads)
        self.ledger.begin(*self.shape)
        self.block(self.launch.body, None)
        self.ledger.end()

    def block(self, block: Block, active: np.ndarray | None) -> None:
        """Count the requests of the statements in ``block``.

        ``active`` is ``None`` if all lanes are active.
        """
        for stmt in block.stmts:
            if id(stmt) in self.loud:
                self.statement(stmt, active)

    def statement(self, stmt: Stmt, active: np.ndarray | None) -> None:
        if isinstance(stmt, Block):
            self.block(stmt, active)
            return
        for access, offset in self.accesses[id(stmt)]:
            self.access(stmt, access, offset, active)
        if isinstance(stmt, For):
            self.loop(stmt, active)
        elif isinstance(stmt, If):
            mask = self.both(active, stmt.cond)
            if mask is not active and mask is not None:
                every = np.ones(self.shape, bool) if active is None else active
                self.ledger.branch(stmt, mask, every)
            if mask is None or mask.any():
                self.block(stmt.body, mask)
        elif isinstance(stmt, (Barrier, Exchange)):
            rows = self.shape[0] if active is None else int(active.any(axis=1).sum())
            if isinstance(stmt, Barrier):
                self.ledger.wait(stmt, barriers=rows)
            else:
                warps = -(-self.shape[1] // 32)
                self.ledger.wait(stmt, exchanges=warps * rows * len(stmt.into))

    def both(self, active: np.ndarray | None, cond: Expr) -> np.ndarray | None:
        found = np.broadcast_to(np.asarray(evaluate(cond, self.values)), self.shape)
        if found.all():
            return active
        return found if active is None else active & found

    def loop(self, loop: For, active: np.ndarray | None) -> None:
        found = trimmed(loop)
        # each thread counts from the start of its own range
        start, counts = self.end(found.start), self.end(found.stop)
        if found.tests:
            counts = np.maximum(np.broadcast_to(counts - start, self.shape), 0)
        around = self.lane
        turns = counts if isinstance(counts, int) else int(counts.max(initial=0))
        if self.stores_to is not None and not self.moves(loop):
            turns = min(turns, 1)
        for turn in range(turns):
            if self.stopped:
                break
            self.values[loop.axis] = start + np.int64(turn)
            if loop.kind == "vectorize" and not lanes_differ(loop):
                self.lane = (loop, turn)
            mask = active
            if not isinstance(counts, int) and not (turn < counts).all():
                mask = (turn < counts) if active is None else active & (turn < counts)
            self.block(found.body, mask)
        self.lane = around

    def end(self, value: int | Expr) -> Any:
        """Return an end of a loop's range: a number, or one of each thread."""
        if isinstance(value, int):
            return value
        return np.broadcast_to(np.asarray(evaluate(value, self.values)), self.shape)

    def moves(self, loop: For) -> bool:
        """Return whether what is accessed in a loop depends on its iteration."""
        if id(loop) not in self.moving:
            roots: list[Expr] = []
            for stmt, _ in walk(loop.body):
                if isinstance(stmt, (If, For)):
                    roots += expressions(stmt)
                for access, _ in self.accesses.get(id(stmt), ()):
                    roots += [*access.indices, *access.tests]
            self.moving[id(loop)] = any(node is loop.axis for node in postorder(roots))
        return self.moving[id(loop)]

    def access(
        self, stmt: Stmt, access: Access, offset: Evaluation, active: np.ndarray | None
    ) -> None:
        size = itemsize(access.buffer.dtype)
        width, lanes = size, 1
        if self.lane is not None:
            loop, turn = self.lane
            turns, lanes = lanes_at_once(access.buffer, access.indices, loop)
            if turn % turns:
                return
            width *= lanes
        for test in access.tests:
            active = self.both(active, test)
        if self.left == 0:
            self.stopped = True
            return
        scope = "shared" if access.buffer.scope == "shared" else "global"
        bytes_ = np.asarray(offset.run(self.values)[0]) * size
        if self.see is not None:
            self.left = None if self.left is None else self.left - 1
            mask = np.ones(self.shape, bool) if active is None else active
            at = np.broadcast_to(bytes_, self.shape)[0]
            self.see(Request(access.buffer, access.indices, access.stores, at, mask[0], width))
            return
        if active is None and (bytes_.ndim < 2 or bytes_.shape[0] == 1):
            # the offsets are the same in every block
            row = np.broadcast_to(bytes_, (1, self.shape[1]))
            every = np.ones(row.shape, bool)
            self.ledger.access(
                stmt, scope, access.stores, row, every, width, lanes, self.shape[0]
            )
            return
        mask = np.ones(self.shape, bool) if active is None else active
        at = np.where(mask, np.broadcast_to(bytes_, self.shape), 0)
        self.ledger.access(stmt, scope, access.stores, at, mask, width, lanes)


__all__ = ["Request", "counted", "decided_by_data", "requests_of_block"]
