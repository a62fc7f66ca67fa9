"""Arguments that may be one array, because each element is read before it is written."""

from __future__ import annotations

from schedlang.expr.visit import postorder
from schedlang.index.simplify import to_lin
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer, Load, Store, expressions, walk


def in_place_pairs(nest: Nest) -> frozenset[tuple[int, int]]:
    """Return positions (output, input) of arguments that may share memory exactly.

    An input may share an output's memory if both have one shape and dtype, and if only plain
    stores to that output read the input, each at the element that it stores.
    """
    pairs = set()
    for i, out in enumerate(nest.args):
        for k, given in enumerate(nest.args):
            if not isinstance(out, Buffer) or not isinstance(given, Buffer):
                continue
            if out in nest.outputs and given not in nest.outputs and _may_alias(nest, out, given):
                pairs.add((i, k))
    return frozenset(pairs)


def unaliased_arrays(nest: Nest) -> frozenset[Buffer]:
    """Return the arrays that share memory with no other array.

    An output and an input for which a caller may pass the same array are not among them.
    """
    shared = {position for pair in in_place_pairs(nest) for position in pair}
    arguments = {a: k in shared for k, a in enumerate(nest.args)}
    return frozenset(b for b in nest.buffers if not arguments.get(b, False))


def _may_alias(nest: Nest, out: Buffer, given: Buffer) -> bool:
    if out.dtype != given.dtype or len(out.shape) != len(given.shape):
        return False
    if any(to_lin(a) != to_lin(b) for a, b in zip(out.shape, given.shape)):
        return False
    stores = 0
    for stmt, _ in walk(nest.body):
        own = isinstance(stmt, Store) and stmt.buffers == (out,) and stmt.reducer is None
        if isinstance(stmt, Store) and out in stmt.buffers:
            stores += 1
            if not own:
                return False
        for node in postorder(expressions(stmt)):
            if not isinstance(node, Load):
                continue
            if node.buffer is out:
                return False
            if node.buffer is given:
                assert not own or isinstance(stmt, Store)
                if not own or not _same_at(node.indices, stmt.indices):  # type: ignore[union-attr]
                    return False
    return True


def _same_at(a: tuple, b: tuple) -> bool:
    return all(to_lin(x) == to_lin(y) for x, y in zip(a, b))
