"""The starts of arrays in an array of bytes."""

from __future__ import annotations

# arrays begin at multiples of this many bytes, the length of a cache line
ALIGNMENT = 64
# the dtype of an array of bytes
BYTES = "uint8"


def aligned(size: int) -> int:
    """Return ``size`` bytes rounded up to whole cache lines.

    >>> aligned(0), aligned(1), aligned(64), aligned(65)
    (0, 64, 64, 128)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT
