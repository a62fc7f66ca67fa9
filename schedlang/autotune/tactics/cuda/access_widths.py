"""The number of adjacent elements that a GPU thread accesses at once."""

from __future__ import annotations

from collections.abc import Iterable

from schedlang.autotune.tactics.knob import Moves, second
from schedlang.compute.tensor import Shape, Tensor
from schedlang.ir.offsets import most_at_once

# widths of an access in elements: a search decides among them
LANES = (1, 2, 4, 8, 16)
# how the knobs of lanes move
LANES_MOVE = Moves(rank=25, start=second)


def lane_counts(dtypes: Iterable[str]) -> list[int]:
    """Return the numbers of adjacent elements that are one access, for all ``dtypes``.

    >>> lane_counts(["float32"]), lane_counts(["float16"]), lane_counts(["float32", "float64"])
    ([1, 2, 4], [1, 2, 4, 8], [1, 2])
    """
    most = min(map(most_at_once, dtypes), default=1)
    return [n for n in LANES if n <= most]


def lanes_of_rows(tensors: Iterable[Tensor], long: bool = False) -> list[int]:
    """Return the numbers of adjacent elements that are one access in every row of some tensors.

    Rows must start at a multiple of that number, which is unknown if their length is symbolic. Rows
    go along the last dimension; if ``long``, along the last dimension of more than one element.

    >>> import schedlang as sl
    >>> n = sl.var("n")
    >>> shapes = ((4, 8), (4, 6), (n, 8), (4, n), (n,))
    >>> [lanes_of_rows([sl.placeholder(shape)]) for shape in shapes]
    [[1, 2, 4], [1, 2], [1, 2, 4], [1], [1, 2, 4]]
    >>> column = sl.placeholder((8, 1))
    >>> lanes_of_rows([column]), lanes_of_rows([column], long=True)
    ([1], [1, 2, 4])
    """
    kept = list(tensors)
    shapes = [_long(t.shape) if long else t.shape for t in kept]
    lengths = [shape[-1] for shape in shapes if len(shape) > 1]
    return [
        n for n in lane_counts(t.dtype for t in kept)
        if n == 1 or all(isinstance(size, int) and size % n == 0 for size in lengths)
    ]  # fmt: skip


def _long(shape: Shape) -> Shape:
    """Return the dimensions up to the last one of more than one element."""
    while shape and isinstance(shape[-1], int) and shape[-1] == 1:
        shape = shape[:-1]
    return shape
