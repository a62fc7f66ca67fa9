"""What the compiler is told of nests without vectors of their own, so that it makes them.

LLVM unrolls a loop of few, known iterations whole before its vectorizer, which takes loops alone,
comes by; what is left stays scalar. A loop that could be vectorized is kept as one. Arrays that
share no memory are said to, so that nothing has to be tested where a loop starts, and sums of
products that wait for each other are not fused: an addition alone takes less time.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Binary, Call, Expr
from schedlang.expr.visit import postorder
from schedlang.ir.aliasing import in_place_pairs
from schedlang.ir.nest import Nest
from schedlang.ir.nodes import Block, Buffer, For, If, Load, Store, expressions, walk
from schedlang.ir.offsets import flat, lane_step

# LLVM vectorizes no shorter loop if it must test first whether arrays overlap
FEWEST = 16
# and unrolls none whole that is longer, since its body has a few instructions at least
MOST = 128
# iterations of the loops inside, written out, that make the loop around them the innermost
INSIDE = 16
FUSED = ("float32", "float64")


def is_plain(nest: Nest) -> bool:
    """Whether no schedule says what is a vector here."""
    return not any(loop.kind == "vectorize" for loop in nest.loops)


def stays_rolled(loop: For) -> bool:
    """Whether LLVM would unroll ``loop`` whole, and could vectorize it otherwise."""
    few = isinstance(loop.extent, int) and FEWEST <= loop.extent <= MOST
    return few and could_be_vectorized(loop)


def could_be_vectorized(loop: For) -> bool:
    """Whether ``loop`` is an innermost one whose iterations fill neighbours, and need no other."""
    if loop.kind != "serial":
        return False
    inside = [stmt for stmt, _ in walk(loop.body)]
    extents = [stmt.extent for stmt in inside if isinstance(stmt, For)]
    if not all(isinstance(e, int) for e in extents):
        return False
    if prod(e for e in extents if isinstance(e, int)) > INSIDE:
        return False
    if not all(isinstance(stmt, (For, If, Store)) for stmt in inside):
        return False
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    return bool(stores) and all(_in_a_row(s, loop.axis) for s in stores) and _alone(loop, stores)


def _in_a_row(store: Store, axis: Axis) -> bool:
    """Whether ``store`` fills neighbours, or adds up integers, which have any order."""
    steps = {lane_step(flat(b, store.indices), axis) for b in store.buffers}
    if steps == {0} and store.reducer is not None:
        return all(dtypes.is_integer(b.dtype) for b in store.buffers)
    return steps == {1}


def _alone(loop: For, stores: list[Store]) -> bool:
    """Whether no iteration reads what another writes, and reads move evenly."""
    written = {b: flat(b, s.indices) for s in stores for b in s.buffers}
    for stmt, _ in walk(loop.body):
        for node in postorder(expressions(stmt)):
            if not isinstance(node, Load):
                continue
            offset = flat(node.buffer, node.indices)
            if lane_step(offset, loop.axis) is None:
                return False
            if node.buffer in written and offset != written[node.buffer]:
                return False
    return True


def arrays_apart(nest: Nest) -> frozenset[Buffer]:
    """The arrays of a plain nest that no call lets share memory with another.

    An output that may be the same array as an input is none of them, and neither is that input.
    """
    if not is_plain(nest):
        return frozenset()
    shared = {position for pair in in_place_pairs(nest) for position in pair}
    arguments = {a: k in shared for k, a in enumerate(nest.args)}
    return frozenset(b for b in nest.buffers if not arguments.get(b, False))


def gains_from_apart(body: Block) -> bool:
    """Whether ``body`` has a loop for which LLVM would test whether arrays overlap."""
    return any(isinstance(s, For) and could_be_vectorized(s) for s, _ in walk(body))


def waits(loop: For, buffers: frozenset[Buffer]) -> bool:
    """Whether the reduction ``loop`` adds to one sum, kept in a register, again and again.

    Where LLVM unrolls the loop whole, the one around it may be vectorized, and is better fused.
    """
    extents = [loop.extent]
    for stmt, _ in walk(loop.body):
        if isinstance(stmt, For):
            if not stmt.axis.is_reduce:
                return False
            extents.append(stmt.extent)
    known = [e for e in extents if isinstance(e, int)]
    return len(buffers) == 1 and (len(known) < len(extents) or prod(known) > MOST)


def unfused(value: Expr) -> Expr:
    """``x + a*b`` with the product rounded; other values as they are."""
    if not isinstance(value, Binary) or value.op != "+" or value.dtype not in FUSED:
        return value
    product = value.b
    if not isinstance(product, Binary) or product.op != "*":
        return value
    return replace(value, b=Call("rounded", (product,), product.dtype))


__all__ = [
    "arrays_apart",
    "could_be_vectorized",
    "gains_from_apart",
    "is_plain",
    "stays_rolled",
    "unfused",
    "waits",
]
