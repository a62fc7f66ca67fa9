"""The part of a buffer that is drawn: all of it, or the smallest box around some elements."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from schedlang.errors import PlotError, explain
from schedlang.plot.limits import MOST_POINTS


class Drawn(NamedTuple):
    """A box of elements: flat positions in it, where it begins in the buffer, and its shape."""

    places: np.ndarray
    origin: tuple[int, ...]
    shape: tuple[int, ...]


def drawn_box(elements: np.ndarray, shape: tuple[int, ...], part: bool, call: str) -> Drawn:
    """Return the box that shows flat ``elements`` of a buffer of some ``shape``.

    It is the whole buffer, or of a picture in ``part`` and of a large buffer the smallest box
    around the elements. ``call`` names the buffer in messages. Raise
    :class:`~schedlang.errors.PlotError` if the box has more than 2^21 elements, and for a large
    buffer without an element to draw.

    >>> drawn_box(np.array([9, 14]), (3, 5), True, "")
    Drawn(places=array([0, 1]), origin=(1, 4), shape=(2, 1))
    """
    large = prod(shape) > MOST_POINTS
    if not elements.size and large:
        raise PlotError(
            explain(
                call,
                "the iterations that are drawn access none of its elements",
                "Declare the computation at a smaller size, or draw another buffer.",
            )
        )
    if not shape or not elements.size or not (part or large):
        return Drawn(elements, (0,) * len(shape), shape)
    indices = np.unravel_index(elements, shape)
    origin = tuple(int(at.min()) for at in indices)
    box = tuple(int(at.max()) - low + 1 for at, low in zip(indices, origin))
    if prod(box) > MOST_POINTS:
        raise PlotError(
            explain(
                call,
                f"the elements to draw lie in a box of {' x '.join(f'{n:,}' for n in box)}, "
                f"and a picture has room for {MOST_POINTS:,} elements",
                "Declare the computation at a smaller size, or draw another buffer.",
            )
        )
    moved = tuple(at - low for at, low in zip(indices, origin))
    return Drawn(np.ravel_multi_index(moved, box), origin, box)
