"""The computations whose times were looked up in databases, and the files as they were then.

A module in the cache folder stays until a database has other trials of one of these computations: a
search of another one appends lines that it does not depend on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from schedlang.compute.tensor import Tensor

# the bytes that are read at once
_CHUNK = 1 << 20


@dataclass(frozen=True)
class FileState:
    """The state of a file: its size, the time of its last change, and a hash of its bytes.

    The size of a file that cannot be read is -1. ``ended``: its last line has a newline.
    """

    path: str
    size: int = -1
    time: int = 0
    hash: str = ""
    ended: bool = False


@dataclass(frozen=True)
class LookedUp:
    """The keys of computations that were looked up in files, and the ``files`` before that."""

    computations: tuple[str, ...]
    files: tuple[FileState, ...]

    def stands(self) -> bool:
        """Return whether no file has other trials of the computations by now."""
        return all(_stands(state, self.computations) for state in self.files)

    @staticmethod
    def from_data(data: Any) -> LookedUp:
        """Return the value of which ``dataclasses.asdict`` made JSON values.

        Raise ``KeyError`` or ``TypeError`` for other data.
        """
        return LookedUp(
            tuple(data["computations"]), tuple(FileState(**state) for state in data["files"])
        )


def states(files: Iterable[Path]) -> tuple[FileState, ...]:
    """Return the states of files."""
    return tuple(map(_state, files))


def looked_up(groups: Iterable[Sequence[Tensor]], files: Sequence[FileState]) -> LookedUp:
    """Return the record for computations, each the outputs of a kernel."""
    # a process that loads a known network imports no graphs
    from schedlang.compute.data import structure

    return LookedUp(tuple(sorted({structure(outputs).key for outputs in groups})), tuple(files))


def _state(path: Path) -> FileState:
    try:
        status = path.stat()
        digest, ended = _hashed(path, status.st_size)
    except OSError:
        return FileState(str(path))
    return FileState(str(path), status.st_size, status.st_mtime_ns, digest, ended)


def _hashed(path: Path, size: int) -> tuple[str, bool]:
    """Return a hash of the first ``size`` bytes of a file, and whether they end a line.

    All of them: somebody may have edited a line in the middle, and kept its length.
    """
    digest, last = hashlib.blake2b(), b""
    with open(path, "rb") as file:
        while size > 0 and (part := file.read(min(size, _CHUNK))):
            digest.update(part)
            size, last = size - len(part), part
    return digest.hexdigest(), last.endswith(b"\n")


def _stands(state: FileState, computations: Sequence[str]) -> bool:
    """Return whether a file is as it was, or has only lines of other computations since then."""
    path = Path(state.path)
    try:
        status = path.stat()
        if (status.st_size, status.st_mtime_ns) == (state.size, state.time):
            return True
        if state.size > 0:
            # a line that had no end may be the start of any line
            if not state.ended or _hashed(path, state.size)[0] != state.hash:
                return False
        from schedlang.autotune.records.lines import computations_from

        return computations_from(path, max(0, state.size)).isdisjoint(computations)
    except OSError:
        return state.size < 0
