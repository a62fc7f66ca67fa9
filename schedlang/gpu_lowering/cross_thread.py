"""Cross-thread reductions: each thread reduces its part, then the threads combine the parts.

Adjacent threads combine in registers by a butterfly of warp exchanges. Other threads combine by a
tree in shared memory. Source: M. Harris, Optimizing Parallel Reduction in CUDA (2007).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedlang.compute.reducer import Reducer
from schedlang.expr.nodes import Axis, Binary, Const, Expr, Select
from schedlang.expr.visit import postorder
from schedlang.index.linear import ZERO, Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    Exchange,
    For,
    If,
    Load,
    Stmt,
    Store,
    held_statements,
    walk,
)
from schedlang.ir.printer import expr_text

WARP = 32


def crosses(stmt: Stmt) -> bool:
    """Return whether ``stmt`` is a reduction loop that is spread across threads."""
    if not isinstance(stmt, For) or not stmt.axis.is_reduce:
        return False
    own = [s for s, _ in walk(stmt) if isinstance(s, (For, Store)) and s.stage == stmt.stage]
    # a scatter's threads update elements of their own, or atomically
    adds = any(isinstance(s, Store) and not s.scatters for s in own)
    return adds and any(isinstance(s, For) and s.kind == "thread" and s.axis.is_reduce for s in own)


@dataclass(frozen=True, eq=False)
class Team:
    """The threads that reduce one element: thread ``rank`` of ``count`` in team number ``team``."""

    count: int
    rank: Lin
    team: Lin
    teams: int
    adjacent: bool


def team_of(tags: set[str], loops: Mapping[str, For]) -> Team:
    """Return the team over the thread loops ``tags``; the other thread loops number the teams."""
    threads = {tag: loop for tag, loop in loops.items() if tag.startswith("threadIdx")}
    rank, team, count, teams, adjacent = ZERO, ZERO, 1, 1, True
    for tag in sorted(threads):
        extent = int(threads[tag].extent)
        var = Lin.of(threads[tag].axis)
        if tag in tags:
            adjacent = adjacent and teams == 1
            rank, count = rank + var * count, count * extent
        else:
            team, teams = team + var * teams, teams * extent
    return Team(count, rank, team, teams, adjacent)


@dataclass(frozen=True, eq=False)
class Parts:
    """The partial results of one thread, with ``loops`` over the elements that it reduces.

    ``whole`` is false if different updates in the region write different elements.
    """

    store: Store
    loops: tuple[For, ...]
    local: tuple[Buffer, ...]
    whole: bool = True

    @property
    def at(self) -> tuple[Expr, ...]:
        return tuple(loop.axis for loop in self.loops)

    def each(self, stmts: Sequence[Stmt]) -> Stmt:
        """Return ``stmts`` inside the loops over the elements."""
        body = Block(tuple(stmts))
        for loop in reversed(self.loops):
            body = Block((replace(loop, body=body),))
        return body.stmts[0] if len(body.stmts) == 1 else body

    def starting(self) -> list[Stmt]:
        """Return the storage of the partial results, initialized to the identity."""
        reducer = self.store.reducer
        assert reducer is not None
        zero = self.made(self.local, self.at, reducer.identity)
        return [*self.storage(self.local), self.each([zero])]

    def storage(self, buffers: Sequence[Buffer]) -> list[Alloc]:
        """Return the allocations of ``buffers``."""
        return [Alloc(b, number=self.store.number) for b in buffers]

    def made(
        self,
        buffers: tuple[Buffer, ...],
        at: tuple[Expr, ...],
        values: tuple[Expr, ...],
        reducer: Reducer | None = None,
    ) -> Store:
        """Return a store of partial results."""
        stage, number = self.store.stage, self.store.number
        return Store(buffers, at, values, reducer, stage, number=number)

    def update(self, store: Store) -> Store:
        """Return ``store`` as an update of the partial result instead of the element."""
        return replace(store, buffers=self.local, indices=self.at)


def parts_of(region: For) -> Parts:
    """Return the partial results of the updates in ``region``."""
    stage = region.stage
    stores = [s for s, _ in walk(region) if isinstance(s, Store) and s.stage == stage]
    first = stores[0]
    data = [s for s, _ in walk(region) if isinstance(s, For) and s.stage == stage]
    used = {n for i in first.indices for n in postorder([i]) if isinstance(n, Axis)}
    loops: dict[Axis, For] = {}
    for loop in data:
        if loop.axis in used and loop.kind != "thread":
            loops.setdefault(loop.axis, loop)
    result_loops = tuple(
        replace(x, kind="unroll" if x.kind == "unroll" else "serial") for x in loops.values()
    )
    shape = tuple(x.extent for x in result_loops)
    local = tuple(Buffer(f"{b.name}.part", b.dtype, shape, "local") for b in first.buffers)
    at = [tuple(map(to_lin, s.indices)) for s in stores]
    return Parts(first, result_loops, local, all(one == at[0] for one in at))


def combine(parts: Parts, team: Team) -> tuple[list[Alloc], list[Stmt], tuple[Load, ...]]:
    """Return shared storage, the combining statements, and loads of the results."""
    if team.adjacent and team.count <= WARP and team.count & (team.count - 1) == 0:
        return [], _butterfly(parts, parts.local, team.count), _loads(parts.local, parts.at)
    if team.adjacent and team.count % WARP == 0:
        return _by_warps(parts, team)
    return _tree(parts, team)


def _loads(buffers: Sequence[Buffer], at: tuple[Expr, ...]) -> tuple[Load, ...]:
    return tuple(Load(b, at, b.dtype) for b in buffers)


def _butterfly(parts: Parts, local: Sequence[Buffer], count: int) -> list[Stmt]:
    """Return exchanges after which each of ``count`` adjacent threads has the combined value."""
    other = tuple(replace(b, name=b.name.replace(".part", ".other")) for b in local)
    stmts: list[Stmt] = [*parts.storage(other)] if count > 1 else []
    number = parts.store.number
    distance = count // 2
    while distance:
        update = replace(
            parts.store, buffers=tuple(local), indices=parts.at, values=_loads(other, parts.at)
        )
        exchange = Exchange(other, tuple(local), parts.at, distance, number)
        stmts.append(parts.each([exchange, update]))
        distance //= 2
    return stmts


def _shared(parts: Parts, teams: int, count: int) -> tuple[Buffer, ...]:
    shape = (*(x.extent for x in parts.loops), teams, count)
    return tuple(Buffer(f"{b.name}.parts", b.dtype, shape, "shared") for b in parts.store.buffers)


def _by_warps(parts: Parts, team: Team) -> tuple[list[Alloc], list[Stmt], tuple[Load, ...]]:
    """Combine by a butterfly in each warp, then by a butterfly over the warps' results."""
    warps = team.count // WARP
    shared = _shared(parts, team.teams, warps)
    rank, row = to_expr(team.rank), to_expr(team.team)
    size = Const(WARP, "int64", True)
    warp = Binary("//", rank, size, "int64", True)
    first = Binary("==", Binary("%", rank, size, "int64", True), Const(0, "int64", True), "bool")
    store_of_warp = parts.made(shared, (*parts.at, row, warp), _loads(parts.local, parts.at))
    reducer = parts.store.reducer
    assert reducer is not None
    inside = Binary("<", rank, Const(warps, "int64", True), "bool")
    results_of_warps = tuple(
        Select(inside, load, zero, b.dtype, True)
        for b, load, zero in zip(
            parts.local, _loads(shared, (*parts.at, row, rank)), reducer.identity
        )
    )
    get = parts.made(parts.local, parts.at, results_of_warps)
    one = If(first, Block((store_of_warp,)), "one thread of each warp", number=parts.store.number)
    reach = 1 << (warps - 1).bit_length()
    stmts = [
        *_butterfly(parts, parts.local, WARP),
        parts.each([one]),
        parts.each([get]),
        *_butterfly(parts, parts.local, reach),
    ]
    return parts.storage(shared), stmts, _loads(parts.local, parts.at)


def _tree(parts: Parts, team: Team) -> tuple[list[Alloc], list[Stmt], tuple[Load, ...]]:
    """Combine in shared memory, halving the number of partial results in each step."""
    shared = _shared(parts, team.teams, team.count)
    rank, row = to_expr(team.rank), to_expr(team.team)
    here = (*parts.at, row, rank)
    stmts: list[Stmt] = [parts.each([parts.made(shared, here, _loads(parts.local, parts.at))])]
    step = 1 << max(0, (team.count - 1).bit_length() - 1)
    left = team.count
    while step and left > 1:
        there = (*parts.at, row, to_expr(team.rank + step))
        update = parts.made(shared, here, _loads(shared, there), parts.store.reducer)
        cond = Binary("<", rank, Const(left - step, "int64", True), "bool")
        half = If(cond, Block((update,)), "halves onto halves", number=update.number)
        stmts.append(parts.each([half]))
        left, step = step, step // 2
    zero = (*parts.at, row, Const(0, "int64", True))
    return parts.storage(shared), stmts, _loads(shared, zero)


def is_start(stmt: Stmt, store: Store, guards: Sequence[If]) -> bool:
    """Return whether ``stmt`` only initializes the elements that ``store`` updates.

    All of ``guards``, which are around the store of the results, must be around the initialization
    too. Then that store writes every initialized element, and can replace the initialization.
    """
    conds: list[str] = []
    while len(inside := held_statements(stmt)) == 1:
        if isinstance(stmt, If):
            conds.append(expr_text(stmt.cond, {}))
        (stmt,) = inside
    assert store.reducer is not None
    return (
        isinstance(stmt, Store)
        and stmt.reducer is None
        and stmt.stage == store.stage
        and stmt.buffers == store.buffers
        and all(expr_text(g.cond, {}) in conds for g in guards)
        and all(
            isinstance(v, Const) and v.value == z.value
            for v, z in zip(stmt.values, store.reducer.identity)
        )
    )
