"""Where the benchmarks keep what peers compiled: ``SCHEDLANG_BENCHMARKS``, or the user's cache."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """A folder of that name in the cache; it is made."""
    root = os.environ.get("SCHEDLANG_BENCHMARKS")
    base = Path(root) if root else Path.home() / ".cache" / "schedlang-benchmarks"
    made = base / name
    made.mkdir(parents=True, exist_ok=True)
    return made
