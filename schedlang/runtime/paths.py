"""Paths that users give to save and load."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from schedlang.errors import CallTypeError, explain


def path_of(path: Any, asked: str) -> Path:
    """Return what a user gave to ``asked`` as a path.

    Raises :class:`~schedlang.errors.CallTypeError` for anything else than text or a path.

    >>> path_of("k.c", "save").name
    'k.c'
    >>> path_of(3, "save")
    Traceback (most recent call last):
    ...
    schedlang.errors.CallTypeError: save(3): a path is text or a pathlib.Path, not int
      Give a path, as in save("folder/name").
    """
    if isinstance(path, (str, os.PathLike)) and isinstance(os.fspath(path), str):
        return Path(path)
    raise CallTypeError(
        explain(
            f"{asked}({path!r})",
            f"a path is text or a pathlib.Path, not {type(path).__name__}",
            f'Give a path, as in {asked}("folder/name").',
        )
    )
