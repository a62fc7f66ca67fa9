"""Strip-mining: a vectorized loop becomes vectors, or a loop over vectors and a remainder."""

from __future__ import annotations

from schedlang.errors import BuildError
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis
from schedlang.gpu_lowering.lanes import lanes_differ, strip_lanes
from schedlang.index.linear import Lin
from schedlang.ir.instructed import Instructed
from schedlang.ir.nodes import (
    Block,
    Buffer,
    Copy,
    For,
    Kept,
    Lanes,
    Stmt,
    Store,
    Strips,
    block_of,
    buffers_of,
    expressions,
    walk,
    with_held,
)
from schedlang.machine.loops.job import MOST_COPIES, LoopJob
from schedlang.target import Target

# the registers of a loop whose vectors stand one after the other
WRITTEN_OUT = 4
# the pragma of a loop that becomes a function
BECOMES_FUNCTION = "function"
Buffers = frozenset[Buffer]


def strip_mine(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with each vectorized loop as vectors of at most :func:`most_lanes` lanes.

    A remainder becomes vectors of 2**k lanes, since only those stay in registers. Raise
    :class:`~schedlang.errors.BuildError` for a vectorized loop inside of another.
    """
    if not job.may_have("vectorize"):
        return body
    return block_of(_strip_mine(body, job, frozenset(), None))


def becomes_lanes(loop: For, target: Target) -> bool:
    """Return whether ``loop`` becomes vectors, which may need one condition for all lanes."""
    return loop.kind == "vectorize" and (target.facts.vector_arithmetic or not lanes_differ(loop))


def most_lanes(loop: For, target: Target) -> int:
    """Return the most lanes of a vectorized loop that are one vector: all of an instruction."""
    if any(isinstance(v, Instructed) for s, _ in walk(loop.body) for v in expressions(s)):
        assert isinstance(loop.extent, int)
        return loop.extent
    if not target.facts.vector_arithmetic:
        return strip_lanes(loop)
    return register_lanes(loop, target) * target.facts.longest_vector


def register_lanes(loop: For, target: Target) -> int:
    """Return the lanes of a vectorized loop that one register holds, of its widest dtype."""
    buffer_dtypes = [b.dtype for s, _ in walk(loop.body) for b in buffers_of(s)]
    widest = max(buffer_dtypes, key=dtypes.itemsize, default="float32")
    return target.vector_width(widest)


def _strip_mine(stmt: Stmt, job: LoopJob, sums: Buffers, around: For | None) -> Stmt:
    """Return ``stmt`` with its vectorized loops as vectors.

    ``kept`` are the buffers whose sums stay in registers, and ``around`` is the vectorized loop
    around it.
    """
    if isinstance(stmt, Kept):
        sums = stmt.buffers
    if not isinstance(stmt, For) or not becomes_lanes(stmt, job.target):
        return with_held(stmt, lambda inner: _strip_mine(inner, job, sums, around))
    if around is not None:
        raise BuildError(
            f"stage {stmt.stage} vectorizes {stmt.axis.name} inside the vectorized loop "
            f"{around.axis.name}, and only one loop of a nest can be vectorized: unroll the other"
        )
    assert isinstance(stmt.extent, int)
    most = most_lanes(stmt, job.target)
    body = block_of(_strip_mine(stmt.body, job, sums, stmt))
    whole, rest = divmod(stmt.extent, most)
    strips: list[Stmt] = []
    short = most * (WRITTEN_OUT // job.target.facts.longest_vector)
    if stmt.extent <= short or _is_written_out(stmt, whole, job.target, sums):
        strips += [_lanes(stmt.axis, k * most, most, body) for k in range(whole)]
    else:
        start = Axis(stmt.axis.name, stmt.extent)
        vector = Lanes(stmt.axis, Lin.of(start), most, body)
        function = any(name == BECOMES_FUNCTION for name, _ in stmt.pragmas)
        inside = Block((vector,))
        strips.append(
            Strips(stmt.axis, start, whole * most, most, inside, stmt.stage, function, stmt.number)
        )
    first = whole * most
    while rest:
        count = 1 << (rest.bit_length() - 1)
        strips.append(_lanes(stmt.axis, first, count, body))
        first, rest = first + count, rest - count
    return Block(tuple(strips))


def _is_written_out(loop: For, vectors: int, target: Target, kept: Buffers) -> bool:
    """Return whether ``vectors`` stand one after the other, not in a loop.

    A loop over vectors cannot update sums that stay in registers: each vector's sums are registers
    of their own, with an offset that is known before the reduction loop. Vectors that only move
    memory are aligned, which the offset in a loop would not be known to be.
    """
    if not target.facts.vector_arithmetic and vectors <= MOST_COPIES:
        return True
    return any(isinstance(s, Store) and kept & set(s.buffers) for s, _ in walk(loop.body))


def _lanes(axis: Axis, first: int, count: int, body: Block) -> Stmt:
    return Copy(axis, first, body) if count == 1 else Lanes(axis, Lin.of(first), count, body)
