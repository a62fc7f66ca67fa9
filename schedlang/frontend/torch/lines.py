"""The user's lines: of a node of a graph, and of an error inside PyTorch."""

from __future__ import annotations

import linecache
import os
import re
import sys
from functools import cache
from traceback import walk_tb
from typing import Any

_STANDARD = os.path.dirname(linecache.__file__) + os.sep
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in [^\n]*\n\s*(?P<code>[^\n]*)')


def line_of(node: Any) -> str:
    """Return the user's line that calls ``node``, as ``net.py:12: y = x.sort()``; "" if unknown."""
    frames = [m.groupdict() for m in _FRAME.finditer(node.meta.get("stack_trace") or "")]
    own = [frame for frame in frames if not _is_library(frame["file"])]
    if not own:
        return ""
    return _text(own[-1]["file"], int(own[-1]["line"]), own[-1]["code"])


def line_of_error(error: BaseException) -> tuple[str, list[Any]]:
    """Return the user's last line in a traceback, and the ``self`` of its methods, last first."""
    last_line, owners = "", []
    for frame, line in walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        owners.append(frame.f_locals.get("self"))
        if not _is_library(path) and os.path.exists(path):
            last_line = _text(path, line, linecache.getline(path, line, frame.f_globals))
    return last_line, owners[::-1]


def line_of_frame(frame: Any) -> str:
    """Return the user's line of a ``FrameSummary``; "" for ``None`` and for a library's."""
    if frame is None or not os.path.exists(frame.filename) or _is_library(frame.filename):
        return ""
    return _text(frame.filename, frame.lineno, linecache.getline(frame.filename, frame.lineno))


def line_of_call(frame: Any) -> str:
    """Return the line of a frame, or of its caller where a method of PyTorch's sizes calls.

    It is "" for other lines of a library.
    """
    # a SymInt is true where it differs from 0: the same file compares them; max is sym_max
    while frame.f_back is not None and frame.f_code.co_filename in _size_files():
        frame = frame.f_back
    path, line = frame.f_code.co_filename, frame.f_lineno
    if _is_library(path) or not os.path.exists(path):
        return ""
    return _text(path, line, linecache.getline(path, line, frame.f_globals))


def _text(path: str, line: int, code: str) -> str:
    short = " ".join(code.split())
    return f"{os.path.basename(path)}:{line}: {short if len(short) <= 80 else f'{short[:77]}...'}"


def _is_library(path: str) -> bool:
    """Return whether a file is of Python, PyTorch or this package, or code that PyTorch made."""
    if path.startswith("<eval_with_key>"):
        return True
    if any(path.startswith(folder) for folder in _folders()):
        return True
    return path.startswith(_STANDARD) and "site-packages" not in path


def _size_files() -> tuple[str, ...]:
    """Return the files of PyTorch's sizes, and of the calls of max and min in forward."""
    names = ("", "._export.non_strict_utils", ".overrides", ".fx.experimental.proxy_tensor")
    modules = (sys.modules.get(f"torch{name}") for name in names)
    return tuple(str(module.__file__) for module in modules if module is not None)


@cache
def _folders() -> tuple[str, ...]:
    files = (sys.modules[name].__file__ for name in ("schedlang", "torch"))
    return tuple(os.path.dirname(file) + os.sep for file in files if file)
