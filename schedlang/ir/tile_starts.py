"""Proofs that tiles start where instructions need them: at multiples of some bytes.

Arrays that a kernel allocates start on cache lines, and no instruction may ask for more. So what is
left to prove is the start of a tile in its array. What ``ldmatrix`` loads starts so in each row.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.expr.dtypes import itemsize
from schedlang.expr.nodes import Axis, Expr
from schedlang.index.digits import step
from schedlang.index.linear import ZERO, Lin, Product, to_expr
from schedlang.instructions.fragments import ROW
from schedlang.ir.nodes import Buffer
from schedlang.ir.offsets import flat


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


def row_fault(
    name: str, buffer: Buffer, indices: Sequence[Expr], along: Axis
) -> tuple[str, str] | None:
    """Return why elements of ``buffer`` along an axis are not rows of 16 bytes, and what to do.

    ``name`` is the instruction's. A swizzle may move rows, but neither divide nor reorder them.
    """
    assert isinstance(along.extent, int)
    unit = ROW // itemsize(buffer.dtype)
    row, within = Axis("row", along.extent // unit), Axis("within", unit)
    offset = flat(buffer, indices, {along: Lin.of(row) * unit + Lin.of(within)})
    if step(offset, within) != 1:
        return (
            f"the {unit} elements of a row of {buffer.name} along {along.name} are not adjacent, "
            f"and {name} loads rows of {ROW} bytes",
            "Use the form with _trans for rows along the other loop, or let a swizzle move whole "
            f"rows: its last index is j % {unit}.",
        )
    if distance := astray(buffer, offset.substitute({within: ZERO}), ROW):
        return (
            f"rows of {buffer.name} start {distance}, and {name} loads them at multiples of {ROW} "
            "bytes",
            f"Split by multiples of {unit} elements, or pad rows to such a multiple by "
            "storage_align.",
        )
    return None


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
