"""Threads of a device program in lockstep: all threads of many blocks run a statement at once.

A walk over the statements of a kernel decides which threads run each of them, and counts branches,
barriers and the requests that it is told of. Two modules say what a load, a store or a condition
does: :mod:`schedlang.gpu_lowering.simt` has values, and
:mod:`schedlang.gpu_lowering.memory_requests` has addresses alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from schedlang.errors import VerifyError
from schedlang.expr.dtypes import itemsize
from schedlang.expr.evaluate import evaluate
from schedlang.expr.nodes import Axis, Expr
from schedlang.gpu_lowering.counters import WARP
from schedlang.gpu_lowering.fragments import WARP_INDEX, multiplies
from schedlang.gpu_lowering.lanes import lanes_at_once, lanes_differ
from schedlang.gpu_lowering.ledger import Ledger
from schedlang.gpu_lowering.matrix_loads import loads_matrices, row_of_lane, rows
from schedlang.gpu_lowering.program import Launch, Repeat, Scratch, Step
from schedlang.index.linear import to_expr
from schedlang.instructions.fragments import ROW
from schedlang.ir.nodes import Barrier, Block, Buffer, Exchange, For, If, Stmt
from schedlang.ir.offsets import flat
from schedlang.ir.trimmed import trim_loop
from schedlang.state.state import TENSORIZE


def perform(steps: Sequence[Step], scalars: dict[Any, Any]) -> Iterator[Launch | Scratch]:
    """Yield the launches and allocations of the host in order, each as ``scalars`` has its loops.

    ``scalars`` are the values of sizes and scalar arguments.
    """
    for step in steps:
        if isinstance(step, (Launch, Scratch)):
            yield step
        elif isinstance(step, Repeat):
            for turn in range(number(step.extent, scalars)):
                scalars[step.axis] = turn
                yield from perform(step.body, scalars)
        elif evaluate(step.cond, scalars):
            yield from perform(step.body, scalars)


def number(extent: int | Expr, scalars: Mapping[Any, Any]) -> int:
    """Return the value of an extent."""
    return extent if isinstance(extent, int) else int(evaluate(extent, scalars))


def batches(
    launch: Launch, scalars: Mapping[Any, Any], most_lanes: int
) -> Iterator[tuple[np.ndarray, dict[Axis, np.ndarray]]]:
    """Yield the numbers of some blocks of a kernel, and their indices in a column each.

    A batch has at most ``most_lanes`` threads, or one block.
    """
    grid = [number(i.extent, scalars) for i in launch.grid]
    blocks, at_once = int(np.prod(grid)), max(1, most_lanes // launch.threads)
    for first in range(0, blocks, at_once):
        numbers = np.arange(first, min(blocks, first + at_once))
        place = np.unravel_index(numbers, grid) if grid else ()
        yield numbers, {i.axis: row[:, None] for i, row in zip(launch.grid, place)}


class Lockstep:
    """Some blocks of a kernel, with a row of lanes for each: those that are ``active`` run."""

    def __init__(
        self, launch: Launch, ledger: Ledger, values: Mapping[Any, Any], blocks: int
    ) -> None:
        self.launch = launch
        self.ledger = ledger
        extents = [int(i.extent) for i in launch.block]
        # x varies fastest
        lanes = np.arange(launch.threads)
        place = np.unravel_index(lanes, extents[::-1])[::-1] if extents else ()
        self.values: dict[Any, Any] = dict(values)
        self.values.update({i.axis: row[None, :] for i, row in zip(launch.block, place)})
        self.shape = (blocks, launch.threads)
        self.active = np.ones(self.shape, bool)
        # the statement that runs, to which accesses are counted
        self.stmt: Stmt = launch.body
        # the innermost loop whose lanes are one access, vectorized or of an instruction, and its
        # iteration
        self.lane: tuple[For, int] | None = None

    def run(self) -> None:
        """Run all statements, as one batch of the ledger."""
        self.ledger.begin(*self.shape)
        self.block(self.launch.body)
        self.ledger.end()

    def known(self, root: Expr) -> np.ndarray:
        """Return the value of an index, a condition or an extent on each lane."""
        return np.broadcast_to(np.asarray(evaluate(root, self.values)), self.shape)

    def block(self, block: Block) -> None:
        for stmt in block.stmts:
            self.statement(stmt)

    def statement(self, stmt: Stmt) -> None:
        self.stmt = stmt
        if isinstance(stmt, Block):
            self.block(stmt)
        elif isinstance(stmt, For):
            self.loop(stmt)
        elif isinstance(stmt, If):
            cond = self.known(stmt.cond)
            if cond.all():
                self.block(stmt.body)
            else:
                self.ledger.branch(stmt, cond, self.active)
                self.under(self.active & cond, stmt.body)
        elif isinstance(stmt, Barrier):
            self.ledger.wait(stmt, barriers=self.running_blocks())
        elif isinstance(stmt, Exchange):
            times = -(-self.shape[1] // WARP) * self.running_blocks() * len(stmt.into)
            self.ledger.wait(stmt, exchanges=times)

    def running_blocks(self) -> int:
        return int(self.active.any(axis=1).sum())

    def under(self, mask: np.ndarray, body: Block) -> None:
        """Run ``body`` on the lanes of ``mask``."""
        if mask.any():
            before, self.active = self.active, mask
            self.block(body)
            self.active = before

    def product(self, loop: For) -> None:
        """Count the warps that multiply fragments together."""
        self.ledger.wait(loop, products=self.warps_together(loop))

    def load(self, loop: For) -> None:
        """Count the rows that warps load, by the addresses that their first lanes give."""
        self.warps_together(loop)
        lane = next(i.axis for i in self.launch.block if i.tag == WARP_INDEX)
        buffer, indices = row_of_lane(loop, lane)
        first = self.active & (self.known(lane) < rows(loop))
        at = self.known(to_expr(flat(buffer, indices))) * itemsize(buffer.dtype)
        self.request_rows(buffer, indices, np.where(first, at, 0), first)

    def request_rows(
        self, buffer: Buffer, indices: Sequence[Expr], bytes_: np.ndarray, active: np.ndarray
    ) -> None:
        """Count the load of a row for each active lane."""
        self.count(buffer, ROW // itemsize(buffer.dtype), False, bytes_, active)

    def warps_together(self, loop: For) -> int:
        """Return how many warps run an instruction together; raise if a thread is missing."""
        warps = self.active.reshape(-1, WARP).sum(axis=1)
        part = warps[(warps > 0) & (warps < WARP)]
        if part.size:
            raise VerifyError(
                f"kernel {self.launch.name}: {part[0]} of the {WARP} threads of a warp come to "
                f"{loop.instruction}, which all of them compute together (stage {loop.stage})"
            )
        return int((warps > 0).sum())

    def loop(self, loop: For) -> None:
        if multiplies(loop):
            self.product(loop)
            return
        if loads_matrices(loop):
            self.load(loop)
        trim = trim_loop(loop)
        # each thread counts from the start of its own range
        ends = (trim.start, trim.stop)
        start, counts = (e if isinstance(e, int) else self.known(e) for e in ends)
        if trim.tests:
            counts = np.maximum(np.broadcast_to(counts - start, self.shape), 0)
        most = counts if isinstance(counts, int) else int(counts[self.active].max(initial=0))
        around = self.lane
        for turn in self.turns(loop, most):
            self.values[loop.axis] = start + np.int64(turn)
            if loop.kind in ("vectorize", TENSORIZE) and not lanes_differ(loop):
                self.lane = (loop, turn)
            mask = self.active if isinstance(counts, int) else self.active & (turn < counts)
            self.under(mask, trim.body)
        self.lane = around

    def turns(self, loop: For, most: int) -> Iterable[int]:
        """Return the iterations of a loop that run, among the first ``most``."""
        return range(most)

    def lanes_of(self, buffer: Buffer, indices: Sequence[Expr]) -> int:
        """Return the elements of an access; 0 if an earlier iteration has accessed this one."""
        if self.lane is None:
            return 1
        loop, turn = self.lane
        if loads_matrices(loop):
            # its rows are counted
            return 0
        turns, lanes = lanes_at_once(buffer, indices, loop)
        return 0 if turn % turns else lanes

    def count(
        self,
        buffer: Buffer,
        lanes: int,
        stores: bool,
        bytes_: np.ndarray,
        active: np.ndarray,
        times: int = 1,
    ) -> None:
        """Count an access of the statement that runs; see :meth:`Ledger.access`."""
        scope = "shared" if buffer.scope == "shared" else "global"
        width = lanes * itemsize(buffer.dtype)
        self.ledger.access(self.stmt, scope, stores, bytes_, active, width, lanes, times)
