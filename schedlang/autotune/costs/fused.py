"""Fused loops as the loops that they were made of, for the footprint of their accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from schedlang.expr.nodes import Axis, Binary, Const, Expr
from schedlang.expr.visit import postorder, rewrite
from schedlang.ir.accesses import Access
from schedlang.ir.nodes import For


def separate_fused(
    accesses: Sequence[Access], loops: Sequence[For]
) -> tuple[list[Access], list[For]]:
    """Return accesses and the loops around them, each fused loop as an outer and an inner loop.

    A loop ``f`` is one if the indices use ``f // n`` and ``f % n`` alone, with one ``n`` that
    divides the number of iterations.

    >>> from schedlang.ir.nodes import Block, Buffer
    >>> f = Axis("f", 32)
    >>> access = Access(Buffer("A", "float32", (4, 8)), (f // 8, f % 8))
    >>> separated, loops = separate_fused([access], [For(f, 32, "serial", Block(()), "A")])
    >>> separated[0].indices, [(loop.axis.name, loop.extent) for loop in loops]
    ((f//8, f%8), [('f//8', 4), ('f%8', 8)])
    """
    separated: list[For] = []
    waiting = list(reversed(loops))
    while waiting:
        loop = waiting.pop()
        length = _inner_length(accesses, loop)
        if not length:
            separated.append(loop)
            continue
        outer, inner = (
            replace(loop, axis=Axis(f"{loop.axis.name}{op}{length}", extent), extent=extent)
            for op, extent in (("//", loop.extent // length), ("%", length))
        )
        accesses = [
            replace(a, indices=tuple(_replace(i, loop.axis, outer.axis, inner.axis)
                                     for i in a.indices))
            for a in accesses
        ]  # fmt: skip
        # either may be a fused loop itself
        waiting += [inner, outer]
    return list(accesses), separated


def _inner_length(accesses: Sequence[Access], loop: For) -> int:
    """Return the iterations of the inner loop of a fused one; 0 for any other loop."""
    lengths: set[int] = set()
    for index in (index for a in accesses for index in a.indices):
        for node in postorder([index]):
            length = _divisor(node, loop.axis)
            if length:
                lengths.add(length)
            elif any(child is loop.axis for child in node.children):
                return 0
        if index is loop.axis:
            return 0
    if len(lengths) != 1 or not isinstance(loop.extent, int):
        return 0
    (length,) = lengths
    return length if 1 < length < loop.extent and loop.extent % length == 0 else 0


def _divisor(node: Expr, axis: Axis) -> int:
    """Return ``n`` of ``axis // n`` and ``axis % n``; 0 for any other node."""
    if not isinstance(node, Binary) or node.op not in ("//", "%") or node.a is not axis:
        return 0
    return node.b.value if isinstance(node.b, Const) and type(node.b.value) is int else 0


def _replace(index: Expr, axis: Axis, outer: Axis, inner: Axis) -> Expr:
    def part(node: Expr) -> Expr | None:
        if not _divisor(node, axis):
            return None
        return outer if node.op == "//" else inner  # type: ignore[attr-defined]

    return rewrite(index, part)
