"""The cache folder: writing emitted files, and loading them as modules."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Collection
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from schedlang import intrinsics
from schedlang.errors import BuildError
from schedlang.machine.names import short_name

# several threads may call a kernel for the first time at once
_LOADING = threading.Lock()
# versions of numba, without the patch level, whose inner parts numba_compiler knows
QUICK = frozenset({(0, 68)})


def cache_folder() -> Path:
    """Return the folder of emitted kernels and tuning records.

    It is ``SCHEDLANG_CACHE`` if that is set, else a folder in the user's cache. Raises
    :class:`~schedlang.errors.BuildError` if it cannot be created.
    """
    given = os.environ.get("SCHEDLANG_CACHE")
    if given:
        folder = Path(given).expanduser()
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


@lru_cache(maxsize=1)
def intrinsics_key() -> str:
    """Return a hash of the intrinsics' source; a change of an intrinsic makes new kernel files."""
    digest = hashlib.sha256()
    for path in sorted(Path(intrinsics.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def write(text: str, name: str, suffix: str = ".py") -> Path:
    """Write ``text`` to a file of the cache folder, named after its content, and return its path.

    The file appears complete or not at all.
    """
    key = hashlib.sha256((intrinsics_key() + text).encode()).hexdigest()[:16]
    folder = cache_folder() / "kernels"
    path = folder / f"{short_name(name)}_{key}{suffix}"
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return path
    temporary = ""
    try:
        folder.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise BuildError(
            f"the source of the kernel cannot be written to {folder} ({error.strerror}): set "
            "SCHEDLANG_CACHE to a writable folder"
        ) from None
    return path


def written(path: Path, write: Callable[[IO[bytes]], Any]) -> bool:
    """Write a file of the cache folder, complete or not at all, and return whether it is there.

    What cannot be written, as on a full disk, is left out: the next process makes it again.
    """
    temporary = ""
    try:
        path.parent.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            write(file)
        os.replace(temporary, path)
    except OSError:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        return False
    return True


def load_kernel(path: Path, entry: str, called: Collection[str] = ()) -> ModuleType:
    """Return the module of the CPU kernel at ``path``, whose functions numba compiles quickly.

    ``entry`` is the name of the function that the kernel calls, and ``called`` are those that no
    caller inlines. Versions of numba that are not in
    ``QUICK`` compile the file as it is, which takes longer and computes the same.
    """

    def prepare(module: ModuleType) -> None:
        # target="python" has a twin of njit, and does without numba
        if getattr(module, "njit", load_kernel).__module__.startswith("numba."):
            from numba import version_info

            if version_info.short in QUICK:
                from schedlang.runtime.numba_compiler import quicken

                quicken(module, entry, called)

    return load(path, prepare)


def load(path: Path, prepare: Callable[[ModuleType], None] | None = None) -> ModuleType:
    """Return the module at ``path``; ``prepare`` changes it when its code has run.

    It is in ``sys.modules`` before its code runs, as numba's cache requires.
    """
    name = f"schedlang_kernels.{path.stem}"
    with _LOADING:
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None) == str(path):
            return module
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
            if prepare is not None:
                prepare(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module
