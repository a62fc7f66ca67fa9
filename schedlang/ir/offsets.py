"""Offsets into flat arrays: strides, and how an offset moves from lane to lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from schedlang.expr.dtypes import itemsize
from schedlang.expr.linear import ZERO, Lin, Opaque
from schedlang.expr.nodes import Axis, Expr
from schedlang.expr.simplify import to_lin
from schedlang.expr.visit import postorder
from schedlang.ir.nodes import Buffer, Load

# lanes this close to each other are picked from whole vectors
CLOSE = 4
# bytes of the widest access of a GPU's thread
WIDEST = 16
# it is of four elements at most; those of half precision go in pairs
MOST_AT_ONCE = 4


@lru_cache(maxsize=256)
def strides(buffer: Buffer) -> tuple[Lin, ...]:
    """Return elements between neighbours along each dimension."""
    if buffer.strides is not None:
        return tuple(Lin.of(s) for s in buffer.strides)
    result: list[Lin] = []
    step = Lin.of(1)
    for extent in reversed(buffer.shape):
        result.insert(0, step)
        step = step * to_lin(extent)
    return tuple(result)


def flat(buffer: Buffer, indices: Sequence[Expr], values: Mapping[Any, Lin] | None = None) -> Lin:
    """Return the offset of ``buffer[indices]``, where some axes may have known ``values``."""
    total = ZERO
    for index, stride in zip(indices, strides(buffer)):
        total = total + to_lin(index, values or {}) * stride
    return total


def lane_step(offset: Lin, axis: Axis) -> int | None:
    """Return the distance between neighbouring lanes, where it is one number; else ``None``."""
    step = 0
    for product, coef in offset.terms.items():
        if len(product) == 1 and product[0] is axis:
            step = coef
        elif any(uses(leaf, axis) for leaf in Lin({product: 1}).leaves()):
            return None
    return step


def uses(leaf: object, axis: Axis) -> bool:
    """Return whether a leaf of an offset depends on ``axis``."""
    if isinstance(leaf, Opaque):
        return any(node is axis for node in postorder([leaf.expr]))
    return leaf is axis


def gathers(offset: Lin) -> bool:
    """Return whether an offset depends on elements that are read."""
    opaque = [leaf.expr for leaf in offset.leaves() if isinstance(leaf, Opaque)]
    return any(isinstance(node, Load) for node in postorder(opaque))


def one_access(buffer: Buffer, first: Lin, count: int) -> bool:
    """Return whether a GPU accesses ``count`` elements from ``first`` on at once.

    They make up 2, 4, 8 or 16 bytes, and start at a multiple of that: arrays start at one.
    """
    wide = 1 < count <= most_at_once(buffer.dtype) and count & (count - 1) == 0
    return wide and all(coef % count == 0 for coef in first.terms.values())


def most_at_once(dtype: str) -> int:
    """Return the elements of the widest access of a GPU's thread.

    Source: PTX ISA 9.0, "Vectors": of four elements and 16 bytes at most.
    """
    pairs = 2 if dtype == "float16" else 1
    return min(WIDEST // itemsize(dtype), MOST_AT_ONCE * pairs)


__all__ = ["CLOSE", "flat", "gathers", "lane_step", "most_at_once", "one_access", "strides", "uses"]
