"""Limits of a model: absurd files are refused before anything is made of them."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.errors import FrontendError

# the most elements of a tensor, dimensions of a tensor, nodes of a graph and bytes of a file
MOST_ELEMENTS = 2**33
MOST_DIMS = 32
MOST_NODES = 100_000
MOST_BYTES = 2**31
# the most graphs inside of each other, and nodes in them, once for each iteration of a loop
MOST_NESTED = 16
MOST_REPEATED = 10_000
# the most elements of an array that is computed at import; larger ones are stages, which fuse with
# what reads them
MOST_FOLDED = 64
# the longest text of a size that shape arithmetic makes of symbolic sizes
LONGEST_SIZE = 500


def check_dims(dims: Sequence[int], what: str) -> tuple[int, ...]:
    """Return the extents of ``what`` if a tensor with them can exist.

    >>> check_dims([2, 3], "initializer w")
    (2, 3)
    >>> check_dims([2, -3], "initializer w")
    Traceback (most recent call last):
    schedlang.errors.FrontendError: initializer w: its shape has the negative extent -3
    """
    if len(dims) > MOST_DIMS:
        raise FrontendError(f"{what}: it has {len(dims)} dimensions, more than {MOST_DIMS}")
    count = 1
    for extent in dims:
        if extent < 0:
            raise FrontendError(f"{what}: its shape has the negative extent {extent}")
        count *= extent
    # an extent of 0 hides others from the product
    if max(count, *dims, 0) > MOST_ELEMENTS:
        raise FrontendError(
            f"{what}: its shape {tuple(dims)} has more than 2**33 elements, which no network needs"
        )
    return tuple(dims)
