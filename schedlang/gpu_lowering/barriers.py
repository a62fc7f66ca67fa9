"""Placement of barriers between accesses of different threads to one element of shared storage.

A barrier is placed only where one is needed, and never where threads of a block may diverge. A
conflict between two statements places a barrier before the later one, inside the innermost loop
that both share.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.gpu_lowering.collisions import Access, Between, collide
from schedlang.gpu_lowering.fragments import WARP_INDEX
from schedlang.gpu_lowering.matrix_loads import loads_matrices
from schedlang.gpu_lowering.program import Launch
from schedlang.gpu_lowering.threads import uniform
from schedlang.instructions.fragments import WARP
from schedlang.ir.accesses import accesses, sites, written_buffers
from schedlang.ir.nodes import Barrier, Block, For, If, Stmt, Store, walk
from schedlang.ir.rewrite import with_leaves
from schedlang.ir.trimmed import Trimmed, trim_loop, within
from schedlang.state.state import PRIVATE


@dataclass(frozen=True, eq=False)
class Piece:
    """A statement with its barriers.

    ``head`` and ``tail`` are its accesses before the first and after the last barrier. ``synced``
    is true if every path through it passes a barrier.
    """

    stmt: Stmt
    head: tuple[Access, ...]
    tail: tuple[Access, ...]
    synced: bool = False


def with_barriers(launch: Launch) -> Launch:
    """Return ``launch`` with barriers between the accesses of different threads."""
    if launch.threads == 1:
        return launch
    placer = _Placer(launch)
    body = placer.block(launch.body, (), ()).stmt
    assert isinstance(body, Block)
    return replace(launch, body=body)


class _Placer:
    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.threads = {i.axis: int(i.extent) for i in launch.block}
        self.shared = {b for b in written_buffers(launch.body) if b.scope not in PRIVATE}
        lanes = Axis("lane", WARP)
        self.warp = For(lanes, WARP, "serial", Block(), launch.stage)
        self.any_lane: dict[Expr, Expr] = {
            i.axis: lanes for i in launch.block if i.tag == WARP_INDEX
        }
        self.made: dict[tuple[int, ...], Piece] = {}
        self.collisions: dict[Hashable, bool] = {}

    def block(
        self,
        block: Block,
        loops: tuple[For, ...],
        tests: tuple[Expr, ...],
        before: tuple[Access, ...] = (),
    ) -> Piece:
        """Return the statements with barriers, given the accesses ``before`` them."""
        stmts: list[Stmt] = []
        head: list[Access] = []
        tail: list[Access] = []
        synced = False
        carried = list(before)
        for stmt in block.stmts:
            piece = self.piece(stmt, loops, tests)
            now = Between(self.launch, loops)
            later = Between(self.launch, loops[:-1], loops[-1:])
            if self.conflict(tail, piece.head, now) or self.conflict(carried, piece.head, later):
                stmts.append(Barrier())
                synced, tail, carried = True, [], []
            if not synced:
                head += piece.head
            stmts.append(piece.stmt)
            if piece.synced:
                synced, tail, carried = True, list(piece.tail), []
            else:
                tail += piece.tail
        return Piece(Block(tuple(stmts)), tuple(head), tuple(tail), synced)

    def piece(self, stmt: Stmt, loops: tuple[For, ...], tests: tuple[Expr, ...]) -> Piece:
        """Return a statement with its barriers, from a cache, as a loop visits its body twice."""
        key = (id(stmt), *map(id, loops), *map(id, tests))
        if key not in self.made:
            self.made[key] = self.placed(stmt, loops, tests)
        return self.made[key]

    def placed(self, stmt: Stmt, loops: tuple[For, ...], tests: tuple[Expr, ...]) -> Piece:
        if isinstance(stmt, Block):
            return self.block(stmt, loops, tests)
        if isinstance(stmt, For):
            return self.loop(stmt, loops, tests)
        if isinstance(stmt, Barrier):
            return Piece(stmt, (), (), synced=True)
        own = self.accesses([stmt], loops, tests)
        if isinstance(stmt, If):
            inner = (*tests, stmt.cond)
            if not uniform(stmt.cond, set(self.threads)):
                return self.divergent(stmt, own, loops, inner)
            body = self.block(stmt.body, loops, inner)
            assert isinstance(body.stmt, Block)
            # if the condition is false, no barrier is passed
            tail = (*own, *body.head, *body.tail) if body.synced else (*own, *body.tail)
            return Piece(replace(stmt, body=body.stmt), (*own, *body.head), tail)
        return Piece(stmt, own, own)

    def loop(self, loop: For, loops: tuple[For, ...], tests: tuple[Expr, ...]) -> Piece:
        inside, trim = (*loops, loop), trim_loop(loop)
        if not all(uniform(test.cond, set(self.threads)) for test in trim.tests):
            trim = Trimmed(0, loop.extent, loop.body)
        own = self.accesses([replace(loop, body=Block()), *trim.tests], loops, tests)
        tests = (*tests, *(test.cond for test in trim.tests))
        body = self.block(trim.body, inside, tests)
        again = self.block(trim.body, inside, tests, body.tail)
        # if each iteration passes a barrier, only the next one can conflict; else any other one
        between = (
            Between(self.launch, loops, (loop,))
            if again.synced
            else (Between(self.launch, loops, apart=loop))
        )
        assert isinstance(again.stmt, Block)
        if self.conflict(again.tail, again.head, between):
            again = Piece(Block((Barrier(), *again.stmt.stmts)), (), again.tail, True)
        assert isinstance(again.stmt, Block)
        runs = isinstance(loop.extent, int) and loop.extent > 0 and not trim.tests
        synced = again.synced and runs
        tail = again.tail if synced else (*again.head, *again.tail)
        placed_loop = replace(loop, body=within(trim.tests, again.stmt))
        return Piece(placed_loop, (*own, *again.head), (*own, *tail), synced)

    def divergent(
        self, stmt: If, own: tuple[Access, ...], loops: tuple[For, ...], tests: tuple[Expr, ...]
    ) -> Piece:
        body = self.block(stmt.body, loops, tests)
        if any(isinstance(s, Barrier) for s, _ in walk(body.stmt)):
            stages = sorted({a.stage for a in self.inner_accesses(stmt.body, loops, tests)})
            raise BuildError(
                explain(
                    f"building {self.launch.name} for a GPU",
                    f"stages {', '.join(stages)} share storage inside `if {stmt.cond}`, which only "
                    "some threads of a block enter, so the threads cannot synchronize there",
                    "Compute the producer outside that condition.",
                )
            )
        every = (*own, *self.inner_accesses(stmt.body, loops, tests))
        return Piece(stmt, every, every)

    def inner_accesses(
        self, body: Stmt, loops: tuple[For, ...], tests: tuple[Expr, ...]
    ) -> tuple[Access, ...]:
        inner: list[Access] = []
        for site in sites(body):
            conds = (guard.cond for guard in site.guards)
            inner += self.accesses([site.stmt], (*loops, *site.loops), (*tests, *conds))
        return tuple(inner)

    def accesses(
        self, stmts: Iterable[Stmt], loops: tuple[For, ...], tests: tuple[Expr, ...]
    ) -> tuple[Access, ...]:
        """Return the accesses of the statements to shared storage, without their bodies'."""
        own: list[Access] = []
        # the lanes of a warp load rows for each other
        together = any(map(loads_matrices, loops))
        loops = (*loops, self.warp) if together else loops
        for stmt in stmts:
            stage, atomic = getattr(stmt, "stage", ""), isinstance(stmt, Store) and stmt.atomic
            for a in accesses(stmt):
                # an atomic update is one access
                if a.buffer in self.shared and (a.stores or not (a.updates and atomic)):
                    alone = a.stores and atomic
                    at = a.indices
                    if together:
                        at = tuple(with_leaves(index, self.any_lane) for index in at)
                    own.append(
                        Access(a.buffer, at, a.stores, stage, loops, tests, self.launch, alone)
                    )
        return tuple(own)

    def conflict(self, first: Sequence[Access], second: Sequence[Access], between: Between) -> bool:
        """Return whether different threads may reach one element, by an access of each list."""
        return any(
            self.collide(a, b, between)
            for a in first
            for b in second
            if a.buffer is b.buffer and (a.writes or b.writes) and not (a.atomic and b.atomic)
        )

    def collide(self, a: Access, b: Access, between: Between) -> bool:
        """Return whether two accesses collide, from a cache, as a loop visits its body twice."""
        key = (a, b, between.same, between.moving, between.apart)
        if key not in self.collisions:
            self.collisions[key] = collide(a, b, between)
        return self.collisions[key]
