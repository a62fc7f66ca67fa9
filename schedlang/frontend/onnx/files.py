"""ONNX models from a path, their bytes or a ``ModelProto``: only parsed, with a bounded size."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from schedlang.errors import FrontendError, explain, missing_extra, text_of
from schedlang.frontend.onnx.limits import MOST_BYTES


def library() -> Any:
    """Return the module ``onnx``, or raise the error that says how to install it."""
    try:
        import onnx
    except ImportError:
        raise missing_extra("onnx", "onnx", "schedlang.frontend.from_onnx") from None
    return onnx


def read(given: Any) -> tuple[Any, Path | None]:
    """Return a ``ModelProto``, and the folder of its file if it is from one.

    ``given`` is a path, the bytes of a file or a ``ModelProto``. Raises
    :class:`~schedlang.errors.FrontendError` if it is none of them or cannot be parsed, and
    :class:`~schedlang.errors.MissingExtraError` without ``onnx``.
    """
    onnx = library()
    if isinstance(given, onnx.ModelProto):
        return given, None
    if isinstance(given, (bytes, bytearray, memoryview)):
        return _parsed(onnx, bytes(given), "the bytes"), None
    if not isinstance(given, (str, os.PathLike)):
        raise FrontendError(
            explain(
                f"from_onnx({text_of(given)})",
                f"it is a {type(given).__name__}",
                "Give the path of an .onnx file, its bytes, or an onnx.ModelProto.",
            )
        )
    path = Path(os.fsdecode(given))
    return _parsed(onnx, _contents(path), f"{path.name}"), path.parent


def _contents(path: Path) -> bytes:
    asked = f"from_onnx({str(path)!r})"
    try:
        # a pipe would wait for its other end
        with open(
            os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)),
            "rb",
        ) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                raise FrontendError(
                    f"{asked}: it is not a plain file; give the path of an .onnx file"
                )
            if about.st_size >= MOST_BYTES:
                raise FrontendError(
                    explain(
                        asked,
                        f"it has {about.st_size:,} bytes, and an .onnx file less than 2 GiB",
                        "Save large weights beside it: onnx.save(..., save_as_external_data=True).",
                    )
                )
            return file.read()
    except (OSError, ValueError) as error:
        if isinstance(error, FrontendError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise FrontendError(f"{asked}: it cannot be read: {reason}") from None


def _parsed(onnx: Any, data: bytes, what: str) -> Any:
    from google.protobuf.message import DecodeError

    try:
        model = onnx.ModelProto.FromString(data)
    except DecodeError:
        raise FrontendError(
            explain(
                f"from_onnx: {what}",
                f"{len(data):,} bytes are not an ONNX model: they are damaged, of another kind, "
                "or nested too deeply",
                "onnx.checker.check_model(path) says more.",
            )
        ) from None
    return model
