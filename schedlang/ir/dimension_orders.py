"""Orders of the dimensions of a buffer, and positions of elements in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations

from schedlang.index.linear import ZERO, Lin
from schedlang.index.simplify import has_mod, merge_div_mod, to_lin
from schedlang.ir.nodes import Buffer

# buffers of more dimensions are not tried in all orders
MOST_ORDERED = 4


def flat(buffer: Buffer, indices: Sequence[Lin], order: Sequence[int] | None = None) -> Lin:
    """Return the flat position of an element; ``//`` and ``%`` of one loop are merged.

    ``order`` lists the dimensions, the one of stride 1 last; by default they are row-major.
    """
    place, stride = ZERO, Lin.of(1)
    for k in reversed(range(len(buffer.shape)) if order is None else order):
        place, stride = place + indices[k] * stride, stride * to_lin(buffer.shape[k])
    return merge_div_mod(place)


def orders(buffer: Buffer, indices: Sequence[Lin]) -> Iterable[tuple[int, ...]]:
    """Return the orders of dimensions in which to prove facts about ``indices``, row-major first.

    The others matter if loops are fused, so that an index has a remainder.
    """
    rank = len(buffer.shape)
    if rank <= MOST_ORDERED and any(map(has_mod, indices)):
        return permutations(range(rank))
    return [tuple(range(rank))]
