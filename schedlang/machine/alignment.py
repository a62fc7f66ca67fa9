"""The starts of arrays in an array of bytes."""

from __future__ import annotations

# arrays begin at multiples of this many bytes, the length of a cache line
ALIGNMENT = 64
# but in the shared and local memory of a GPU: the widest access of a thread
GPU_ALIGNMENT = 16
# the dtype of an array of bytes
BYTES = "uint8"


def align_up(size: int) -> int:
    """Return ``size`` bytes rounded up to whole cache lines.

    >>> align_up(0), align_up(1), align_up(64), align_up(65)
    (0, 64, 64, 128)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT
