"""te's ``tvm.contrib.utils``: folders that are removed when their object is."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any


class TempDirectory:
    """A folder of its own for temporary files, removed with this object or by :meth:`remove`."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)

    @property
    def path(self) -> str:
        return self._folder.name

    def relpath(self, name: str) -> str:
        """Return the path of the file ``name`` in the folder."""
        return str(Path(self.path) / name)

    def listdir(self) -> list[str]:
        """Return the names of the files in the folder."""
        return sorted(entry.name for entry in Path(self.path).iterdir())

    def remove(self) -> None:
        """Remove the folder."""
        self._folder.cleanup()


def tempdir(*ignored: Any) -> TempDirectory:
    """Return a new folder for temporary files.

    >>> folder = tempdir()
    >>> folder.relpath("a.ll").endswith("a.ll"), folder.listdir()
    (True, [])
    """
    return TempDirectory()


__all__ = ["TempDirectory", "tempdir"]
