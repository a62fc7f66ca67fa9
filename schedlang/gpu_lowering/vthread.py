"""Virtual threads: their loops move inward, to the statements that differ between them.

Statements that are the same for all virtual threads, such as the fetch of a shared tile, run once.
Source: TVM's ``inject_virtual_thread``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedlang.errors import BuildError, explain
from schedlang.expr.nodes import Expr
from schedlang.expr.visit import postorder
from schedlang.ir.accesses import contexts
from schedlang.ir.nodes import (
    Alloc,
    Block,
    Buffer,
    For,
    Load,
    Stmt,
    buffers_of,
    expressions,
    read_by,
    walk,
    written_by,
)
from schedlang.ir.rewrite import deep, relocate, replace_statements, storage, with_each, with_rows


def without_vthreads(block: Block) -> Block:
    """Return ``block`` with virtual threads as unrolled loops around dependent statements."""
    return replace_statements(block, _without)


def _without(stmt: Stmt) -> list[Stmt]:
    rewritten = with_each(stmt, _without)
    return (
        _spread(rewritten)
        if isinstance(rewritten, For) and rewritten.kind == "vthread"
        else [rewritten]
    )


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

    body = deep(relocate(loop.body, moved_to), without)
    spreader = _Spreader(replace(loop, kind="unroll", body=Block()), frozenset(copies.values()))
    allocs = (Alloc(copy, number=numbers[b]) for b, copy in copies.items())
    return [*allocs, *replace_statements(body, spreader.stmts).stmts]


def _differing(loop: For) -> set[Buffer]:
    """Return the buffers allocated inside whose contents differ between virtual threads."""
    own_storage, own = set(storage(loop.body)), set[Buffer]()

    def varies(stmt: Stmt, under: bool) -> bool:
        return (
            under
            or not own.isdisjoint(read_by(stmt))
            or any(
                n is loop.axis or (isinstance(n, Load) and n.buffer in own)
                for n in postorder(expressions(stmt))
            )
        )

    before = -1
    while before != len(own):
        before = len(own)
        for stmt, under in contexts(loop.body, False, varies):
            stored = own_storage.intersection(written_by(stmt))
            if stored and varies(stmt, under):
                own |= stored
    return own


@dataclass(frozen=True, eq=False)
class _Spreader:
    """A pass that moves ``loop`` inward; ``copies`` have a row for each iteration."""

    loop: For
    copies: frozenset[Buffer]

    def stmts(self, stmt: Stmt) -> list[Stmt]:
        # the loops of an instruction stay together
        whole = isinstance(stmt, For) and stmt.instruction is not None
        if any(map(self._differs, (s for s, _ in walk(stmt)) if whole else [stmt])):
            return [replace(self.loop, body=Block((stmt,)))]
        return [with_each(stmt, self.stmts)]

    def _differs(self, stmt: Stmt) -> bool:
        """Return whether a statement itself is another one in each iteration."""
        own = not self.copies.isdisjoint(buffers_of(stmt))
        return own or any(n is self.loop.axis for n in postorder(expressions(stmt)))
