"""Proofs that tiles start where instructions need them: at multiples of some bytes.

Arrays that a kernel allocates start on cache lines, and no instruction may ask for more. So what is
left to prove is the start of a tile in its array.
"""

from __future__ import annotations

from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis
from schedlang.index.linear import Lin, Product, to_expr
from schedlang.ir.nodes import Buffer


def astray(buffer: Buffer, first: Lin, alignment: int) -> str:
    """Return how tiles of ``buffer`` leave multiples of ``alignment`` bytes, and "" if none does.

    ``first`` is the offset of the first element of a tile.

    >>> import schedlang as sl
    >>> A, i = Buffer("A", "float32", (8, 20)), sl.reduce_axis(8, name="i")
    >>> astray(A, Lin.of(i) * 20 + 16, 64)
    '20 elements (80 bytes) apart along i'
    >>> astray(A, Lin.of(i) * 32 + 16, 64)
    ''
    """
    size = itemsize(buffer.dtype)
    for product, count in first.terms.items():
        if count % elements_between(buffer, alignment):
            return _distance(product, count, size)
    return ""


def elements_between(buffer: Buffer, alignment: int) -> int:
    """Return the number of elements of ``buffer`` in ``alignment`` bytes, 1 or more."""
    return max(1, alignment // itemsize(buffer.dtype))


def _distance(product: Product, count: int, size: int) -> str:
    """Return what a term of an offset moves a tile by."""
    place = next((k for k, factor in enumerate(product) if isinstance(factor, Axis)), len(product))
    others = [*product[:place], *product[place + 1 :]]
    if others:
        amount = f"{to_expr(Lin({tuple(others): count}))} elements"
    else:
        amount = f"{count} element{'s' * (count != 1)} ({count * size} bytes)"
    if place == len(product):
        return f"{amount} behind the start of the array"
    return f"{amount} apart along {product[place]}"
