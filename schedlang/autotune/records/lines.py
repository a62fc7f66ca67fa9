"""Appending lines to a file that several processes share, and reading them."""

from __future__ import annotations

import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from schedlang.errors import TuningError
from schedlang.runtime.locks import lock, unlock

# seconds to wait for the lock; after that, writing each line in one call has to be enough
PATIENCE = 5.0
_CHUNK = 1 << 16
_COMPUTATION = re.compile(rb'"op"\s*:\s*"([0-9a-f]{64})"')


@contextmanager
def open_lines(path: Path, write: bool) -> Iterator[int]:
    """Yield a descriptor of the regular file at ``path``, locked; writing creates the file.

    Raise :class:`~schedlang.errors.TuningError` if it cannot be opened, and
    ``FileNotFoundError`` if the file to read does not exist.
    """
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if write else os.O_RDONLY
    # opening a pipe without a writer would block, and Windows changes line ends of text
    flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags, 0o666)
    except FileNotFoundError:
        if not write:
            raise
        raise _refusal(path, write, f"there is no folder {path.parent}") from None
    except IsADirectoryError:
        raise _refusal(path, write, "it is a directory") from None
    except (OSError, ValueError) as error:
        raise _refusal(path, write, getattr(error, "strerror", None) or str(error)) from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise _refusal(path, write, f"it is {what}")
        lock(descriptor, write, PATIENCE)
        yield descriptor
    finally:
        # closing is not enough: a process forked since then has the descriptor too
        unlock(descriptor)
        os.close(descriptor)


def _refusal(path: Path, write: bool, why: str) -> TuningError:
    return TuningError(
        f"the tuning database {path} cannot be {'written' if write else 'read'}: {why}\n"
        f"  Give database= a {'writable' if write else 'readable'} file, or leave it out to use "
        "the one in the cache folder (SCHEDLANG_CACHE)."
    )


def append(path: Path, line: bytes) -> None:
    """Append ``line``, which ends in a newline, to the file in one write."""
    with open_lines(path, write=True) as descriptor:
        try:
            if os.lseek(descriptor, 0, os.SEEK_END) > 0:
                os.lseek(descriptor, -1, os.SEEK_END)
                # a killed process may have left half a line
                if os.read(descriptor, 1) != b"\n":
                    line = b"\n" + line
            written = os.write(descriptor, line)
        except OSError as error:
            raise _refusal(path, True, error.strerror or str(error)) from None
    if written != len(line):
        raise _refusal(path, True, f"{written} of {len(line)} bytes were written: the disk is full")


@dataclass(frozen=True)
class Line:
    """A line of the file: ``text`` is ``None`` if it is too long; ``ended``: it has a newline."""

    text: bytes | None
    length: int
    ended: bool


def read_lines(file: BinaryIO, longest: int) -> Iterator[Line]:
    """Yield the lines from the position of ``file``, without the text of those over ``longest``."""
    while part := file.readline(longest + 1):
        length, ended = len(part), part.endswith(b"\n")
        if ended or length <= longest:
            yield Line(part, length, ended)
            continue
        while not ended and (part := file.readline(_CHUNK)):
            length, ended = length + len(part), part.endswith(b"\n")
        yield Line(None, length, ended)


def computations_from(path: Path, start: int) -> set[str]:
    """Return the keys of the computations that the lines of a file from byte ``start`` on are of.

    Raise ``OSError`` for a file that cannot be read.
    """
    with open(path, "rb") as file:
        file.seek(start)
        return {op[1].decode() for line in file if (op := _COMPUTATION.search(line))}


@dataclass(frozen=True)
class Place:
    """The place of a line in the file; ``whole`` is false if it is too long to be read."""

    number: int
    start: int
    length: int
    whole: bool


@lru_cache(maxsize=16)
def places(path: Path, stamp: tuple[int, ...], longest: int) -> Mapping[bytes, list[Place]]:
    """Return the places of the lines of each computation, by its key.

    The key of lines over ``longest`` is empty. ``stamp`` tells a file from what it was before.
    """
    by_key: dict[bytes, list[Place]] = defaultdict(list)
    start = 0
    with open(path, "rb") as file:
        for number, line in enumerate(read_lines(file, longest), 1):
            place = Place(number, start, line.length, line.text is not None)
            if line.text is None:
                by_key[b""].append(place)
            elif op := _COMPUTATION.search(line.text):
                by_key[op[1]].append(place)
            start += line.length
    return dict(by_key)
