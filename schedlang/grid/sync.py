"""Barriers: where a thread reads or writes what another one wrote or read in shared storage.

As few as are needed, and none where threads of a block may part ways: a conflict between two
statements puts one barrier ahead of the later one, as far out as both stand under the same loops.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd, prod
from typing import Any

import numpy as np

from schedlang.errors import BuildError, explain
from schedlang.expr.evaluate import evaluate
from schedlang.expr.linear import Lin, Mod, Product, to_expr
from schedlang.expr.nodes import Axis, Expr, Var
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
from schedlang.grid.program import Launch
from schedlang.grid.threads import uniform
from schedlang.ir.nodes import (
    Barrier,
    Block,
    Buffer,
    For,
    If,
    Load,
    Stmt,
    Store,
    expressions,
    walk,
)

# pairs of threads and elements that are tried, where no proof is short
MOST_TRIED = 2**21


@dataclass(frozen=True, eq=False)
class Access:
    """A read or write of storage that threads share, with the loops and tests around it."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool
    stage: str
    loops: tuple[For, ...]
    tests: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Piece:
    """A statement with its barriers: what it accesses before the first and after the last one.

    ``synced``: every way through it passes a barrier.
    """

    stmt: Stmt
    head: tuple[Access, ...]
    tail: tuple[Access, ...]
    synced: bool = False


def with_barriers(launch: Launch) -> Launch:
    """``launch`` with barriers between the accesses of different threads."""
    if launch.threads == 1:
        return launch
    placer = _Placer(launch)
    body = placer.block(launch.body, (), ()).stmt
    assert isinstance(body, Block)
    return replace(launch, body=body)


class _Placer:
    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.threads = {i.axis: int(i.extent) for i in launch.block}  # type: ignore[arg-type]
        written = {b for s, _ in walk(launch.body) if isinstance(s, Store) for b in s.buffers}
        self.shared = {b for b in written if b.scope != "local"}

    def block(self, block: Block, loops: tuple[For, ...], tests: tuple[Expr, ...],
              before: tuple[Access, ...] = ()) -> Piece:  # fmt: skip
        """The statements in order, after the accesses ``before`` of an iteration ahead."""
        made: list[Stmt] = []
        head: list[Access] = []
        tail: list[Access] = []
        synced = False
        carried = list(before)
        for stmt in block.stmts:
            piece = self.piece(stmt, loops, tests)
            apart = self.conflict(tail, piece.head, loops) or self.conflict(
                carried, piece.head, loops[:-1], loops[-1:]
            )
            if apart:
                made.append(Barrier())
                synced, tail, carried = True, [], []
            if not synced:
                head += piece.head
            made.append(piece.stmt)
            if piece.synced:
                synced, tail, carried = True, list(piece.tail), []
            else:
                tail += piece.tail
        return Piece(Block(tuple(made)), tuple(head), tuple(tail), synced)

    def piece(self, stmt: Stmt, loops: tuple[For, ...], tests: tuple[Expr, ...]) -> Piece:
        if isinstance(stmt, Block):
            return self.block(stmt, loops, tests)
        if isinstance(stmt, For):
            return self.loop(stmt, loops, tests)
        own = self.accesses([stmt], loops, tests)
        if isinstance(stmt, If):
            inner = (*tests, stmt.cond)
            if not uniform(stmt.cond, set(self.threads)):
                return self.divergent(stmt, own, loops, inner)
            body = self.block(stmt.body, loops, inner)
            assert isinstance(body.stmt, Block)
            # the way around the statement passes no barrier
            tail = (*own, *body.head, *body.tail) if body.synced else (*own, *body.tail)
            return Piece(replace(stmt, body=body.stmt), (*own, *body.head), tail)
        return Piece(stmt, own, own)

    def loop(self, loop: For, loops: tuple[For, ...], tests: tuple[Expr, ...]) -> Piece:
        inside = (*loops, loop)
        body = self.block(loop.body, inside, tests)
        again = self.block(loop.body, inside, tests, body.tail)
        assert isinstance(again.stmt, Block)
        if not again.synced and self.conflict(again.tail, again.head, loops, apart=loop):
            # iterations further apart collide
            again = Piece(Block((Barrier(), *again.stmt.stmts)), (), again.tail, True)
        assert isinstance(again.stmt, Block)
        own = self.accesses([replace(loop, body=Block())], loops, tests)
        runs = isinstance(loop.extent, int) and loop.extent > 0
        synced = again.synced and runs
        tail = again.tail if synced else (*again.head, *again.tail)
        return Piece(replace(loop, body=again.stmt), (*own, *again.head), (*own, *tail), synced)

    def divergent(
        self, stmt: If, own: tuple[Access, ...], loops: tuple[For, ...], tests: tuple[Expr, ...]
    ) -> Piece:
        body = self.block(stmt.body, loops, tests)
        if any(isinstance(s, Barrier) for s, _ in walk(body.stmt)):
            stages = sorted({a.stage for a in self.inner_accesses(stmt.body, loops, tests)})
            raise BuildError(
                explain(
                    f"building {self.launch.name} for CUDA",
                    f"stages {', '.join(stages)} share storage inside of `if {stmt.cond}`, which "
                    "some threads of a block enter and others do not, so that they cannot wait for "
                    "each other there",
                    "Compute the producer outside of that condition.",
                )
            )
        every = (*own, *self.inner_accesses(stmt.body, loops, tests))
        return Piece(stmt, every, every)

    def inner_accesses(
        self, body: Stmt, loops: tuple[For, ...], tests: tuple[Expr, ...]
    ) -> tuple[Access, ...]:
        found: list[Access] = []
        if isinstance(body, Block):
            for stmt in body.stmts:
                found += self.inner_accesses(stmt, loops, tests)
            return tuple(found)
        found += self.accesses([body], loops, tests)
        if isinstance(body, For):
            found += self.inner_accesses(body.body, (*loops, body), tests)
        elif isinstance(body, If):
            found += self.inner_accesses(body.body, loops, (*tests, body.cond))
        return tuple(found)

    def accesses(
        self, stmts: Iterable[Stmt], loops: tuple[For, ...], tests: tuple[Expr, ...]
    ) -> tuple[Access, ...]:
        """What the statements themselves read and write of shared storage."""
        found: list[Access] = []
        for stmt in stmts:
            stage = getattr(stmt, "stage", "")
            for node in postorder(expressions(stmt)):
                if isinstance(node, Load) and node.buffer in self.shared:
                    found.append(Access(node.buffer, node.indices, False, stage, loops, tests))
            if isinstance(stmt, Store):
                for buffer in stmt.buffers:
                    if buffer not in self.shared:
                        continue
                    if stmt.reducer is not None:
                        found.append(Access(buffer, stmt.indices, False, stage, loops, tests))
                    found.append(Access(buffer, stmt.indices, True, stage, loops, tests))
        return tuple(found)

    def conflict(
        self, first: Sequence[Access], second: Sequence[Access], same: Sequence[For],
        moving: Sequence[For] = (), apart: For | None = None,
    ) -> bool:  # fmt: skip
        """Whether different threads may reach one element by an access of each list.

        The loops ``same`` stand at one iteration for both; of ``moving`` the second is one ahead,
        and of ``apart`` they stand at different ones.
        """
        return any(
            self.collide(a, b, same, moving, apart)
            for a in first for b in second
            if a.buffer is b.buffer and (a.writes or b.writes)
        )  # fmt: skip

    def collide(
        self, a: Access, b: Access, same: Sequence[For], moving: Sequence[For], apart: For | None
    ) -> bool:
        step = {x.axis: Lin.of(x.axis) + 1 for x in moving}
        # how often a loop runs may be known at the call only
        uncounted = {x.axis for x in (*a.loops, *b.loops) if not isinstance(x.extent, int)}
        fixed = {x.axis for x in same} & uncounted
        free = {*self.threads, *(x.axis for x in (*a.loops, *b.loops))} - fixed
        left, right = _indices(a, {}), _indices(b, {})
        loose = free - {x.axis for x in (*same, *moving)}
        if any(_differ(x, y, loose) for x, y in zip(left, _indices(b, step))):
            return False
        if apart is not None and any(map(partial(_counts, apart.axis), left, right)):
            return False
        left, right = _without_alike(left, right, free)
        left, right = _bounded(left, right, uncounted - fixed)
        keys = [x for x in same if any(x.axis in e.leaves() for e in (*left, *right))]
        one, two = self.reached(a, left, keys), self.reached(b, right, keys)
        return one is None or two is None or _others(one, two)

    def reached(
        self, access: Access, indices: Sequence[Lin], together: Sequence[For]
    ) -> np.ndarray | None:
        """A column for each element and thread that reaches it: the indices, then the thread.

        Over all iterations; those of the loops ``together`` stand ahead of the indices. ``None``
        where that cannot be tried out.
        """
        roots = [to_expr(lin) for lin in indices]
        counted = [x for x in access.loops if isinstance(x.extent, int)]
        known = {*self.threads, *(x.axis for x in counted)}
        tests = [t for t in access.tests if all(n in known for n in _leaves(t))]
        used = {n for e in (*roots, *tests) for n in _leaves(e)}
        if not used <= known or any(x not in counted for x in together):
            return None
        loops = [x for x in counted if x.axis in used or x in together]
        counts = [*self.threads.values(), *(int(x.extent) for x in loops)]  # type: ignore[arg-type]
        if prod(counts) > MOST_TRIED:
            return None
        points = np.indices(counts).reshape(len(counts), -1)
        values = dict(zip([*self.threads, *(x.axis for x in loops)], points))
        rows = points[: len(self.threads)]
        number = np.ravel_multi_index(tuple(rows), tuple(self.threads.values()))
        keep = np.ones(points.shape[1], bool)
        with np.errstate(all="ignore"):
            for test in tests:
                keep &= np.broadcast_to(evaluate(test, values), keep.shape)
            at = [np.broadcast_to(evaluate(i, values), keep.shape) for i in roots]
        key = [values[x.axis] for x in together]
        return np.stack([*key, *at, number])[:, keep]


def _indices(access: Access, step: Mapping[Axis, Lin]) -> list[Lin]:
    return [to_lin(index, dict(step)) for index in access.indices]


def _without_alike(
    left: Sequence[Lin], right: Sequence[Lin], free: Container[Expr]
) -> tuple[list[Lin], list[Lin]]:
    """Indices that are equal where those of ``left`` and ``right`` are, without some terms.

    What depends on nothing ``free`` is one number for both: on the block, on sizes, on loops of the
    host. A dimension in which it stands on one side alone tells nothing, and is left out.
    """
    one, two = [], []
    for x, y in zip(left, right):
        first, second = (
            Lin({p: c for p, c in lin.terms.items() if p and _alike(p, free)}) for lin in (x, y)
        )
        if first == second:
            one.append(x - first)
            two.append(y - second)
    return one, two


def _alike(product: Product, free: Container[Expr]) -> bool:
    return all(isinstance(n, (Axis, Var)) and n not in free for n in _of(product))


def _of(product: Product) -> Iterable[Any]:
    return Lin({product: 1}).leaves()


def _counts(axis: Axis, x: Lin, y: Lin) -> bool:
    """Whether two indices are the same multiple of ``axis``: other iterations, other elements."""
    terms = [p for p in x.terms if p]
    return (x - y).const == 0 and terms == [(axis,)]


def _bounded(
    left: Sequence[Lin], right: Sequence[Lin], uncounted: set[Axis]
) -> tuple[list[Lin], list[Lin]]:
    """Indices that are equal where those of ``left`` and ``right`` are, without some loops.

    ``c*i + x`` and ``c*j + y`` are equal only where ``x`` and ``y`` leave one remainder modulo
    ``c``. Dimensions that cannot be put so tell nothing, and are left out.
    """
    one, two = [], []
    for x, y in zip(left, right):
        steps = [
            (p, c) for lin in (x, y) for p, c in lin.terms.items()
            if any(map(uncounted.__contains__, _of(p)))
        ]  # fmt: skip
        if not steps:
            one.append(x)
            two.append(y)
            continue
        size = gcd(*(c for _, c in steps))
        if size == 1 or not all(len(p) == 1 and isinstance(p[0], Axis) for p, _ in steps):
            continue
        for lin, made in ((x, one), (y, two)):
            rest = {p: c for p, c in lin.terms.items() if not uncounted & set(_of(p))}
            made.append(Lin.of(Mod(Lin(rest), Lin.of(size))))
    return one, two


def _leaves(root: Expr) -> list[Expr]:
    return [n for n in postorder([root]) if isinstance(n, (Axis, Load, Var))]


def _differ(x: Lin, y: Lin, loose: Container[Expr]) -> bool:
    """Whether two indices are never equal, all but the loops and threads ``loose`` the same."""
    if not all(_alike(p, loose) for p in (*x.terms, *y.terms)):
        return False
    apart = (x - y).const
    if apart is not None:
        return apart != 0
    one, other = _remainder(x), _remainder(y)
    if one is None or other is None or one.den != other.den:
        return False
    gap, size = (one.num - other.num).const, one.den.const
    return gap is not None and size is not None and gap % size != 0


def _remainder(lin: Lin) -> Mod | None:
    """The remainder that ``lin`` is, if it is one and nothing else."""
    if len(lin.terms) != 1:
        return None
    ((product, coef),) = lin.terms.items()
    single = len(product) == 1 and coef == 1 and isinstance(product[0], Mod)
    return product[0] if single else None  # type: ignore[return-value]


def _others(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether an element has two different threads, one in each list."""
    count = a.shape[1]
    if not count or not b.shape[1]:
        return False
    element = np.zeros(count + b.shape[1], np.int64)
    for row in np.concatenate([a[:-1], b[:-1]], axis=1):
        least = row.min()
        element = element * (row.max() - least + 1) + (row - least)
    _, element = np.unique(element, return_inverse=True)
    size = int(element.max()) + 1
    ends = []
    for at, rows in ((element[:count], a), (element[count:], b)):
        least, most = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
        np.minimum.at(least, at, rows[-1])
        np.maximum.at(most, at, rows[-1])
        ends.append((least, most))
    (low, high), (least, most) = ends
    shared = (high >= 0) & (most >= 0)
    return bool((shared & ((low != least) | (high != most) | (low != high))).any())
