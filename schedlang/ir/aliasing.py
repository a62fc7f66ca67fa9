"""Which outputs may be the same array as an input: where every element is read before written."""

from __future__ import annotations

from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Buffer, Load, Store, expressions, walk


def in_place_pairs(nest: Nest) -> frozenset[tuple[int, int]]:
    """Return positions (output, input) of arguments that may share memory exactly.

    Safe is an input of the output's shape and dtype that is read only by plain stores to that
    output, at the element they store.
    """
    pairs = set()
    for i, out in enumerate(nest.args):
        for k, given in enumerate(nest.args):
            if not isinstance(out, Buffer) or not isinstance(given, Buffer):
                continue
            if out in nest.outputs and given not in nest.outputs and _safe(nest, out, given):
                pairs.add((i, k))
    return frozenset(pairs)


def _safe(nest: Nest, out: Buffer, given: Buffer) -> bool:
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
                if not own or not _same(node.indices, stmt.indices):  # type: ignore[union-attr]
                    return False
    return True


def _same(a: tuple, b: tuple) -> bool:
    return all(to_lin(x) == to_lin(y) for x, y in zip(a, b))
