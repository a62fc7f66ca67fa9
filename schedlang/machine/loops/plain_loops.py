"""Pragmas that help LLVM vectorize a nest without vectorized loops.

LLVM fully unrolls a loop of few, known iterations before its vectorizer runs, and the vectorizer
takes only loops. So a short loop that could be vectorized is kept rolled. Where a loop could be
vectorized, the source names the arrays that share no memory, so that no loop starts with a test for
overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis
from schedlang.expr.visit import postorder
from schedlang.index.linear import Lin
from schedlang.ir.accesses import accesses, loads
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Block,
    Buffer,
    For,
    If,
    Load,
    Stmt,
    Store,
    block_of,
    expressions,
    held_statements,
    walk,
    with_held,
)
from schedlang.ir.offsets import flat, lane_step
from schedlang.machine.loops.job import LoopJob
from schedlang.machine.loops.serpentine import turns_with
from schedlang.target import Target

# LLVM vectorizes no shorter loop if it must first test whether arrays overlap
FEWEST = 16
# LLVM fully unrolls no longer loop, since each body has at least a few instructions
MOST = 128
# LLVM fully unrolls inner loops of fewer instructions, so that the loop around becomes innermost
# measured with LLVM 22: windows of 8x9 products, but not of 9x9, and rows of 49, but not of 64
UNROLLED = 300
# the number of vectors per iteration, the best first: more gain nothing
AT_ONCE = (4, 2)
# pragmas: a loop that LLVM could vectorize, and one to keep rolled, with its vectors an iteration
VECTORIZABLE = "vectorizable"
ROLLED = "rolled"


def mark_plain_loops(body: Block, job: LoopJob) -> Block:
    """Return ``body`` with pragmas on the loops that LLVM can vectorize, if the nest is plain."""
    return block_of(_mark(body, job)) if is_plain(job.nest) else body


def _mark(stmt: Stmt, job: LoopJob) -> Stmt:
    marked = with_held(stmt, lambda inner: _mark(inner, job))
    if not isinstance(stmt, For) or not isinstance(marked, For):
        return marked
    pragmas = list(stmt.pragmas)
    plainly = could_be_vectorized(stmt)
    if plainly:
        pragmas.append((VECTORIZABLE, None))
    if is_short(stmt) and (plainly or could_be_vectorized(stmt, job.fastmath)):
        pragmas.append((ROLLED, vectors_at_once(stmt, job.target)))
    return marked if len(pragmas) == len(stmt.pragmas) else replace(marked, pragmas=tuple(pragmas))


def is_plain(nest: Nest) -> bool:
    """Return True if no loop of ``nest`` is vectorized by its schedule."""
    return not any(loop.kind == "vectorize" for loop in nest.loops)


def is_short(loop: For) -> bool:
    """Return True if LLVM would fully unroll ``loop``, although it is long enough for vectors."""
    return isinstance(loop.extent, int) and FEWEST <= loop.extent <= MOST


def vectors_at_once(loop: For, target: Target) -> int:
    """Return how many vectors an iteration of a rolled ``loop`` takes so that none is partial."""
    touched = (a.buffer.dtype for s, _ in walk(loop.body) for a in accesses(s))
    lanes = target.vector_width(min(touched, key=dtypes.itemsize))
    assert isinstance(loop.extent, int)
    return next((n for n in AT_ONCE if loop.extent % (n * lanes) == 0), 1)


def could_be_vectorized(loop: For, any_order: bool = False) -> bool:
    """Return True if ``loop`` is innermost, stores adjacent elements, and has no dependences.

    It is innermost if LLVM fully unrolls the loops inside it. ``any_order`` allows float sums in
    any order; integer sums may always be reordered. A loop that goes back and forth is left to
    itself.
    """
    if loop.kind != "serial" or loop.again is not None or turns_with(loop) is not None:
        return False
    inside = [stmt for stmt, _ in walk(loop.body)]
    if not all(isinstance(stmt, (For, If, Store)) for stmt in inside):
        return False
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    offsets = [[flat(b, s.indices) for b in s.buffers] for s in stores]
    adjacent = all(_adjacent(s, o, loop.axis, any_order) for s, o in zip(stores, offsets))
    if not stores or not adjacent or _unrolled(loop.body) is None:
        return False
    stored_at = {b: o for s, places in zip(stores, offsets) for b, o in zip(s.buffers, places)}
    return all(_independent(stmt, loop.axis, stored_at) for stmt in inside)


def _unrolled(stmt: Stmt) -> int | None:
    """Return the instructions of ``stmt`` after LLVM fully unrolled its loops; None if it does not.

    The count of a loop has one more in each iteration, for its variable.
    """
    if isinstance(stmt, Store):
        return _instructions(stmt)
    total = 0
    for inner in held_statements(stmt):
        each = _unrolled(inner)
        if each is None:
            return None
        total += each
    if not isinstance(stmt, For):
        return total
    if not isinstance(stmt.extent, int) or stmt.extent * (total + 1) >= UNROLLED:
        return None
    return stmt.extent * total


def _instructions(store: Store) -> int:
    """Return the loads and the operations of ``store``, without the index arithmetic."""
    nodes = postorder(store.values, {id(node) for node in loads(store.values)})
    counted = sum(isinstance(n, Load) or bool(n.children) and not n.weak for n in nodes)
    return counted + (store.reducer is not None)


def _adjacent(store: Store, offsets: Sequence[Lin], axis: Axis, any_order: bool) -> bool:
    """Return True if ``store`` writes adjacent elements, or adds to a sum in any order."""
    steps = {lane_step(offset, axis) for offset in offsets}
    if steps == {0} and store.reducer is not None:
        return any_order or all(dtypes.is_integer(b.dtype) for b in store.buffers)
    return steps == {1}


def _independent(stmt: Stmt, axis: Axis, written: Mapping[Buffer, Lin]) -> bool:
    """Return True if ``stmt`` reads only what its own iteration of ``axis`` writes.

    Its loads must have a constant step, and ``written`` are the offsets of the loop's stores.
    """
    for node in loads(expressions(stmt)):
        offset = flat(node.buffer, node.indices)
        if lane_step(offset, axis) is None:
            return False
        if node.buffer in written and offset != written[node.buffer]:
            return False
    return True
