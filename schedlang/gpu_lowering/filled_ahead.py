"""Tiles that are filled ahead: the next ones arrive while the current one is used.

A loop that fills a buffer and then reads it gets several copies of the buffer. The first tiles are
filled before the loop, and each iteration fills the copy that was read last for a later one.

* In a *double buffer*, the elements wait in registers until the current tile has been used. Source:
  TVM's ``inject_double_buffer``.
* In a *pipeline*, copies are asynchronous. Each iteration commits a group of them, perhaps an empty
  one, and waits until the groups of its own tile are there. Source: NVIDIA, "PTX ISA",
  "Data Movement and Conversion Instructions: Asynchronous copy".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis, Binary, Expr
from schedlang.gpu_lowering.register_staging import stage_fills
from schedlang.index.linear import Lin, to_expr
from schedlang.index.ranges import Ranges
from schedlang.index.rules import mod
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import accesses, read_buffers, written_buffers
from schedlang.ir.nodes import (
    Alloc,
    Barrier,
    Block,
    Buffer,
    Commit,
    For,
    If,
    Load,
    Stmt,
    Store,
    walk,
)
from schedlang.ir.rewrite import (
    deep,
    relocate,
    replace_statements,
    substitute,
    with_buffers,
    with_each,
    with_rows,
)
from schedlang.ir.trimmed import trim_loop, within

# how often each buffer is read and written
Uses = dict[Buffer, int]

NOTE = "there is a next tile"


def with_copies(block: Block) -> Block:
    """Return ``block`` with the buffers that ask for copies filled ahead."""
    several = {
        s.buffer: replace(with_rows(s.buffer, s.buffer.copies), copies=1, asynchronous=False)
        for s, _ in walk(block)
        if isinstance(s, Alloc) and s.buffer.copies > 1
    }
    if not several:
        return block
    used: set[Buffer] = set()
    rewritten = _filled_ahead(block, several, _uses(block), used)
    single = [b for b in several if b not in used]
    for buffer in single:
        # the tail of a cut loop is a single tile without a next one
        if not any(b.tensor is buffer.tensor for b in used):
            raise no_next_tile(buffer)
    rewritten = with_buffers(
        rewritten, {b: replace(b, copies=1, asynchronous=False) for b in single}
    )
    return _stored(rewritten, {b: c for b, c in several.items() if b in used})


def no_next_tile(buffer: Buffer) -> BuildError:
    """Return why ``buffer`` cannot have several copies."""
    primitive = f"pipeline({buffer.copies})" if buffer.asynchronous else "double_buffer()"
    return BuildError(
        explain(
            f"{primitive} of {buffer.name}",
            f"no serial loop of a kernel fills and then reads {buffer.name}, so there is no next "
            "tile to load ahead",
            "Attach the stage at a serial loop of its consumer (compute_at), e.g. the outer loop "
            f"of a split reduction axis, or leave out {primitive.partition('(')[0]}.",
        )
    )


def _stored(block: Block, several: Mapping[Buffer, Buffer]) -> Block:
    """Return ``block`` with all copies allocated in front: the first fill precedes the loop."""

    def without(stmt: Stmt) -> Stmt:
        return Block() if isinstance(stmt, Alloc) and stmt.buffer in several else stmt

    rest = deep(block, without)
    assert isinstance(rest, Block)
    allocs = (s for s, _ in walk(block) if isinstance(s, Alloc) and s.buffer in several)
    copies = (Alloc(several[s.buffer], number=s.number) for s in allocs)
    return Block((*copies, *rest.stmts))


def _filled_ahead(
    block: Block, several: Mapping[Buffer, Buffer], uses: Uses, used: set[Buffer]
) -> Block:
    """Return ``block`` with fills moved ahead; add the buffers with copies to ``used``."""

    def change(stmt: Stmt) -> list[Stmt]:
        if isinstance(stmt, For):
            return _loop(stmt, several, uses, used)
        return [with_each(stmt, change)]

    return replace_statements(block, change)


def _uses(stmt: Stmt) -> Uses:
    """Count the reads and writes of each buffer in ``stmt``."""
    uses: Uses = {}
    for inside, _ in walk(stmt):
        for access in accesses(inside):
            # an update counts once
            if access.stores or not access.updates:
                uses[access.buffer] = uses.get(access.buffer, 0) + 1
    return uses


def _fills(stmt: Stmt, several: Mapping[Buffer, Buffer]) -> set[Buffer]:
    """Return the buffers with copies that ``stmt`` writes; empty if it writes others too."""
    written = written_buffers(stmt)
    return written if written and written <= set(several) else set()


def _separate_fills(
    stmts: Sequence[Stmt], several: Mapping[Buffer, Buffer]
) -> tuple[list[Stmt], list[Stmt]]:
    """Separate the fills that depend on nothing else in the loop from the other statements."""
    fills: list[Stmt] = []
    rest: list[Stmt] = []
    # a fill one iteration ahead must not read what the other statements write
    written = {b for s in stmts if not _fills(s, several) for b in written_buffers(s)}
    touched: set[Buffer] = set()
    for stmt in stmts:
        filled = _fills(stmt, several)
        if filled and not filled & touched and written.isdisjoint(_uses(stmt)):
            fills.append(stmt)
            continue
        rest.append(stmt)
        written |= written_buffers(stmt)
        touched |= _uses(stmt).keys()
    return fills, rest


def _loop(loop: For, several: Mapping[Buffer, Buffer], uses: Uses, used: set[Buffer]) -> list[Stmt]:
    """Return the loop with its independent fills moved ahead."""
    trim = trim_loop(loop)
    fills, rest = _separate_fills(trim.body.stmts, several)
    filled = {b for s in fills for b in _fills(s, several)}
    inside = _uses(loop.body)
    later = read_buffers(Block((*rest, *fills)))
    # the buffer must be used in this loop only, and be read in it
    if not all(inside[b] == uses[b] and b in later for b in filled):
        filled = set()
    extent = to_lin(loop.extent)
    if loop.kind != "serial" or not filled or not rest or extent.const == 1:
        return [replace(loop, body=_filled_ahead(loop.body, several, uses, used))]
    now = Lin.of(loop.axis)
    others = {b: d for b, d in several.items() if b not in filled}
    after = _filled_ahead(Block(tuple(rest)), others, uses, used)
    used |= filled

    start, stop = to_lin(trim.start), to_lin(trim.stop)
    job = _Ahead(loop, fills, several, filled, start, stop)
    using = _with_copy_index(after, several, job.rows(now))
    staged = [s for s in fills if not _is_asynchronous(s)]
    waiting, reads, stores = _through_registers(job, staged)
    first = job.first(staged, 0)
    before: list[Stmt] = []
    copied = [s for s in fills if _is_asynchronous(s)]
    if copied:
        stages = {s: min(b.copies for b in written_buffers(s)) for s in copied}
        for turn in range(max(stages.values()) - 1):
            early = [s for s in copied if turn < stages[s] - 1]
            first += [*job.first([_as_copies(s) for s in early], turn), Commit()]
        ahead = [s for c in copied for s in job.ahead([_as_copies(c)], stages[c] - 1)]
        # the barrier also says that all threads have read the copy that is filled now
        before = [Barrier(min(stages.values()) - 2), *ahead, Commit()]
    body = Block((*before, *reads, using, *stores))
    return [*waiting, *first, replace(loop, body=within(trim.tests, body))]


@dataclass(frozen=True, eq=False)
class _Ahead:
    """The fills of a loop from tile ``start`` to tile ``stop``."""

    loop: For
    fills: Sequence[Stmt]
    several: Mapping[Buffer, Buffer]
    filled: set[Buffer]
    start: Lin
    stop: Lin

    def rows(self, iteration: Lin) -> dict[Buffer, Expr]:
        """Return the copy of each buffer that an iteration reads."""
        return {b: to_expr(mod(iteration, Lin.of(b.copies), Ranges())) for b in self.filled}

    def first(self, fills: Sequence[Stmt], turn: int) -> list[Stmt]:
        """Return fills for an iteration before the loop, if there is such an iteration."""
        if not fills:
            return []
        at = self.start + turn
        stmts = _filling(fills, self.loop.axis, at, self.several, self.rows(at))
        count = (self.stop - self.start).const
        if count is not None and turn < count:
            return stmts
        cond = Binary("<", to_expr(at), to_expr(self.stop), "bool")
        note = NOTE if turn else "there is a first tile"
        return [If(cond, Block(tuple(stmts)), note, number=self.loop.number)]

    def ahead(self, fills: Sequence[Stmt], turns: int) -> list[Stmt]:
        """Return fills for a later iteration, if there is such an iteration."""
        at = Lin.of(self.loop.axis) + turns
        stmts = _filling(fills, self.loop.axis, at, self.several, self.rows(at))
        return [self.guarded(stmts, turns)]

    def guarded(self, stmts: Sequence[Stmt], turns: int) -> If:
        """Return statements under the test that there is a tile so many iterations later."""
        at = Lin.of(self.loop.axis) + turns
        cond = Binary("<", to_expr(at), to_expr(self.stop), "bool")
        return If(cond, Block(tuple(stmts)), NOTE, number=self.loop.number)


def _through_registers(
    job: _Ahead, fills: Sequence[Stmt]
) -> tuple[list[Stmt], list[Stmt], list[Stmt]]:
    """Return storage in registers, the reads of the next tile to there, and the stores."""
    if not fills:
        return [], [], []
    (ahead,) = job.ahead(fills, 1)
    assert isinstance(ahead, If)
    parts = stage_fills(ahead.body.stmts)
    readers = {b: s.number for s, _ in walk(parts.reads) if isinstance(s, Store) for b in s.buffers}
    waiting: list[Stmt] = [Alloc(b, number=readers[b]) for b in parts.waiting]
    stores: list[Stmt] = [job.guarded(parts.stores.stmts, 1)] if parts.stores.stmts else []
    return waiting, [job.guarded(parts.reads.stmts, 1)], stores


def _is_asynchronous(fill: Stmt) -> bool:
    return all(b.asynchronous for b in written_buffers(fill))


def _as_copies(fill: Stmt) -> Stmt:
    """Return a fill whose stores are asynchronous; refuse one that does more than copy."""

    def asynchronous(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store):
            return stmt
        for buffer, value in zip(stmt.buffers, stmt.values):
            source = value.buffer if isinstance(value, Load) else None
            if source is None or source.scope != "global" or buffer.scope != "shared":
                raise no_copy(buffer, source)
        return replace(stmt, asynchronous=True)

    return deep(fill, asynchronous)


def no_copy(buffer: Buffer, source: Buffer | None) -> BuildError:
    """Return why the hardware cannot copy ``source`` to ``buffer``."""
    asked = f"pipeline({buffer.copies}) of {buffer.name}"
    if buffer.scope != "shared":
        why = f"{buffer.name} is in {buffer.scope} memory, and asynchronous copies go to shared"
        return BuildError(explain(asked, why, 'Set its scope: set_scope("shared").'))
    if source is None:
        why = "its elements are computed, and the hardware can only copy them"
    else:
        why = (
            f"it copies {source.name} in {source.scope} memory, and such copies read global memory"
        )
    hint = "Choose a stage that copies an argument as it is (cache_read), or use double_buffer()."
    return BuildError(explain(asked, why, hint))


def _filling(
    stmts: Sequence[Stmt],
    axis: Axis,
    iteration: Lin,
    several: Mapping[Buffer, Buffer],
    rows: Mapping[Buffer, Expr],
) -> list[Stmt]:
    def plain(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        # simplify the indices, which have 0 in place of the loop variable
        return buffer, tuple(to_expr(to_lin(i)) for i in at)

    fills = [substitute(s, {axis: to_expr(iteration)}) for s in stmts]
    fills = [relocate(s, plain) for s in fills] if iteration.const is not None else fills
    return [_with_copy_index(s, several, rows) for s in fills]


def _with_copy_index(
    stmt: Stmt, several: Mapping[Buffer, Buffer], rows: Mapping[Buffer, Expr]
) -> Stmt:
    def moved_to(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        return (several[buffer], (rows[buffer], *at)) if buffer in rows else None

    return relocate(stmt, moved_to)
