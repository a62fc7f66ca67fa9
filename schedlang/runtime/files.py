"""Emitted files: writing them to the cache folder, and loading them as modules."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import schedlang
from schedlang.codegen.listing import Launch
from schedlang.errors import BuildError
from schedlang.machine.file_names import KEPT_BY_NUMBA, short_name
from schedlang.runtime.cache_files import (
    BYTECODE,
    cache_folder,
    contents,
    store,
    warn_of_damage,
    write_whole,
)
from schedlang.runtime.one_process import compile_in_one_process

# several threads may call a kernel for the first time at once
_LOADING = threading.Lock()
# versions of numba, without the patch level, whose inner parts numba_compiler knows
QUICK = frozenset((0, minor) for minor in range(62, 69))


@lru_cache(maxsize=1)
def intrinsics_key() -> str:
    """Return a hash of the intrinsics' source; a change of an intrinsic makes new kernel files."""
    root = Path(schedlang.__file__).parent
    # the elementary functions and the operators, of which a kernel file has the text alone
    expressions = (root / "expr" / name for name in ("functions.py", "operators.py"))
    digest = hashlib.sha256()
    for path in (*sorted((root / "intrinsics").rglob("*.py")), *expressions):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def write(text: str, name: str, suffix: str = ".py") -> Path:
    """Write ``text`` to a file of the cache folder, named after its content, and return its path.

    The file appears complete or not at all. One with another content is written again, with a
    :class:`~schedlang.errors.CacheWarning`. Raises :class:`~schedlang.errors.BuildError` if the
    folder takes no file.
    """
    key = hashlib.sha256((intrinsics_key() + text).encode()).hexdigest()[:16]
    folder = cache_folder() / "kernels"
    path = folder / f"{short_name(name)}_{key}{suffix}"
    content = text.encode()
    try:
        if path.read_bytes() == content:
            return path
        warn_of_damage("emitted source", path)
    except FileNotFoundError:
        pass
    except OSError as error:
        warn_of_damage("emitted source", path, error.strerror or "it cannot be read")
    try:
        write_whole(path, content)
    except OSError as error:
        raise BuildError(
            f"the source of the kernel cannot be written to {folder} ({error.strerror}): free some "
            "space, or set SCHEDLANG_CACHE to a folder that can be written"
        ) from None
    return path


def load_kernel(
    path: Path, entry: str, called: Collection[str] = (), launches: Sequence[Launch] = ()
) -> ModuleType:
    """Return the module of the CPU kernel at ``path``, whose functions numba compiles quickly.

    ``entry`` is the name of the function that the kernel calls, and ``called`` are those that no
    caller inlines. ``launches`` are compiled in place of functions with parallel loops. Versions of
    numba that are not in ``QUICK`` compile the file as it is, which takes longer and computes the
    same.
    """

    def prepare(module: ModuleType) -> None:
        if not _compiles(module):
            return
        compile_in_one_process(module, entry)
        from numba import version_info

        if version_info.short in QUICK:
            from schedlang.runtime.numba_compiler import quicken

            quicken(module, entry, called, launches)

    return load(path, prepare)


def load(path: Path, prepare: Callable[[ModuleType], None] | None = None) -> ModuleType:
    """Return the module at ``path``; ``prepare`` changes it when its code has run.

    It is in ``sys.modules`` before its code runs, as numba requires. The machine code that numba
    makes of its functions is kept in the cache folder.
    """
    name = f"schedlang_kernels.{path.stem}"
    with _LOADING:
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None) == str(path):
            return module
        loader = _EmittedLoader(name, str(path))
        spec = spec_from_file_location(name, path, loader=loader)
        assert spec is not None
        module = module_from_spec(spec)
        sys.modules[name] = module
        try:
            loader.exec_module(module)
            if _compiles(module):
                from schedlang.runtime.numba_cache import keep_machine_code

                keep_machine_code(module)
            if prepare is not None:
                prepare(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module


def _compiles(module: ModuleType) -> bool:
    """Return whether numba compiles the functions of a file: ``target="python"`` has a twin."""
    return str(getattr(module, "njit", load_kernel).__module__).startswith("numba.")


class _EmittedLoader(SourceFileLoader):
    """Python's loader of source files, for files of the cache folder.

    Their bytecode is checked like all files of the folder. numba's own cache is off: it refuses
    functions without a folder to write to, and these have another cache.
    """

    def get_data(self, path: str) -> bytes:
        """Return the bytes of the source, or of its bytecode; raise ``OSError`` without one."""
        if path == self.path:
            return super().get_data(path).replace(KEPT_BY_NUMBA.encode(), b"", 1)
        content = contents(BYTECODE, self._bytecode(path))
        if content is None:
            raise FileNotFoundError(path)
        return content

    def set_data(self, path: str, data: Any, *, _mode: int = 0o666) -> None:
        """Write bytecode."""
        store(BYTECODE, self._bytecode(path), data)

    def _bytecode(self, path: str) -> Path:
        # beside the source: Python itself would look into __pycache__
        return Path(self.path).with_name(Path(path).name)
