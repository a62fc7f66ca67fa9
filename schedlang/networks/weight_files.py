"""Files of weights: read by several threads straight into a module's bytes, and hashed.

A process that loads a known network imports this, and no graphs.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from schedlang.networks.call import new_bytes, weight_in
from schedlang.runtime.environment import cores

if TYPE_CHECKING:
    from schedlang.codegen.network_storage import Storage

# how much of a file is read at once, which stays in a processor's cache until its checksum is known
CHUNK = 1 << 18
# the most threads that read a file, each of which has so many bytes to read
MOST_READERS, OF_READER = 4, 4 << 20
# the dtype and the shape of an array
Layout = tuple[np.dtype, tuple[int, ...]]
# what is raised for a file of arrays that is damaged, of another kind, encrypted, or absurdly large
UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    RuntimeError,
    EOFError,
    MemoryError,
    OverflowError,
    lzma.LZMAError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
# the head of a member in a zip file, its end, with the lengths of what follows, and its first bytes
_HEAD, _LENGTHS, _MAGIC = 30, slice(26, 30), b"PK\3\4"
# the flags of a member that say nothing about its bytes: its sizes follow it, and its name is UTF-8
_PLAIN = 0x808


def contiguous(array: np.ndarray) -> np.ndarray:
    """Return an array with its elements in row-major order, a copy if they are not.

    >>> contiguous(np.arange(4)[::-1]).strides, contiguous(np.zeros(())).shape
    ((8,), ())
    """
    return array if array.flags.c_contiguous else array.copy(order="C")


def digest(arrays: Iterable[np.ndarray]) -> str:
    """Return the SHA-256 of the elements of arrays, in row-major order, as hex.

    >>> digest([np.zeros(2, "int8"), np.ones(())]) == digest([np.zeros((1, 2), bool), np.ones(1)])
    True
    """
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(contiguous(array).reshape(-1).view("uint8").data)
    return sha.hexdigest()


def state_of(path: Path) -> str:
    """Return the state of an ``.npz`` file; raise one of ``UNREADABLE`` if it is none.

    The state names the file, its size, its time, and the checksums of its arrays. While it stays,
    the arrays need not be read. Checksums of 32 bits alone tell no arrays apart that somebody
    chose, so the state of one file says nothing about another.
    """
    status = path.stat()
    with zipfile.ZipFile(path) as file:
        entries = [[entry.filename, entry.CRC, entry.file_size] for entry in file.infolist()]
    values = hashlib.sha256(json.dumps(entries).encode()).hexdigest()
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ino} {values} {path.resolve()}"


def read_params(path: Path, storage: Storage) -> np.ndarray:
    """Return the bytes of all parameters of a module, read from an ``.npz`` file by their names.

    Raises as :func:`read_arrays` does, and :class:`~schedlang.errors.CallError`, which is one of
    ``UNREADABLE``, for an array that breaks a declared fact.
    """
    params = new_bytes(storage.param_bytes)
    arrays = {place.name: weight_in(params, place) for place in storage.params}
    read_arrays(path, {name: (array.dtype, array.shape) for name, array in arrays.items()}, arrays)
    end = 0
    for place in storage.params:
        # no bytes between parameters are left to chance
        params[end : place.start] = 0
        end = place.start + arrays[place.name].nbytes
        if place.has_facts:
            # a process whose weights have no facts imports no tensors
            from schedlang.compute.facts import Facts, check_facts

            facts = Facts(place.monotonic, place.within)
            check_facts(place.name, facts, arrays[place.name], int)
    params[end:] = 0
    return params


def read_arrays(
    path: Path, wanted: Mapping[str, Layout], into: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Return the ``wanted`` arrays of an ``.npz`` file by their names, read ``into`` given ones.

    Headers are read first, so that an array of another size takes no memory. Nothing is
    unpickled. Raises one of ``UNREADABLE`` for a file that lacks one of these arrays.
    """
    with zipfile.ZipFile(path) as file:
        # memory that is there already is not taken
        for name, layout in wanted.items() if into is None else ():
            with file.open(f"{name}.npy") as member:
                _header(member, name, layout)
        arrays: dict[str, np.ndarray] = {}
        steps: list[Callable[[], None]] = []
        for name, (dtype, shape) in wanted.items():
            array = arrays[name] = np.empty(shape, dtype) if into is None else into[name]
            steps.append(partial(_read_member, file, path, name, array))
        readers = min(MOST_READERS, cores(), sum(a.nbytes for a in arrays.values()) // OF_READER)
        if readers < 2:
            for step in steps:
                step()
        else:
            with ThreadPoolExecutor(readers) as pool:
                readings = [pool.submit(step) for step in steps]
                try:
                    # the first error is raised, and what did not begin is not read
                    for reading in readings:
                        reading.result()
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
    return arrays


def _read_member(file: zipfile.ZipFile, path: Path, name: str, into: np.ndarray) -> None:
    """Read an array of a file."""
    with _member(file, path, f"{name}.npy") as member:
        stored, by_columns = _header(member, name, (into.dtype, into.shape))
        _read(member, into, stored, by_columns)
    # a compiled kernel takes the byte of a bool for its value
    if into.dtype.kind == "b" and into.view("uint8").max(initial=0) > 1:
        raise ValueError(f"{name} is of bools, and a byte of it is neither 0 nor 1")


def _member(file: zipfile.ZipFile, path: Path, name: str) -> Any:
    """Return a member of a zip file, open for reading."""
    entry = file.getinfo(name)
    if entry.compress_type == zipfile.ZIP_STORED and not entry.flag_bits & ~_PLAIN:
        return _Stored(path, entry)
    return file.open(name)


class _Stored:
    """A member that a zip file has as it is, which is read without a copy between.

    It has its own place in the file, so that several threads may each read one. Reading its end
    raises :class:`zipfile.BadZipFile` if its checksum differs.
    """

    def __init__(self, path: Path, entry: zipfile.ZipInfo) -> None:
        self._entry, self._left, self._sum = entry, entry.file_size, 0
        self._file = path.open("rb", buffering=0)
        try:
            self._file.seek(entry.header_offset)
        except (OSError, OverflowError):
            self._file.close()
            raise
        head = self._file.read(_HEAD) or b""
        if len(head) < _HEAD or not head.startswith(_MAGIC):
            self._file.close()
            raise zipfile.BadZipFile(f"{entry.filename} has no head")
        lengths = head[_LENGTHS]
        name, extra = (int.from_bytes(lengths[k : k + 2], "little") for k in (0, 2))
        self._file.seek(name + extra, os.SEEK_CUR)

    def __enter__(self) -> _Stored:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def readinto(self, into: memoryview) -> int:
        """Read some of the next bytes, and return their number; 0 at the end."""
        into = into[: self._left]
        count = self._file.readinto(into) or 0
        if len(into) and not count:
            raise EOFError(f"{self._entry.filename} is cut off")
        self._left -= count
        self._sum = zlib.crc32(into[:count], self._sum)
        if not self._left and self._sum != self._entry.CRC:
            raise zipfile.BadZipFile(f"{self._entry.filename} has another checksum")
        return count

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        content = memoryview(bytearray(size))
        return bytes(content[: self.readinto(content)])


def _header(member: Any, name: str, wanted: Layout) -> tuple[np.dtype, bool]:
    """Return the dtype of an array in a file, and whether it is stored by columns."""
    version = np.lib.format.read_magic(member)
    if version != (1, 0):
        # later ones are for structures, and for headers of any length
        raise ValueError(f"{name} has version {version} of the format of arrays")
    shape, by_columns, stored = np.lib.format.read_array_header_1_0(member)
    if stored.hasobject:
        raise ValueError(f"{name} has objects of Python, which are pickled")
    dtype, own = wanted
    # NumPy's files know no bfloat16
    same = stored.newbyteorder("=") == dtype or (dtype.name == "bfloat16" and stored == "V2")
    if not same or shape != own:
        raise ValueError(
            f"{name} is {stored.name} of shape {shape}, but must be {dtype.name} of shape {own}"
        )
    return (stored if dtype.name != "bfloat16" else dtype), by_columns


def _read(member: Any, into: np.ndarray, stored: np.dtype, by_columns: bool) -> None:
    """Read the elements of an array, all that are left in ``member``."""
    if stored == into.dtype and not (by_columns and into.ndim > 1):
        # an array without dimensions has no view as bytes
        _fill(into.reshape(-1).view("uint8"), member)
        return
    other = np.empty(into.shape[::-1] if by_columns else into.shape, stored)
    _fill(other.reshape(-1).view("uint8"), member)
    into[...] = other.T if by_columns else other


def _fill(into: np.ndarray, member: Any) -> None:
    """Read as many bytes as ``into`` has, which are all that ``member`` has left."""
    view, at = into.data, 0
    while at < into.size:
        count = member.readinto(view[at : at + CHUNK])
        if not count:
            raise ValueError("an array has too few bytes")
        at += count
    if member.read(1):
        raise ValueError("an array has too many bytes")
