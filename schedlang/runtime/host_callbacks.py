"""Functions of Python as functions of C, which compiled code calls for boxes of arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from schedlang.runtime.extern_table import Called


def callback(called: Called, errors: list[BaseException]) -> tuple[int, Any]:
    """Return the address of a function of Python, and what keeps it valid.

    It holds the GIL while it runs, so that calls from several threads take turns. An exception goes
    to ``errors``.
    """
    count = len(called.dtypes)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count, ctypes.c_void_p)

    def run(*given: int | None) -> int:
        try:
            sizes = _integers(given[-1], 2 * sum(called.ranks))
            called.function.run(*arrays_at(called, given[:-1], sizes))
        except BaseException as error:
            # through compiled code no exception passes
            errors.append(error)
            return 1
        return 0

    function = kind(run)
    return ctypes.cast(function, ctypes.c_void_p).value or 0, function


def arrays_at(
    called: Called, places: Sequence[int | None], sizes: Sequence[int]
) -> list[np.ndarray]:
    """Return the boxes at addresses as arrays; boxes of inputs cannot be written."""
    arrays, at = [], 0
    for k, (place, dtype, rank) in enumerate(zip(places, called.dtypes, called.ranks)):
        shape, steps = sizes[at : at + rank], sizes[at + rank : at + 2 * rank]
        at += 2 * rank
        array = array_at(place or 0, dtype, shape, steps)
        array.flags.writeable = k >= called.inputs
        arrays.append(array)
    return arrays


def array_at(
    place: int, dtype: str, shape: Sequence[int], steps: Sequence[int]
) -> np.ndarray:
    """Return the array of ``shape`` at an address, with steps that count elements."""
    if not prod(shape):
        return np.empty(shape, dtype)
    size = np.dtype(dtype).itemsize
    span = size * (1 + sum((e - 1) * s for e, s in zip(shape, steps)))
    memory: Any = (ctypes.c_char * span).from_address(place)
    return np.ndarray(shape, dtype, memory, strides=[s * size for s in steps])


def _integers(place: int | None, count: int) -> list[int]:
    if not count:
        return []
    return list((ctypes.c_int64 * count).from_address(place or 0))
