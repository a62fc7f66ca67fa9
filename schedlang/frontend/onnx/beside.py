"""The data beside a model, in files of its folder: checked at once, read once when needed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Any

from schedlang.errors import FrontendError, explain

# a file by its device and number, which links share, the first byte, how many, and their dtype
Region = tuple[tuple[int, int], int, int, str]


@dataclass(frozen=True)
class Beside:
    """The files in the ``folder`` of a model, and which of their bytes its arrays are.

    Arrays of the same bytes and dtype share them, so that a small model with one file of data
    cannot become many times as much.
    """

    folder: Path | None
    _claimed: set[Region] = field(default_factory=set)
    _held: dict[tuple[int, int], int] = field(default_factory=dict)
    _read: dict[Region, bytearray] = field(default_factory=dict)

    def reader(self, proto: Any, what: str, needed: int, dtype: str) -> Callable[[], bytearray]:
        """Return the function that reads the ``needed`` bytes of a ``TensorProto``, named ``what``.

        Raises :class:`~schedlang.errors.FrontendError` for a place outside of the folder, for one
        that is not a plain file, for a length other than ``needed``, and for arrays that overlap.
        """
        entries = {entry.key: entry.value for entry in proto.external_data}
        if self.folder is None:
            raise FrontendError(
                explain(
                    what,
                    "its data are in a file beside the model, whose folder is not known",
                    "Give the path of the model's file: from_onnx(path).",
                )
            )
        path = _inside(self.folder, entries.get("location", ""), what)
        offset = _number(entries.get("offset", "0"), "offset", what)
        length = _number(entries.get("length", str(needed)), "length", what)
        if length != needed:
            raise FrontendError(
                explain(
                    what,
                    f"its shape needs {needed} bytes, but the file has {length}",
                    "The file is damaged; export the model again.",
                )
            )
        with open(_opened(path, what), "rb") as file:
            about = os.fstat(file.fileno())
        if offset + needed > about.st_size:
            raise FrontendError(
                f"{what}: bytes {offset} to {offset + needed} of {path.name} hold its data, but "
                f"the file has {about.st_size}"
            )
        region = ((about.st_dev, about.st_ino), offset, needed, dtype)
        self._claim(region, about.st_size, f"{what}: its data are in {path.name}")
        return lambda: self._bytes(region, path, what)

    def _claim(self, region: Region, size: int, where: str) -> None:
        """Raise if the arrays of a file need more than it has; equal arrays count once."""
        if region in self._claimed:
            return
        self._claimed.add(region)
        file, _, needed, _ = region
        self._held[file] = self._held.get(file, 0) + needed
        if self._held[file] > size:
            raise FrontendError(
                explain(
                    where,
                    f"whose {size} bytes hold arrays of more than that, which overlap",
                    "Save the data again: each array at a place of its own, or all of it shared.",
                )
            )

    def _bytes(self, region: Region, path: Path, what: str) -> bytearray:
        data = self._read.get(region)
        if data is None:
            _, offset, needed, _ = region
            data = self._read[region] = bytearray(needed)
            with open(_opened(path, what), "rb") as file:
                file.seek(offset)
                if file.readinto(data) != needed:
                    raise FrontendError(f"{what}: {path.name} became shorter while it was read")
        return data


def _inside(folder: Path, location: str, what: str) -> Path:
    """Return the path of a file in ``folder`` or below, which no link leads out of."""
    parts = location.replace("\\", "/").split("/")
    windows = PureWindowsPath(location)
    bad = (
        not location
        or not location.isprintable()
        or windows.drive
        or windows.root
        or any(part in ("", ".", "..") for part in parts)
    )
    if bad:
        raise FrontendError(
            explain(
                what,
                f"its data are at {location[:80]!r}, which is not a path into the model's folder",
                "Save the data beside the model, under a relative path without '..'.",
            )
        )
    path = folder
    for part in parts:
        path = path / part
        if path.is_symlink():
            raise FrontendError(
                explain(
                    what,
                    f"its data are at {location[:80]!r}, of which {part!r} is a symbolic link",
                    "Replace the link by the file itself.",
                )
            )
    return path


def _number(text: str, key: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise FrontendError(
            f"{what}: the {key} of its data is {text[:40]!r}, which is not a number"
        )
    return int(text)


def _opened(path: Path, what: str) -> int:
    """Return the descriptor of a plain file, which is not followed if it is a link by now."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    except OSError as error:
        raise FrontendError(
            f"{what}: its data are in {path.name}, which cannot be read: {error.strerror}"
        ) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FrontendError(f"{what}: its data are in {path.name}, which is not a plain file")
    return descriptor
