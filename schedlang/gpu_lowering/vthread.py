"""Virtual threads: their loops move inward, to the statements that differ between them.

Statements that are the same for all virtual threads, such as the fetch of a shared tile, run once.
Source: TVM's ``inject_virtual_thread``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.visit import postorder
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
    expressions,
    walk,
)
from schedlang.ir.rewrite import deep, relocated, with_rows


def without_vthreads(block: Block) -> Block:
    """Return ``block`` with virtual threads as unrolled loops around dependent statements."""
    made: list[Stmt] = []
    for stmt in block.stmts:
        if isinstance(stmt, Block):
            made += without_vthreads(stmt).stmts
        elif isinstance(stmt, For):
            body = without_vthreads(stmt.body)
            made += _spread(replace(stmt, body=body)) if stmt.kind == "vthread" else [
                replace(stmt, body=body)
            ]  # fmt: skip
        elif isinstance(stmt, If):
            made.append(replace(stmt, body=without_vthreads(stmt.body)))
        else:
            made.append(stmt)
    return Block(tuple(made))


def _spread(loop: For) -> list[Stmt]:
    """Return the loop's body, with the loop moved to the statements that differ."""
    if not isinstance(loop.extent, int):
        raise BuildError(
            explain(
                f'bind({loop.axis.name}, "vthread") on stage {loop.stage}',
                f"it has {loop.extent} iterations, which is known only at run time, and each "
                "virtual thread needs storage of its own",
                "Split it by a constant and bind the inner loop.",
            )
        )
    own = _differing(loop)
    numbers = {s.buffer: s.number for s, _ in walk(loop.body) if isinstance(s, Alloc)}
    # copies of a body may have buffers of one name, which keep their order
    ordered = sorted((b for b in numbers if b in own), key=lambda b: b.name)
    copies = {b: with_rows(b, loop.extent) for b in ordered}

    def moved_to(buffer: Buffer, at: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]] | None:
        return (copies[buffer], (loop.axis, *at)) if buffer in copies else None

    def without(stmt: Stmt) -> Stmt:
        return Block() if isinstance(stmt, Alloc) and stmt.buffer in copies else stmt

    body = deep(relocated(loop.body, moved_to), without)
    spreader = _Spreader(replace(loop, kind="unroll", body=Block()), frozenset(copies.values()))
    allocs = (Alloc(copy, number=numbers[b]) for b, copy in copies.items())
    return [*allocs, *spreader.stmts(body)]


def _differing(loop: For) -> set[Buffer]:
    """Return the buffers allocated inside whose contents differ between virtual threads."""
    inside = [s for s, _ in walk(loop.body)]
    made = {s.buffer for s in inside if isinstance(s, Alloc)}
    varying: set[Expr] = {loop.axis}
    own: set[Buffer] = set()
    before = -1
    while before != len(own):
        before = len(own)
        _add_varying(loop.body, made, own, varying, False)
    return own


def _add_varying(
    stmt: Stmt, made: set[Buffer], own: set[Buffer], varying: set[Expr], under: bool
) -> None:
    """Add to ``own`` the buffers to which ``stmt`` writes values that vary."""
    if isinstance(stmt, Block):
        for part in stmt.stmts:
            _add_varying(part, made, own, varying, under)
        return
    varies = under or _varies(expressions(stmt), own, varying)
    if isinstance(stmt, (For, If)):
        _add_varying(stmt.body, made, own, varying, varies)
    elif isinstance(stmt, Store) and varies:
        own |= made & set(stmt.buffers)
    elif isinstance(stmt, Exchange) and (varies or own & set(stmt.source)):
        own |= made & set(stmt.into)


def _varies(roots: tuple[Expr, ...], own: set[Buffer], varying: set[Expr]) -> bool:
    return any(
        n in varying or (isinstance(n, Load) and n.buffer in own)
        for n in postorder(roots)
        if isinstance(n, (Axis, Load))
    )


@dataclass(frozen=True, eq=False)
class _Spreader:
    """A pass that moves ``loop`` inward; ``copies`` have a row for each iteration."""

    loop: For
    copies: frozenset[Buffer]

    def stmts(self, stmt: Stmt) -> list[Stmt]:
        if isinstance(stmt, Block):
            return [x for s in stmt.stmts for x in self.stmts(s)]
        if isinstance(stmt, (For, If)) and not self.depends(expressions(stmt)):
            return [replace(stmt, body=Block(tuple(self.stmts(stmt.body))))]
        roots = expressions(stmt)
        if isinstance(stmt, (For, If)) or self.depends(roots) or self.writes(stmt):
            return [replace(self.loop, body=Block((stmt,)))]
        return [stmt]

    def depends(self, roots: tuple[Expr, ...]) -> bool:
        return any(n is self.loop.axis for n in postorder(roots))

    def writes(self, stmt: Stmt) -> bool:
        if isinstance(stmt, Exchange):
            return bool(self.copies & {*stmt.into, *stmt.source})
        return isinstance(stmt, Store) and bool(self.copies & set(stmt.buffers))


__all__ = ["without_vthreads"]
