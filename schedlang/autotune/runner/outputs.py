"""Checks of the outputs of a candidate: stray writes, and the comparison with the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from schedlang.expr.dtypes import array_dtype, itemsize

# bytes on both sides of an output that a kernel must not write
MARGIN = 4096
FILL = 0xA5
# one in this many integers may be off by 1
FEW = 100
# an error below this may be rounding: the message names the tolerance that accepts it
PLAUSIBLE = 0.05
# elements that are compared at once, so that the arrays between stay in a core's cache
BLOCK = 1 << 14


class Guarded:
    """An output array with margins on both sides that show stray writes."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * itemsize(dtype)
        self._room = np.full(size + 2 * MARGIN, FILL, "uint8")
        self.array = self._room[MARGIN : MARGIN + size].view(array_dtype(dtype)).reshape(shape)

    def poison(self, want: np.ndarray[Any, Any]) -> None:
        """Fill every element with a value other than the expected one, and reset the margins."""
        self._room[:MARGIN] = self._room[len(self._room) - MARGIN :] = FILL
        if self.array.dtype.kind in "fc" or self.array.dtype.name == "bfloat16":
            self.array.fill(np.nan)
            self.array[np.isnan(want)] = 0
        elif self.array.dtype.kind == "b":
            np.logical_not(want, out=self.array)
        else:
            np.bitwise_not(want, out=self.array)

    def intact(self) -> bool:
        """Return whether the margins are unchanged."""
        edges = (self._room[:MARGIN], self._room[len(self._room) - MARGIN :])
        return all(bool((edge == FILL).all()) for edge in edges)


def unequal(
    name: str, result: np.ndarray[Any, Any], want: np.ndarray[Any, Any], tolerance: float,
    rounded: bool = False,
) -> str:  # fmt: skip
    """Return a message about the elements of ``result`` that are off; empty if there are none.

    With a tolerance of 0 all elements must be equal. If integers are ``rounded`` from floats, one
    in a hundred may be off by 1: few floats are that close to a rounding boundary.

    >>> import numpy as np
    >>> unequal("C", np.array([1.0, 2.0]), np.array([1.0, 3.0]), 1e-3)
    'C[1] is 2.0, not 3.0 (1 of 2 elements differ)'
    >>> unequal("Q", np.array([1, 2]), np.array([1, 3]), 0.0, rounded=True)
    ''
    """
    if (result == want).all():
        return ""
    typical = _typical_size(want)
    pairs = zip(_blocks(result), _blocks(want))
    if not any(_off(part, wanted, tolerance, typical)[0].any() for part, wanted in pairs):
        return ""
    off, apart = _off(result, want, tolerance, typical)
    with np.errstate(all="ignore"):
        needed = float(np.max(np.where(off, apart / (np.abs(_wide(want)) + typical), 0.0)))
    count = int(np.count_nonzero(off))
    neighbours = rounded and bool((apart[off] <= 1).all())
    if neighbours and count <= max(1, off.size // FEW):
        return ""
    at = tuple(int(n) for n in np.argwhere(off)[0])
    location = f"{name}[{', '.join(map(str, at))}]" if at else name
    values = f"{result[at].item()}, not {want[at].item()}"
    # 6 % more, as rounding to two digits may take off 5 %
    would = f"; tolerance={1.06 * needed:.2g} would accept them" if 0 < needed < PLAUSIBLE else ""
    return f"{location} is {values} ({count} of {off.size} elements differ{would})"


def _off(
    result: np.ndarray[Any, Any], want: np.ndarray[Any, Any], tolerance: float, typical: float
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return which elements are off, and how far all elements are apart."""
    with np.errstate(all="ignore"):
        same = (result == want) | ((result != result) & (want != want))
        wide = _wide(want)
        apart = np.abs(_wide(result) - wide)
        far = apart > tolerance * (np.abs(wide) + typical)
        # with tolerance 0 compare exactly: distinct int64 values may be equal in float64
        inexact = far | ~np.isfinite(result) | ~np.isfinite(want) | (tolerance == 0)
    return ~same & inexact, apart


def _typical_size(want: np.ndarray[Any, Any]) -> float:
    """Return the root of the mean square of the finite elements, 0 if there are none."""
    squares, count = 0.0, 0
    for block in _blocks(want):
        size = np.abs(_wide(block[np.isfinite(block)]))
        squares, count = squares + float(np.sum(np.square(size))), count + size.size
    return float(np.sqrt(squares / count)) if count else 0.0


def _wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return array.astype("complex128" if np.iscomplexobj(array) else "float64")


def _blocks(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    flat = array.reshape(-1)
    return (flat[start : start + BLOCK] for start in range(0, flat.size, BLOCK))
