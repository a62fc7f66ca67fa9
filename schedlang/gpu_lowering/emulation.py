"""Conversion of a device program to plain loops, which a CPU runs at real sizes.

Blocks run in parallel. The threads of a block run one after the other up to each barrier: a loop
that contains a barrier encloses the thread loops, and local storage that outlives a barrier gets a
row for each thread. Source: J. Stratton, S. Stone, W. Hwu, MCUDA (LCPC 2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedlang.expr.nodes import Binary, Const, Expr
from schedlang.gpu_lowering.fragments import WARP_INDEX, multiplies
from schedlang.gpu_lowering.program import Index, Launch, Program, Repeat, Scratch, Step
from schedlang.index.linear import ZERO, Lin, to_expr
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Commit,
    Exchange,
    For,
    If,
    Load,
    Stmt,
    Store,
    block_of,
    walk,
    with_held,
)
from schedlang.ir.rewrite import deep, relocate, with_rows
from schedlang.state.state import SERPENTINE, TENSORIZE


def as_loops(program: Program) -> Nest:
    """Return a nest that computes what ``program`` computes.

    Unrolled loops become serial: a CPU runs them as fast and compiles them ten times faster.
    """
    body = deep(Block(tuple(_steps(program.steps))), _plain)
    return replace(program.nest, body=block_of(body))


def _plain(stmt: Stmt) -> Stmt:
    """Return an unrolled loop as a serial one, and an atomic update as one that runs alone.

    A copy that is asynchronous on the GPU happens at once.

    No loop turns around, as on the GPU. The loops of an instruction run as they stand.
    """
    if isinstance(stmt, Store) and (stmt.atomic or stmt.asynchronous):
        return replace(stmt, atomic=False, asynchronous=False)
    if isinstance(stmt, Commit):
        return Block()
    if isinstance(stmt, For):
        kind = "serial" if stmt.kind in ("unroll", TENSORIZE) else stmt.kind
        pragmas = tuple((name, v) for name, v in stmt.pragmas if name != SERPENTINE)
        return replace(stmt, kind=kind, pragmas=pragmas, instruction=None)
    return stmt


def _steps(steps: Sequence[Step]) -> list[Stmt]:
    stmts: list[Stmt] = []
    for step in steps:
        if isinstance(step, Scratch):
            stmts.append(Alloc(step.buffer, number=step.number))
        elif isinstance(step, Launch):
            stmts.append(_grid(step))
        else:
            body = Block(tuple(_steps(step.body)))
            stmts.append(
                For(step.axis, step.extent, "serial", body, "", number=step.number)
                if isinstance(step, Repeat)
                else If(step.cond, body, number=step.number)
            )
    return stmts


def _grid(launch: Launch) -> Stmt:
    """Return the loops over the blocks; the longest one is outermost and parallel."""
    threads = _Threads(launch)
    body = block_of(threads.in_rows(Block(tuple(threads.block(launch.body)))))

    def length(index: Index) -> float:
        return index.extent if isinstance(index.extent, int) else float("inf")

    for index in sorted(launch.grid, key=length):
        body = Block((_loop(index, launch, body),))
    first = body.stmts[0] if launch.grid else body
    if any(_updates_together(s) for s, _ in walk(launch.body)):
        # blocks that update the same elements run one after the other
        return first
    return replace(first, kind="parallel") if isinstance(first, For) else first


def _updates_together(stmt: Stmt) -> bool:
    """Return whether ``stmt`` updates elements that several blocks may update."""
    return isinstance(stmt, Store) and stmt.atomic and stmt.buffers[0].scope == "global"


def waits(stmt: Stmt) -> bool:
    """Return whether ``stmt`` contains a barrier, an exchange or a product of a warp."""
    return any(isinstance(s, (Barrier, Exchange)) or multiplies(s) for s, _ in walk(stmt))


class _Threads:
    """A pass that wraps the statements of one block in thread loops."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.rows: dict[Buffer, Buffer] = {}

    def block(self, block: Block) -> list[Stmt]:
        """Return ``block`` for all threads; thread loops move inside statements with barriers."""
        if not any(isinstance(s, Alloc) and s.buffer.scope == "shared" for s in block.stmts):
            if not waits(block):
                return self.in_thread_loops(block.stmts)
        stmts: list[Stmt] = []
        run: list[Stmt] = []
        for stmt in block.stmts:
            if isinstance(stmt, Alloc):
                stmts.append(self.storage(stmt))
            elif waits(stmt):
                stmts += self.in_thread_loops(run)
                run = []
                stmts += self.waiting(stmt)
            else:
                run.append(stmt)
        return [*stmts, *self.in_thread_loops(run)]

    def storage(self, alloc: Alloc) -> Stmt:
        if alloc.buffer.scope == "shared":
            return alloc
        b = alloc.buffer
        self.rows[b] = with_rows(b, *(int(i.extent) for i in self.sharing(b)))
        return Alloc(self.rows[b], number=alloc.number)

    @property
    def threads(self) -> tuple[Index, ...]:
        """The thread indices, z first."""
        return tuple(sorted(self.launch.block, key=lambda i: i.letter, reverse=True))

    def sharing(self, buffer: Buffer) -> tuple[Index, ...]:
        """Return the indices that have storage of their own: of threads, or of warps."""
        return self.threads if buffer.fragment is None else self.warps

    @property
    def warps(self) -> tuple[Index, ...]:
        """The thread indices that number the warps of a block with fragments."""
        return tuple(i for i in self.threads if i.tag != WARP_INDEX)

    def waiting(self, stmt: Stmt) -> list[Stmt]:
        if isinstance(stmt, Barrier):
            return []
        if isinstance(stmt, Exchange):
            return self.exchange(stmt)
        if isinstance(stmt, Block):
            return self.block(stmt)
        if multiplies(stmt):
            return self.in_thread_loops([stmt], self.warps)
        return [with_held(stmt, lambda inner: Block(tuple(self.block(block_of(inner)))))]

    def exchange(self, stmt: Exchange) -> list[Stmt]:
        """Return thread loops that read the row of the partner of each thread."""
        number, count = ZERO, 1
        for index in reversed(self.threads):
            number = number + Lin.of(index.axis) * count
            count *= int(index.extent)
        other: Expr = Binary("^", to_expr(number), _const(stmt.distance), "int64", True)
        rows: list[Expr] = []
        for k, index in enumerate(reversed(self.threads)):
            last = k == len(self.threads) - 1
            size = _const(int(index.extent))
            rows.insert(0, other if last else Binary("%", other, size, "int64", True))
            other = Binary("//", other, size, "int64", True)
        source = tuple(Load(self.rows[b], (*rows, *stmt.indices), b.dtype) for b in stmt.source)
        store = Store(stmt.into, stmt.indices, source, None, self.launch.stage, number=stmt.number)
        return self.in_thread_loops([store])

    def in_rows(self, stmt: Stmt) -> Stmt:
        """Return ``stmt`` with accesses to per-thread storage moved to the thread's row."""

        def moved_to(
            buffer: Buffer, at: tuple[Expr, ...]
        ) -> tuple[Buffer, tuple[Expr, ...]] | None:
            if buffer not in self.rows:
                return None
            return self.rows[buffer], (*(i.axis for i in self.sharing(buffer)), *at)

        return relocate(stmt, moved_to)

    def in_thread_loops(
        self, stmts: Sequence[Stmt], indices: Sequence[Index] | None = None
    ) -> list[Stmt]:
        """Return ``stmts`` inside loops over the threads, or over the values of ``indices``."""
        if not stmts:
            return []
        body = Block(tuple(stmts))
        for index in reversed(self.threads if indices is None else indices):
            body = Block((_loop(index, self.launch, body),))
        return list(body.stmts)


def _loop(index: Index, launch: Launch, body: Block) -> For:
    """Return the loop over the values of a block or thread index."""
    return For(index.axis, index.extent, "serial", body, launch.stage, number=index.number)


def _const(value: int) -> Const:
    return Const(value, "int64", True)
