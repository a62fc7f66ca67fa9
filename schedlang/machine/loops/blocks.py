"""Long unrolled loops in blocks: a loop over blocks of copies, and the copies of the remainder.

numba's compile time grows with the square of a function's length, and the jump after each of many
copies costs nothing.
"""

from __future__ import annotations

from dataclasses import replace

from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin, to_expr
from schedlang.ir.nodes import Alloc, Block, For, Stmt, block_of, walk, with_held
from schedlang.ir.rewrite import substitute
from schedlang.machine.loops.job import MOST_COPIES, LoopJob

# the copies that are written out one after the other
MOST_IN_A_ROW = 128
# the copies of a block
BLOCK = 64


def block_unrolls(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with each unrolled loop of more than ``MOST_IN_A_ROW`` copies in blocks.

    Loops with a reduction in or around them, or with storage in them, stay as they are: their
    copies may keep values in registers. So do loops of more than ``MOST_COPIES`` copies, which a
    later pass refuses.
    """
    return block_of(_blocked(body, 1)) if job.may_have("unroll") else body


def _blocked(stmt: Stmt, around: int) -> Stmt:
    """Return ``stmt`` with its loops in blocks; unrolled loops make ``around`` copies of it."""
    if isinstance(stmt, For):
        if stmt.axis.is_reduce or stmt.kind == "vectorize":
            return stmt
        if stmt.kind == "parallel":
            around = 1
        elif stmt.kind == "unroll" and isinstance(stmt.extent, int):
            copies = stmt.extent * _copies(stmt.body)
            if MOST_IN_A_ROW < around * copies <= MOST_COPIES and _only_stores(stmt):
                return _in_blocks(stmt, stmt.extent, max(1, BLOCK * stmt.extent // copies))
            around *= stmt.extent
    return with_held(stmt, lambda inner: _blocked(inner, around))


def _copies(body: Block) -> int:
    """Return the most copies that the unrolled loops of ``body`` make of a statement in it."""
    most = 1
    for stmt, _ in walk(body):
        if isinstance(stmt, For) and stmt.kind == "unroll" and isinstance(stmt.extent, int):
            most = max(most, stmt.extent * _copies(stmt.body))
    return most


def _only_stores(loop: For) -> bool:
    """Return whether ``loop`` is over data, with neither a reduction nor storage in it."""
    inside = [stmt for stmt, _ in walk(loop)]
    if any(isinstance(s, For) and s.axis.kind != "data" for s in inside):
        return False
    return not any(isinstance(s, Alloc) for s in inside)


def _in_blocks(loop: For, extent: int, length: int) -> Stmt:
    """Return an unrolled loop over ``extent`` as a loop over blocks of ``length``, and the rest.

    The loop over blocks has the axis of the unrolled loop, and so its name.
    """
    count, rest = divmod(extent, length)
    body = Block((_part(loop, length, Lin.of(loop.axis) * length),))
    loops: list[Stmt] = [replace(loop, extent=count, kind="serial", pragmas=(), body=body)]
    if rest:
        loops.append(_part(loop, rest, Lin.of(count * length)))
    return Block(tuple(loops))


def _part(loop: For, length: int, first: Lin) -> Stmt:
    """Return ``length`` iterations of an unrolled loop from ``first`` on."""
    axis = Axis(f"{loop.axis.name}.copy", length)
    at = first if length == 1 else first + Lin.of(axis)
    body = block_of(_blocked(substitute(loop.body, {loop.axis: to_expr(at)}), length))
    return body if length == 1 else replace(loop, axis=axis, extent=length, body=body)
