"""Copies of inputs that are to come from memory: together they fill the caches more than once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import cycle
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
# all copies together take this many times the size of the last cache, in which lines may stay
FILLS = 2
# bytes at whose multiples the weights of a network start, too
ALIGNED = 64


def in_turns(inputs: Sequence[Array], cold: Collection[int], cache: int) -> Iterator[list[Array]]:
    """Yield ``inputs`` without an end, with other copies at the places ``cold`` in each turn.

    Between two turns of a copy, ``FILLS * cache`` bytes of other copies are read.

    >>> a, b = np.arange(1024), np.arange(2)
    >>> turns = in_turns([a, b], {0}, 40_000)
    >>> first, *others = (next(turns) for _ in range(11))
    >>> [turn[0] is first[0] for turn in others].index(True), first[1] is b
    (9, True)
    """
    each = sum(inputs[n].nbytes for n in cold)
    count = -(-FILLS * cache // max(1, each))
    copies = {n: _copies(inputs[n], count) for n in cold}
    turns = [
        [copies[n][turn] if n in copies else array for n, array in enumerate(inputs)]
        for turn in range(max(1, count))
    ]
    return cycle(turns)


def _copies(array: Array, count: int) -> list[Array]:
    stride = -(-array.nbytes // ALIGNED) * ALIGNED
    block = np.empty(count * stride + ALIGNED, "uint8")
    start = -block.ctypes.data % ALIGNED
    copies = [
        block[start + k * stride :][: array.nbytes].view(array.dtype).reshape(array.shape)
        for k in range(count)
    ]
    for copy in copies:
        copy[...] = array
    return copies
