"""Entries of the cache folder for networks whose graphs are not prepared yet.

A *start* is a small file under the key of a model and its options, or of the manifest of a folder.
It has the key of the module that an earlier process made of these. For a model it also has a hash
of its weights, the forms of its convolutions, and the checksum of a file with the packed bytes of
the weights, which is mapped into memory.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.networks.cache import path_of
from schedlang.networks.call import new_bytes
from schedlang.networks.model import FORMS
from schedlang.runtime.files import written

FORMAT = 3
START, PACKED = ".start.json", ".weights"
# the most bytes of packed weights in the cache folder; those that were used last are kept
MOST_PACKED = 4 << 30


@dataclass(frozen=True)
class Start:
    """The key of a module. For a model, the hash of its weights and the checksum of the packed.

    ``forms`` are those of its convolutions, by the names of their stages: the sizes of Winograd's
    tiles. Folders have their packed weights themselves: their starts have empty ``weights``, and
    ``indexing`` has the hash of each weight with whose elements indices were checked, by its name.
    """

    module: str
    weights: str = ""
    checksum: int = 0
    forms: Mapping[str, int] = field(default_factory=dict)
    indexing: Mapping[str, str] = field(default_factory=dict)


def start_of(key: str) -> Start | None:
    """Return the start under a key, ``None`` if there is none."""
    try:
        found = json.loads(path_of(key, START).read_text(encoding="utf-8"))
        if found.pop("format") != FORMAT:
            return None
        made = Start(**found)
        plain = isinstance(made.checksum, int) and _is_hex(made.module) and _is_hex(made.weights)
        known = all(type(m) is int and m in FORMS for m in made.forms.values())
        known = known and all(map(_is_hex, made.indexing.values()))
        return made if plain and known else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def store_start(key: str, start: Start) -> None:
    """Write a start, complete or not at all; a full disk costs only the time."""
    text = json.dumps({"format": FORMAT, **asdict(start)})
    written(path_of(key, START), lambda file: file.write(text.encode()))


def packed_of(key: str, start: Start, size: int) -> np.ndarray | None:
    """Return the packed weights of a start, ``None`` if they are not there as they were written.

    The array is a private map of the file: its pages are those of the system's cache of files,
    which processes share, and what is written to it stays in this process.
    """
    path = _packed_path(key, start.weights)
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size != size:
                return None
            if not size:
                return new_bytes(0)
            whole = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
            # so that it is among those that were used last
            os.utime(path)
    except (OSError, ValueError):
        return None
    if zlib.crc32(whole) != start.checksum:
        return None
    return np.frombuffer(whole, "uint8")


def store_packed(key: str, weights: str, params: np.ndarray) -> int | None:
    """Write the packed weights whose hash is ``weights`` and return their checksum.

    Those of another hash under this key are removed, and old ones of others beyond ``MOST_PACKED``.
    Return ``None`` if they are too many bytes, or the disk is full.
    """
    path = _packed_path(key, weights)
    if params.size > MOST_PACKED or not written(path, params.tofile):
        return None
    _remove_old(path, key)
    return zlib.crc32(params.data)


def _packed_path(key: str, weights: str) -> Path:
    return path_of(f"{key}-{weights[:16]}", PACKED)


def _remove_old(kept: Path, key: str) -> None:
    found: list[tuple[float, int, Path]] = []
    for path in kept.parent.glob(f"*{PACKED}"):
        try:
            status = path.stat()
            if path != kept and path.name.startswith(f"{key}-"):
                path.unlink()
            else:
                found.append((status.st_mtime, status.st_size, path))
        except OSError:
            # another process removed it, or maps it on a system that forbids this
            continue
    total = 0
    for _, size, path in sorted(found, reverse=True):
        total += size
        if total > MOST_PACKED and path != kept:
            try:
                path.unlink()
            except OSError:
                continue


def _is_hex(value: Any) -> bool:
    return isinstance(value, str) and all(c in "0123456789abcdef" for c in value)


__all__ = ["MOST_PACKED", "Start", "packed_of", "start_of", "store_packed", "store_start"]
