"""Files of the cache folder, which are checked before anything in them is used.

Each file ends in a line with a digest of what stands before it. A disk that was full, a process
that was killed and a bad sector leave a file whose digest differs: it is removed with a
:class:`~schedlang.errors.CacheWarning`, and whoever asked for it makes it again. Emitted source
needs no digest: it is compared with the text that is emitted now.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Optional
from uuid import uuid4

from schedlang.errors import BuildError, CacheWarning
from schedlang.runtime.cache_room import entry_of, keep_within_limit, remove_oldest

# what a process that was killed leaves is removed after this many seconds
LEFT_FOR = 24 * 3600
# Windows alone has files of text
_BINARY = getattr(os, "O_BINARY", 0)
# the bytes of a page, by which what is damaged differs
_PAGE = 4096


def _sha256(content: Any) -> bytes:
    return b"sha256 " + hashlib.sha256(content).hexdigest().encode()


def _sums(content: Any) -> bytes:
    """Return a checksum of the sums of pages, in a fifth of the time of one of all bytes."""
    # the commands for the cache folder alone do without
    import numpy as np

    whole = np.frombuffer(content, "uint8")
    end = whole.size // _PAGE * _PAGE
    sums = whole[:end].view("uint64").reshape(-1, _PAGE // 8).sum(axis=1, dtype="uint64")
    return f"sums {zlib.crc32(whole[end:].data, zlib.crc32(sums.data)):08x}".encode()


@dataclass(frozen=True)
class Kind:
    """A kind of file in the cache folder.

    ``what`` names it in warnings, and ``folder`` and ``suffix`` say where it is. Where there is a
    limit ``most_bytes``, the files that were used last are kept. ``digest`` returns a line. A
    ``cheap`` file takes milliseconds to make: nobody is told that the folder takes none.
    """

    what: str
    folder: str
    suffix: str
    most_bytes: Optional[int] = None
    digest: Callable[[Any], bytes] = _sha256
    cheap: bool = False

    def path(self, name: str) -> Path:
        """Return the path of the file ``name`` of this kind.

        Raises :class:`~schedlang.errors.BuildError` if the cache folder cannot be created.
        """
        return cache_folder() / self.folder / f"{name}{self.suffix}"


class Verified(NamedTuple):
    """The content of a file that has its digest."""

    content: memoryview
    digest: str


BYTECODE = Kind("Python bytecode", "kernels", ".pyc", cheap=True)
COMPILED = Kind("compiled kernel", "kernels", ".nbc")
LIBRARY = Kind("shared library", "kernels", ".so")
MACHINE_CODE = Kind("machine code of a GPU kernel", "machine_code", ".json")
MODULE = Kind("module of a network", "networks", ".json")
TRIAL = Kind("trial of an instruction", "kernels", ".trial", cheap=True)
# gigabytes, which each load checks
WEIGHTS = Kind("packed weights of a network", "networks", ".weights", 4 << 30, _sums)
KINDS = (BYTECODE, COMPILED, LIBRARY, MACHINE_CODE, MODULE, TRIAL, WEIGHTS)
# the folders in the cache folder whose files can be made again
FOLDERS = tuple(sorted({kind.folder for kind in KINDS}))


def cache_folder() -> Path:
    """Return the folder of emitted kernels and tuning records.

    It is ``SCHEDLANG_CACHE`` if that is set, else a folder in the user's cache. Raises
    :class:`~schedlang.errors.BuildError` if it cannot be created.
    """
    setting = os.environ.get("SCHEDLANG_CACHE")
    if setting:
        folder = Path(setting).expanduser()
    elif sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA", Path.home())) / "schedlang"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        folder = Path(base) / "schedlang"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(
            f"the cache folder {folder} cannot be created ({error.strerror}): set SCHEDLANG_CACHE "
            "to a writable folder"
        ) from None
    return folder


def contents(kind: Kind, path: Path) -> bytes | None:
    """Return what :func:`store` wrote, or ``None`` if the file is missing or damaged.

    A damaged file is removed, and a :class:`~schedlang.errors.CacheWarning` names it.
    """
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        _give_up(kind, path, error.strerror or "it cannot be read")
        return None
    verified = _verified(kind, path, memoryview(whole))
    return None if verified is None else whole[: len(verified.content)]


def memory_map(kind: Kind, path: Path) -> Verified | None:
    """Return what :func:`store` wrote as a private map of the file, else as :func:`contents`.

    Processes share the pages of the map. What is written to it stays in this process.
    """
    try:
        with path.open("rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        # ValueError: an empty file has no map
        _give_up(kind, path, getattr(error, "strerror", None) or "it is empty")
        return None
    return _verified(kind, path, memoryview(whole))


def store(kind: Kind, path: Path, content: Any) -> str | None:
    """Write a file, complete or not at all, and return its digest, ``None`` if it is not there.

    ``content`` is bytes, or an array of them. A :class:`~schedlang.errors.CacheWarning` says why a
    file cannot be written, such as on a full disk: the next process makes its content again. What
    is larger than all files of the kind may be is not written.
    """
    view = memoryview(content).cast("B")
    if kind.most_bytes is not None and len(view) > kind.most_bytes:
        return None
    digest = kind.digest(view)
    try:
        write_whole(path, view, b"\n", digest, b"\n")
    except OSError as error:
        if kind.cheap:
            return None
        warnings.warn(
            f"the cache folder {path.parent} takes no {kind.what} ({error.strerror}), so that "
            "later processes make it again: free some space, or set SCHEDLANG_CACHE to a folder "
            "that can be written",
            CacheWarning,
            stacklevel=2,
        )
        return None
    if kind.most_bytes is not None:
        of_the_kind = path.parent.glob(f"*{kind.suffix}")
        remove_oldest([entry_of([file]) for file in of_the_kind], kind.most_bytes, path)
    return digest.decode()


def write_whole(path: Path, *parts: Any) -> None:
    """Write the ``parts`` to a file of the cache folder, which appears complete or not at all.

    Files that were not used for longest go if the folder is over its limit. Raises
    :class:`OSError`,
    and :class:`~schedlang.errors.BuildError` for a limit that is not a size.
    """
    path.parent.mkdir(exist_ok=True)
    _remove_leftovers(path.parent)
    # as the user's other files: in a folder of several users, each reads what others made
    temporary = path.parent / f"tmp{uuid4().hex}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o644)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
        try:
            os.replace(temporary, path)
        except OSError:
            if not path.is_dir():
                raise
            _remove(path)
            os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    keep_within_limit(path.parent.parent, FOLDERS, path)


def warn_of_damage(what: str, path: Path, why: str = "its content was changed") -> None:
    """Warn of a file of the cache folder that is made again."""
    warnings.warn(
        f"the {what} {path} is damaged ({why}): it is made again", CacheWarning, stacklevel=2
    )


def _verified(kind: Kind, path: Path, whole: memoryview) -> Verified | None:
    """Return what stands before the digest at the end of a file, ``None`` if it is damaged."""
    size = len(whole) - 2 - len(kind.digest(b""))
    digest = kind.digest(whole[: max(size, 0)])
    if size < 0 or whole[size:] != b"\n" + digest + b"\n":
        _give_up(kind, path)
        return None
    # where room is needed, what was used last stays
    with suppress(OSError):
        os.utime(path)
    return Verified(whole[:size], digest.decode())


def _give_up(kind: Kind, path: Path, why: str = "its digest differs") -> None:
    _remove(path)
    warn_of_damage(kind.what, path, why)


def _remove(path: Path) -> None:
    """Remove a file; what stands in its place and may be the user's own is only renamed."""
    # another process may have done so
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            path.rename(tempfile.mkdtemp(dir=path.parent, prefix=f"{path.name}.moved-"))
        else:
            path.unlink()


@cache
def _remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of a folder that a killed process left a day ago, once."""
    oldest = time.time() - LEFT_FOR
    for path in folder.glob("tmp*.tmp"):
        with suppress(OSError):
            if path.stat().st_mtime < oldest:
                path.unlink()
