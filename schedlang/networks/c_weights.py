"""The file of a network's weights, which its C program maps: a head, a table, and the elements.

All numbers are little-endian. ``codegen/c_network.h`` reads it, and says what the head has.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from schedlang.codegen.network_storage import ParamPlace, Storage
from schedlang.expr.dtypes import itemsize
from schedlang.machine.alignment import align_up
from schedlang.runtime.c_checks import dlpack_type

MAGIC, VERSION, HEAD = b"\x89SLW\r\n\x1a\n", 1, 64
# sums that are computed at once, and the factor of each step
_SUMS, _FACTOR, _HALF = 512, np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


@dataclass(frozen=True)
class Weight:
    """The row of a weight in the table: its elements, from byte ``start`` on, and its dtype.

    ``dtype`` has the code of DLPack in its upper bits, and the bits of an element in its lower 8.
    """

    name: str
    start: int
    nbytes: int
    dtype: int
    shape: tuple[int, ...]

    @property
    def entry(self) -> bytes:
        name = self.name.encode()
        head = struct.pack("<QQII", self.start, self.nbytes, self.dtype, len(self.shape))
        shape = struct.pack(f"<{len(self.shape)}QI", *self.shape, len(name))
        return _padded(head + shape + name, 8)


@dataclass(frozen=True)
class WeightsFile:
    """The layout of the file of the network ``hash``, whose elements take ``nbytes``."""

    weights: tuple[Weight, ...]
    hash: bytes
    nbytes: int

    @property
    def start(self) -> int:
        """The first byte of the elements in the file."""
        return align_up(HEAD + sum(len(w.entry) for w in self.weights))

    @property
    def size(self) -> int:
        return self.start + self.nbytes

    def head(self, elements: np.ndarray) -> bytes:
        """Return what stands before ``elements``, given as bytes: the head and the table."""
        head = MAGIC + struct.pack("<II", VERSION, len(self.weights)) + self.hash
        head += struct.pack("<QQQ", self.size, self.start, self.nbytes)
        table = _padded(b"".join(w.entry for w in self.weights), self.start - HEAD)
        rest = np.concatenate([np.frombuffer(table, "uint8"), elements])
        sums = checksum(rest, checksum(np.frombuffer(head, "uint8")))
        return head + struct.pack("<Q", sums) + table


def weights_file(graph: str, storage: Storage) -> WeightsFile:
    """Return the layout of the file of weights at the places of ``storage``.

    ``graph`` is a hash of what the network computes of them.
    """
    weights = tuple(map(_weight, storage.params))
    described = [graph, str(storage.param_bytes), *map(repr, weights)]
    digest = hashlib.sha256("\n".join(described).encode()).digest()
    return WeightsFile(weights, digest[:16], storage.param_bytes)


def _weight(place: ParamPlace) -> Weight:
    code, bits = dlpack_type(place.dtype)
    size = prod(place.shape) * itemsize(place.dtype)
    return Weight(place.name, place.start, size, code << 8 | bits, place.shape)


def checksum(content: np.ndarray, seed: int = 0) -> int:
    """Return the checksum of bytes, a multiple of 8; ``seed`` is the checksum of those before them.

    >>> hex(checksum(np.zeros(8, "uint8")))
    '0xabd830e236770cb2'
    """
    words = content.view("<u8")
    # sums wrap around
    start = np.arange(_SUMS, dtype="uint64")
    start += np.uint64(seed)
    whole = len(words) // _SUMS * _SUMS
    for block in words[:whole].reshape(-1, _SUMS):
        _step(start, block)
    _step(start[: len(words) - whole], words[whole:])
    total = np.array([seed], "uint64")
    for part in start.reshape(-1, 1):
        _step(total, part)
    return int(total[0])


def _step(sums: np.ndarray, words: np.ndarray) -> None:
    sums ^= words
    sums *= _FACTOR
    sums ^= sums >> _HALF


def _padded(content: bytes, size: int) -> bytes:
    """Return ``content`` with zeros behind it, up to a multiple of ``size``."""
    return content + bytes(-len(content) % size) if size else content


__all__: Sequence[str] = ["Weight", "WeightsFile", "checksum", "weights_file"]
