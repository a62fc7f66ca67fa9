"""Double buffers: the next tile is fetched while the present one is used.

A loop that fills a buffer and then reads it gets two copies of it. The first tile is filled ahead
of the loop; each iteration fills the other copy for the one after it. Source: TVM's
``inject_double_buffer``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedlang.errors import BuildError, explain
from schedlang.expr.linear import Lin, to_expr
from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import (
    Alloc,
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
from schedlang.ir.rewrite import deep, moved, substituted

NOTE = "there is a next tile"


def with_two_copies(block: Block) -> Block:
    """``block`` with its double buffers filled one iteration ahead."""
    doubled = {
        s.buffer: replace(s.buffer, shape=(2, *s.buffer.shape), strides=_strides(s.buffer),
                          double=False)
        for s, _ in walk(block) if isinstance(s, Alloc) and s.buffer.double
    }  # fmt: skip
    if not doubled:
        return block
    uses = _uses(block)
    made, used = _block(block, doubled, uses)
    for buffer in doubled:
        if buffer not in used:
            raise BuildError(
                explain(
                    f"double_buffer on the storage {buffer.name}",
                    "no serial loop fills it first and uses it then, so that there is no next tile "
                    "to fetch ahead",
                    "Attach the stage at a serial loop of its consumer (compute_at), one that is "
                    "split off the reduction for example, or leave double_buffer out.",
                )
            )
    return _stored(made, doubled)


def _strides(buffer: Buffer) -> tuple[int, ...] | None:
    if buffer.strides is None:
        return None
    rows = buffer.shape[0]
    assert isinstance(rows, int)
    return (buffer.strides[0] * rows, *buffer.strides)


def _stored(block: Block, doubled: dict[Buffer, Buffer]) -> Block:
    """``block`` with storage for both copies."""

    def change(stmt: Stmt) -> Stmt:
        if isinstance(stmt, Alloc):
            return replace(stmt, buffer=doubled.get(stmt.buffer, stmt.buffer))
        return stmt

    made = deep(block, change)
    assert isinstance(made, Block)
    return made


def _block(
    block: Block, doubled: dict[Buffer, Buffer], uses: dict[Buffer, int]
) -> tuple[Block, set[Buffer]]:
    made: list[Stmt] = []
    used: set[Buffer] = set()
    for stmt in block.stmts:
        if isinstance(stmt, Block):
            part, more = _block(stmt, doubled, uses)
            made += part.stmts
            used |= more
        elif isinstance(stmt, For):
            stmts, more = _loop(stmt, doubled, uses)
            made += stmts
            used |= more
        elif isinstance(stmt, If):
            part, more = _block(stmt.body, doubled, uses)
            made.append(replace(stmt, body=part))
            used |= more
        else:
            made.append(stmt)
    return Block(tuple(made)), used


def _uses(stmt: Stmt) -> dict[Buffer, int]:
    """How often each buffer is read or written in ``stmt``."""
    found: dict[Buffer, int] = {}
    for inside, _ in walk(stmt):
        buffers = list(inside.buffers) if isinstance(inside, Store) else []
        nodes = postorder(expressions(inside))
        for buffer in (*buffers, *(n.buffer for n in nodes if isinstance(n, Load))):
            found[buffer] = found.get(buffer, 0) + 1
    return found


def _fills(stmt: Stmt, doubled: dict[Buffer, Buffer]) -> set[Buffer]:
    """The double buffers that are all that ``stmt`` writes; empty if it writes others too."""
    written = {b for s, _ in walk(stmt) if isinstance(s, Store) for b in s.buffers}
    return written if written and written <= set(doubled) else set()


def _loop(
    loop: For, doubled: dict[Buffer, Buffer], uses: dict[Buffer, int]
) -> tuple[list[Stmt], set[Buffer]]:
    """The loop with its leading fills one iteration ahead, if it starts with any."""
    stmts = list(loop.body.stmts)
    count = 0
    while count < len(stmts) and _fills(stmts[count], doubled):
        count += 1
    filled = {b for s in stmts[:count] for b in _fills(s, doubled)}
    inside, later = _uses(loop.body), _uses(Block(tuple(stmts[count:])))
    # nothing outside of the loop knows the buffer, and what follows the fill reads it
    if not all(inside[b] == uses[b] and later.get(b) for b in filled):
        filled = set()
    extent = to_lin(loop.extent)
    if loop.kind != "serial" or not filled or count == len(stmts) or extent.const == 1:
        body, used = _block(loop.body, doubled, uses)
        return [replace(loop, body=body)], used
    now = Lin.of(loop.axis)
    others = {b: d for b, d in doubled.items() if b not in filled}
    rest, more = _block(Block(tuple(stmts[count:])), others, uses)

    def at(turn: Lin) -> dict[Buffer, Expr]:
        two = Const(2, "int64", True)
        odd = (
            to_expr(turn)
            if turn.const is not None
            else Binary("%", to_expr(turn), two, "int64", True)
        )
        return dict.fromkeys(filled, odd)

    first = _filling(stmts[:count], loop.axis, Lin.of(0), doubled, at(Lin.of(0)))
    ahead = _filling(stmts[:count], loop.axis, now + 1, doubled, at(now + 1))
    cond = Binary("<", to_expr(now + 1), to_expr(extent), "bool")
    using = _turned(rest, doubled, at(now))
    body = Block((If(cond, Block(tuple(ahead)), NOTE), using))
    return [*first, replace(loop, body=body)], filled | more


def _filling(
    stmts: Sequence[Stmt], axis: Axis, turn: Lin, doubled: dict[Buffer, Buffer],
    rows: dict[Buffer, Expr],
) -> list[Stmt]:  # fmt: skip
    made = [substituted(s, {axis: to_expr(turn)}) for s in stmts]
    return [_turned(s, doubled, rows) for s in made]


def _turned(stmt: Stmt, doubled: dict[Buffer, Buffer], rows: dict[Buffer, Expr]) -> Stmt:
    def spot(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        return (doubled[buffer], (rows[buffer], *at)) if buffer in rows else None

    return moved(stmt, spot)


__all__ = ["with_two_copies"]
