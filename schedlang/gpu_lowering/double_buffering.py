"""Double buffering: fetch the next tile while the current one is used.

A loop that fills a buffer and then reads it gets two copies of the buffer. The first tile is filled
before the loop. Each iteration fills the other copy for the next iteration; the elements wait in
registers until the current tile has been used. Source: TVM's ``inject_double_buffer``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.gpu_lowering.register_staging import stage_fills
from schedlang.index.linear import Lin, to_expr
from schedlang.index.simplify import to_lin
from schedlang.ir.accesses import accesses, read_buffers, written_buffers
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    If,
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


def with_two_copies(block: Block) -> Block:
    """Return ``block`` with its double buffers filled one iteration ahead."""
    doubled = {
        s.buffer: replace(with_rows(s.buffer, 2), double=False)
        for s, _ in walk(block)
        if isinstance(s, Alloc) and s.buffer.double
    }
    if not doubled:
        return block
    used: set[Buffer] = set()
    rewritten = _doubled(block, doubled, _uses(block), used)
    single = [b for b in doubled if b not in used]
    for buffer in single:
        # the tail of a cut loop is a single tile without a next one
        if not any(b.tensor is buffer.tensor for b in used):
            raise no_next_tile(buffer)
    rewritten = with_buffers(rewritten, {b: replace(b, double=False) for b in single})
    return _stored(rewritten, {b: c for b, c in doubled.items() if b in used})


def no_next_tile(buffer: Buffer) -> BuildError:
    """Return why ``buffer`` cannot have two copies."""
    return BuildError(
        explain(
            f"double_buffer() of {buffer.name}",
            f"no serial loop of a kernel fills and then reads {buffer.name}, so there is no next "
            "tile to load ahead",
            "Attach the stage at a serial loop of its consumer (compute_at), e.g. the outer loop "
            "of a split reduction axis, or leave out double_buffer.",
        )
    )


def _stored(block: Block, doubled: Mapping[Buffer, Buffer]) -> Block:
    """Return ``block`` with both copies allocated in front: the first fill precedes the loop."""

    def without(stmt: Stmt) -> Stmt:
        return Block() if isinstance(stmt, Alloc) and stmt.buffer in doubled else stmt

    rest = deep(block, without)
    assert isinstance(rest, Block)
    allocs = (s for s, _ in walk(block) if isinstance(s, Alloc) and s.buffer in doubled)
    copies = (Alloc(doubled[s.buffer], number=s.number) for s in allocs)
    return Block((*copies, *rest.stmts))


def _doubled(
    block: Block, doubled: Mapping[Buffer, Buffer], uses: Uses, used: set[Buffer]
) -> Block:
    """Return ``block`` with fills moved ahead; add the buffers with two copies to ``used``."""

    def change(stmt: Stmt) -> list[Stmt]:
        if isinstance(stmt, For):
            return _loop(stmt, doubled, uses, used)
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


def _fills(stmt: Stmt, doubled: Mapping[Buffer, Buffer]) -> set[Buffer]:
    """Return the double buffers that ``stmt`` writes; empty if it writes others too."""
    written = written_buffers(stmt)
    return written if written and written <= set(doubled) else set()


def _separate_fills(
    stmts: Sequence[Stmt], doubled: Mapping[Buffer, Buffer]
) -> tuple[list[Stmt], list[Stmt]]:
    """Separate the fills that depend on nothing else in the loop from the other statements."""
    fills: list[Stmt] = []
    rest: list[Stmt] = []
    # a fill one iteration ahead must not read what the other statements write
    written = {b for s in stmts if not _fills(s, doubled) for b in written_buffers(s)}
    touched: set[Buffer] = set()
    for stmt in stmts:
        filled = _fills(stmt, doubled)
        if filled and not filled & touched and written.isdisjoint(_uses(stmt)):
            fills.append(stmt)
            continue
        rest.append(stmt)
        written |= written_buffers(stmt)
        touched |= _uses(stmt).keys()
    return fills, rest


def _loop(loop: For, doubled: Mapping[Buffer, Buffer], uses: Uses, used: set[Buffer]) -> list[Stmt]:
    """Return the loop with its independent fills moved one iteration ahead."""
    trim = trim_loop(loop)
    fills, rest = _separate_fills(trim.body.stmts, doubled)
    filled = {b for s in fills for b in _fills(s, doubled)}
    inside = _uses(loop.body)
    later = read_buffers(Block((*rest, *fills)))
    # the buffer must be used in this loop only, and be read in it
    if not all(inside[b] == uses[b] and b in later for b in filled):
        filled = set()
    extent = to_lin(loop.extent)
    if loop.kind != "serial" or not filled or not rest or extent.const == 1:
        return [replace(loop, body=_doubled(loop.body, doubled, uses, used))]
    now = Lin.of(loop.axis)
    others = {b: d for b, d in doubled.items() if b not in filled}
    after = _doubled(Block(tuple(rest)), others, uses, used)
    used |= filled

    def at(iteration: Lin) -> dict[Buffer, Expr]:
        two = Const(2, "int64", True)
        odd = (
            to_expr(iteration)
            if iteration.const is not None
            else Binary("%", to_expr(iteration), two, "int64", True)
        )
        return dict.fromkeys(filled, odd)

    start, stop = to_lin(trim.start), to_lin(trim.stop)
    first: list[Stmt] = _filling(fills, loop.axis, start, doubled, at(start))
    ahead = _filling(fills, loop.axis, now + 1, doubled, at(now + 1))
    cond = Binary("<", to_expr(now + 1), to_expr(stop), "bool")
    if (stop - start).const is None:
        nonempty = Binary("<", to_expr(start), to_expr(stop), "bool")
        first = [If(nonempty, Block(tuple(first)), "there is a first tile", number=loop.number)]
    using = _with_copy_index(after, doubled, at(now))
    parts = stage_fills(ahead)
    last = (If(cond, parts.stores, NOTE, number=loop.number),) if parts.stores.stmts else ()
    body = Block((If(cond, parts.reads, NOTE, number=loop.number), using, *last))
    readers = {b: s.number for s, _ in walk(parts.reads) if isinstance(s, Store) for b in s.buffers}
    waiting = [Alloc(b, number=readers[b]) for b in parts.waiting]
    return [*waiting, *first, replace(loop, body=within(trim.tests, body))]


def _filling(
    stmts: Sequence[Stmt],
    axis: Axis,
    iteration: Lin,
    doubled: Mapping[Buffer, Buffer],
    rows: dict[Buffer, Expr],
) -> list[Stmt]:
    def plain(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        # simplify the indices, which have 0 in place of the loop variable
        return buffer, tuple(to_expr(to_lin(i)) for i in at)

    fills = [substitute(s, {axis: to_expr(iteration)}) for s in stmts]
    fills = [relocate(s, plain) for s in fills] if iteration.const is not None else fills
    return [_with_copy_index(s, doubled, rows) for s in fills]


def _with_copy_index(
    stmt: Stmt, doubled: Mapping[Buffer, Buffer], rows: dict[Buffer, Expr]
) -> Stmt:
    def moved_to(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        return (doubled[buffer], (rows[buffer], *at)) if buffer in rows else None

    return relocate(stmt, moved_to)
