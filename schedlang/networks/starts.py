"""Entries of the cache folder for networks whose graphs are not prepared yet.

A *start* is a small file under the key of a model and its options, or of the manifest of a folder.
It has the key of the module that an earlier process made of these. For a model it also has a hash
of its weights, the forms of its convolutions, and the digest of a file with the packed bytes of
the weights, which is mapped into memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.networks.call import new_bytes
from schedlang.networks.model import FORMS
from schedlang.runtime.cache_files import START, WEIGHTS, contents, memory_map, store

FORMAT = 4


@dataclass(frozen=True)
class Start:
    """The key of a module. For a model, the hash of its weights and the digest of the packed ones.

    ``forms`` are those of its convolutions, by the names of their stages: the sizes of Winograd's
    tiles. Folders have their packed weights themselves: their starts have empty ``weights``, and
    ``indexing`` has the hash of each weight with whose elements indices were checked, by its name.
    """

    module: str
    weights: str = ""
    digest: str = ""
    forms: Mapping[str, int] = field(default_factory=dict)
    indexing: Mapping[str, str] = field(default_factory=dict)


def start_of(key: str) -> Start | None:
    """Return the start under a key, ``None`` if there is none."""
    content = contents(START, START.path(key))
    if content is None:
        return None
    try:
        found = json.loads(content)
        if found.pop("format") != FORMAT:
            return None
        made = Start(**found)
        plain = isinstance(made.digest, str) and _is_hex(made.module) and _is_hex(made.weights)
        known = all(type(m) is int and m in FORMS for m in made.forms.values())
        known = known and all(map(_is_hex, made.indexing.values()))
        return made if plain and known else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def store_start(key: str, start: Start) -> None:
    """Write a start, unless the cache folder takes no file."""
    store(START, START.path(key), json.dumps({"format": FORMAT, **asdict(start)}).encode())


def packed_of(key: str, start: Start, size: int) -> np.ndarray | None:
    """Return the packed weights of a start, ``None`` if they are not there as they were written.

    The array is a private map of the file: processes share its pages, and what is written to it
    stays in this process.
    """
    if not size:
        return new_bytes(0)
    packed = memory_map(WEIGHTS, _packed_path(key, start.weights))
    # the same weights are packed in other ways for other forms
    if packed is None or len(packed.content) != size or packed.digest != start.digest:
        return None
    return np.frombuffer(packed.content, "uint8")


def store_packed(key: str, weights: str, params: np.ndarray) -> str | None:
    """Write the packed weights whose hash is ``weights`` and return the digest of the file.

    The file of another hash under this key is removed. Return ``None`` if the file is larger than
    all weights together may be, or if the cache folder takes no file.
    """
    path = _packed_path(key, weights)
    digest = store(WEIGHTS, path, params)
    if digest is None:
        return None
    for other in path.parent.glob(f"{key}-*{WEIGHTS.suffix}"):
        if other != path:
            # another process removed it, or maps it on a system that forbids this
            with suppress(OSError):
                other.unlink()
    return digest


def _packed_path(key: str, weights: str) -> Path:
    return WEIGHTS.path(f"{key}-{weights[:16]}")


def _is_hex(value: Any) -> bool:
    return isinstance(value, str) and all(c in "0123456789abcdef" for c in value)
