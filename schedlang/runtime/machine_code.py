"""Machine code of GPU kernels in the cache folder: a process compiles none that another one did."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple, Optional

from schedlang.errors import BuildError
from schedlang.runtime.cache_files import MACHINE_CODE, contents, store
from schedlang.version import __version__

FORMAT = 2
# the packages that make machine code of a file
COMPILERS = ("numba", "numba-cuda", "llvmlite", "nvidia-nvvm", "nvidia-cuda-nvcc")


class Assembled(NamedTuple):
    """The PTX of a kernel, its machine code, and what ptxas said about it."""

    ptx: str
    cubin: bytes
    messages: str


def code_key(path: Path, name: str, arch: str, options: tuple[bool, ...], ptxas: Path) -> str:
    """Return a key of all that determines the machine code of the kernel ``name``.

    ``path`` is the path of an emitted file, which is named after its content and the intrinsics.
    """
    try:
        status = ptxas.stat()
        tool = [str(ptxas), status.st_size, status.st_mtime_ns]
    except OSError:
        tool = [str(ptxas)]
    whole = [FORMAT, __version__, str(path), name, arch, options, _versions(), tool]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:24]


@cache
def _versions() -> tuple[tuple[str, Optional[str]], ...]:
    return tuple((name, _version(name)) for name in COMPILERS)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def kept_code(key: str) -> Assembled | None:
    """Return what :func:`keep_code` wrote, ``None`` if there is nothing that can be read."""
    try:
        content = contents(MACHINE_CODE, MACHINE_CODE.path(key))
    except BuildError:
        # no folder
        return None
    if content is None:
        return None
    fields = json.loads(content)
    cubin = base64.b64decode(fields["cubin"], validate=True)
    return Assembled(fields["ptx"], cubin, fields["messages"])


def keep_code(key: str, code: Assembled) -> None:
    """Write machine code, unless the cache folder takes no file."""
    text = base64.b64encode(code.cubin).decode("ascii")
    fields = {"ptx": code.ptx, "cubin": text, "messages": code.messages}
    store(MACHINE_CODE, MACHINE_CODE.path(key), json.dumps(fields).encode())
