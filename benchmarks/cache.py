"""The folder for what peers compile: ``SCHEDLANG_BENCHMARKS``, or one in the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """Return the folder of that name in the cache, and create it where it is missing."""
    root = os.environ.get("SCHEDLANG_BENCHMARKS")
    base = Path(root) if root else Path.home() / ".cache" / "schedlang-benchmarks"
    made = base / name
    made.mkdir(parents=True, exist_ok=True)
    return made
