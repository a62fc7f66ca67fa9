"""Linked modules in the cache folder, so that a network that was built before starts at once."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from schedlang.autotune.best import packaged
from schedlang.autotune.database import Database
from schedlang.autotune.record import machine, target_text, threads, versions
from schedlang.compute.data import to_data
from schedlang.compute.tensor import Tensor
from schedlang.errors import BuildError
from schedlang.networks.data import from_data as module_from_data
from schedlang.networks.data import to_data as module_data
from schedlang.networks.program import ModuleData
from schedlang.runtime.files import cache_folder, intrinsics_key
from schedlang.target import Target


def cache_key(
    outputs: Sequence[Tensor], about: Any, target: Target, database: Any,
    used: Sequence[Path] | None = None,
) -> str:  # fmt: skip
    """Return a key of all that a module is made from.

    It hashes the graph of ``outputs``, ``about`` as JSON (names, cuts, fusions), the target and the
    machine, the versions, and the size and time of each file that schedules come from: ``used``, or
    by default those of ``database``.
    """
    files = _files(database) if used is None else used
    whole = [
        to_data(outputs), about, target.kind, target_text(target), machine(), threads(),
        versions(), intrinsics_key(), [_stamp(path) for path in files],
    ]  # fmt: skip
    text = json.dumps(whole, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def cached(key: str, target: Target) -> ModuleData | None:
    """Return the data of a module that :func:`store` wrote, ``None`` if there is none."""
    try:
        found = json.loads(_path(key).read_text(encoding="utf-8"))
        made = module_from_data(found["data"], str(found["text"]), str(found["serial_text"]))
        return replace(made, target=target)
    except (OSError, ValueError, KeyError, TypeError, BuildError):
        # unreadable or cut off: it is made again
        return None


def store(key: str, data: ModuleData) -> None:
    """Write the data of a module, complete or not at all; a full disk costs only the time."""
    path, temporary = _path(key), ""
    try:
        path.parent.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            texts = {"text": data.text, "serial_text": data.serial_text}
            json.dump({"data": module_data(data), **texts}, file)
        os.replace(temporary, path)
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)


def _path(key: str) -> Path:
    return cache_folder() / "networks" / f"{key}.json"


def _files(database: Any) -> list[Path]:
    if database is None:
        return [Database(None).path, *(found.path for found in packaged())]
    return [Database.open(database).path]


def _stamp(path: Path) -> list[Any]:
    try:
        found = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), found.st_size, found.st_mtime_ns]


__all__ = ["cache_key", "cached", "store"]
