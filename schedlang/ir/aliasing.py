"""Arguments that may be one array, because each element is read before it is written."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from schedlang.index.simplify import to_lin
from schedlang.instructions.declaration import MEMORY
from schedlang.ir.accesses import loads
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import (
    Block,
    Buffer,
    For,
    Load,
    Stmt,
    Store,
    expressions,
    walk,
    written_by,
)


@lru_cache(maxsize=8)
def in_place_pairs(nest: Nest, rewrites: bool = False) -> frozenset[tuple[int, int]]:
    """Return positions (output, input) of arguments that may share memory exactly.

    An input may share an output's memory if both have one shape and dtype, and if only plain
    stores to that output read the input, each at the element that it stores. The updates of a
    scatter come after these stores, so that a tensor may be updated in place. An input that is only
    copied to an output, before anything else uses the output, may share its memory as well, and
    no other one if the nest ``rewrites`` elements, like the loops of a function's source.
    """
    arrays = [(k, a) for k, a in enumerate(nest.args) if isinstance(a, Buffer)]
    pairs = [
        (out, source)
        for out in ([] if rewrites else arrays)
        for source in arrays
        if out[1] in nest.outputs and source[1] not in nest.outputs and _is_alike(out[1], source[1])
    ]
    if pairs:
        # the sums of a reduction are read again after the first store: most pairs end here
        reread = _updated(nest) | _written_by_functions(nest)
        pairs = [pair for pair in pairs if pair[0][1] not in reread]
    reads = [(s, loads(expressions(s))) for s, _ in walk(nest.body)] if pairs else []
    return _copied_first(nest, arrays) | frozenset(
        (i, k) for (i, out), (k, source) in pairs if _reads_in_place(reads, out, source)
    )


def _copied_first(
    nest: Nest, arrays: Sequence[tuple[int, Buffer]]
) -> frozenset[tuple[int, int]]:
    """Return the positions of outputs and inputs whose first and only use is one copy."""
    place = {array: k for k, array in arrays}
    pairs: set[tuple[int, int]] = set()
    used: set[Buffer] = set()
    for outer in nest.body.stmts:
        own = {b for s, _ in walk(Block((outer,))) for b in (*written_by(s), *_loaded(s))}
        out, source = _copy(outer)
        if out is not None and source is not None and not used & {out, source}:
            if out in nest.outputs and source in place and source not in nest.outputs:
                pairs.add((place[out], place[source]))
        else:
            pairs = {(i, k) for i, k in pairs if nest.args[k] not in own}
        used |= own
    return frozenset(pairs)


def _loaded(stmt: Stmt) -> list[Buffer]:
    return [load.buffer for load in loads(expressions(stmt))]


def _copy(stmt: Stmt) -> tuple[Buffer | None, Buffer | None]:
    """Return the target and the source of loops that copy an array element by element."""
    while isinstance(stmt, For) and len(stmt.body.stmts) == 1:
        (stmt,) = stmt.body.stmts
    if isinstance(stmt, Store) and _is_plain(stmt):
        (source,), (out,) = stmt.values, stmt.buffers
        if not isinstance(source, Load):
            return None, None
        if _same_at(source.indices, stmt.indices) and _is_alike(out, source.buffer):
            return out, source.buffer
    return None, None


def unaliased_arrays(nest: Nest) -> frozenset[Buffer]:
    """Return the arrays that share memory with no other array.

    An output and an input that may be the same array in a call are not among them.
    """
    shared = {position for pair in in_place_pairs(nest) for position in pair}
    arguments = {a: k in shared for k, a in enumerate(nest.args)}
    return frozenset(b for b in nest.buffers if not arguments.get(b, False))


def _is_alike(out: Buffer, given: Buffer) -> bool:
    """Return whether two arrays have one shape and dtype."""
    if out.dtype != given.dtype or len(out.shape) != len(given.shape):
        return False
    pairs = zip(out.shape, given.shape)
    return all(a == b if type(a) is type(b) is int else to_lin(a) == to_lin(b) for a, b in pairs)


def _updated(nest: Nest) -> set[Buffer]:
    """Return the buffers of stores that are neither plain nor a scatter's."""
    return {
        buffer
        for stmt, _ in walk(nest.body)
        if isinstance(stmt, Store) and not _is_plain(stmt) and not _is_update(stmt)
        for buffer in stmt.buffers
    }


def _written_by_functions(nest: Nest) -> set[Buffer]:
    """Return what instructions in memory write: in any order, and maybe before they read."""
    return {
        buffer
        for loop in nest.loops
        if loop.instruction is not None and MEMORY in loop.instruction.emit
        for stmt, _ in walk(loop.body)
        if isinstance(stmt, Store)
        for buffer in stmt.buffers
    }


def _is_plain(stmt: Store) -> bool:
    return len(stmt.buffers) == 1 and stmt.reducer is None


def _is_update(stmt: Store) -> bool:
    return len(stmt.buffers) == 1 and stmt.scatters


def _reads_in_place(reads: Sequence[tuple[Stmt, list[Load]]], out: Buffer, given: Buffer) -> bool:
    """Return whether plain stores to ``out`` alone read ``given``, where they store."""
    for stmt, elements in reads:
        own = isinstance(stmt, Store) and out in stmt.buffers and _is_plain(stmt)
        for load in elements:
            if load.buffer is out:
                return False
            if load.buffer is given:
                assert not own or isinstance(stmt, Store)
                if not own or not _same_at(load.indices, stmt.indices):  # type: ignore[union-attr]
                    return False
    return True


def _same_at(a: tuple, b: tuple) -> bool:
    return all(to_lin(x) == to_lin(y) for x, y in zip(a, b))
