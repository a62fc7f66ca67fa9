"""Room in the cache folder: what it keeps, and what goes first when there is too much."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from schedlang.errors import BuildError

LIMIT = "SCHEDLANG_CACHE_LIMIT"
# thousands of tuned kernels, and the packed weights of a dozen networks
DEFAULT_LIMIT = 8 * 10**9
# a folder of 10,000 files takes 50 ms to measure: the processes that write to it share one look
SECONDS_BETWEEN_LOOKS = 600
_LOOKED = ".measured"
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """The files in the cache folder of one kernel or network, which are used together.

    ``used`` is the time of the last use, in seconds as :func:`time.time` counts them.
    """

    paths: tuple[Path, ...]
    bytes: int
    used: float

    @property
    def folder(self) -> str:
        """The part of the cache folder, such as ``kernels``."""
        return self.paths[0].parent.name

    @property
    def name(self) -> str:
        """The first part of the files' names, which all of them have."""
        return self.paths[0].name.partition(".")[0]


def limit() -> int | None:
    """Return how many bytes the cache folder may have, ``None`` without a limit.

    It is ``SCHEDLANG_CACHE_LIMIT``, such as ``500M`` or ``20GB``, where ``0`` means no limit.
    Raises :class:`~schedlang.errors.BuildError` for a value that is not a size.
    """
    text = os.environ.get(LIMIT)
    if not text:
        return DEFAULT_LIMIT
    size = _SIZE.fullmatch(text)
    if size is None:
        raise BuildError(
            f"{LIMIT}={text}: this is not a size; give a number of bytes or one with a unit, such "
            "as 500M or 20GB, or 0 for no limit"
        )
    number, unit, binary = size.groups()
    return int(float(number) * (1024 if binary else 1000) ** _UNITS[unit.upper()]) or None


def entries(folder: Path, parts: Iterable[str]) -> list[Entry]:
    """Return what stands in the ``parts`` of the cache folder."""
    files: dict[tuple[str, str], list[Path]] = {}
    for part in parts:
        for path in sorted((folder / part).glob("*")):
            # another process writes a temporary file; what was moved may be the user's own
            if path.suffix != ".tmp" and ".moved-" not in path.name:
                files.setdefault((part, path.name.partition(".")[0]), []).append(path)
    return [entry_of(paths) for paths in files.values()]


def entry_of(paths: Sequence[Path]) -> Entry:
    """Return the entry of some files; another process may have removed one of them."""
    sizes, times = [0], [0.0]
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            sizes.append(status.st_size)
            times.append(status.st_mtime)
    return Entry(tuple(paths), sum(sizes), max(times))


def by_last_use(listed: Iterable[Entry]) -> list[Entry]:
    """Return entries in the order of their last use, the latest first."""
    return sorted(listed, key=lambda entry: (-entry.used, entry.paths))


def remove(entry: Entry) -> None:
    """Remove the files of an entry, but for those that the system holds."""
    for path in entry.paths:
        # Windows forbids to remove a file that another process maps
        with suppress(OSError):
            path.unlink()


def remove_oldest(listed: Iterable[Entry], most_bytes: int, kept: Path) -> list[Entry]:
    """Remove entries until ``most_bytes`` are left, and return them: those used last stay.

    The entry of the file ``kept`` stays in any case.
    """
    oldest_first = by_last_use(listed)[::-1]
    left = sum(entry.bytes for entry in oldest_first)
    removed = []
    for entry in oldest_first:
        if left <= most_bytes:
            break
        if kept not in entry.paths:
            remove(entry)
            removed.append(entry)
            left -= entry.bytes
    return removed


def keep_within_limit(folder: Path, parts: Iterable[str], kept: Path) -> None:
    """Remove what was not used for longest if the cache folder is over its limit.

    A file ``.measured`` in the folder says when a process last looked, so that not every kernel
    that is written has the folder measured.
    """
    most_bytes = limit()
    if most_bytes is None:
        return
    looked = folder / _LOOKED
    # a folder that takes no file was warned of where the file was written
    with suppress(OSError):
        if looked.exists() and time.time() - looked.stat().st_mtime < SECONDS_BETWEEN_LOOKS:
            return
        looked.touch()
        remove_oldest(entries(folder, parts), most_bytes, kept)
