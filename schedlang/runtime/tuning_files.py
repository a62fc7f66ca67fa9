"""The files of trials that schedules come from if no database is given."""

from __future__ import annotations

from pathlib import Path

from schedlang.runtime.cache_files import cache_folder

_PACKAGED = Path(__file__).parent.parent / "autotune" / "data"


def own_file() -> Path:
    """Return the file of trials in the cache folder.

    Raises :class:`~schedlang.errors.BuildError` if the folder cannot be created.
    """
    return cache_folder() / "tuning.jsonl"


def packaged_files() -> list[Path]:
    """Return the files of trials that come with schedlang."""
    return sorted(_PACKAGED.glob("*.jsonl"))
