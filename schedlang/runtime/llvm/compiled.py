"""Kernels that LLVM compiles from the machine nest: compiled, kept in the cache, and loaded."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import llvmlite
import numba

from schedlang.runtime.cache_files import COMPILED, contents, store
from schedlang.runtime.llvm.library import Library, Subject, packed, unpacked
from schedlang.runtime.llvm.symbols import name_objects, symbol_of
from schedlang.runtime.numba_cache import SETTINGS
from schedlang.runtime.numba_internals import (
    config,
    cpu_context,
    global_compiler_lock,
    python_function,
)
from schedlang.runtime.numba_parallel import start_threads
from schedlang.runtime.one_process import one_process
from schedlang.version import __version__

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest


@dataclass(frozen=True)
class Compiled:
    """A kernel as a function of Python, and its machine code.

    ``library`` has the code of the function ``symbol``, and ``code`` is the object file.
    """

    function: Callable[..., None]
    library: Any
    symbol: str
    code: bytes


# the adapters to numba that write code
ADAPTERS = ("internals", "parallel", "team")
# what was compiled or loaded, by the keys: LLVM keeps code until the process ends
_KNOWN: dict[str, Compiled] = {}


def compiled(subject: Subject) -> Compiled:
    """Return a kernel as a function of Python: from memory, from the cache folder, or compiled."""
    with global_compiler_lock:
        key, path = _key(subject), subject.path
    kept = path.with_name(f"{path.stem}.{key}{COMPILED.suffix}")
    known, was_there = _KNOWN.get(key), kept.exists()
    if known is not None:
        if not was_there:
            # the process has another cache folder by now
            store(COMPILED, kept, known.code)
        return known
    code = contents(COMPILED, kept)
    # a network makes its nest under its own lock: a thread that has that one may compile
    nest = subject.nest() if code is None else None
    with one_process(path), global_compiler_lock:
        if key not in _KNOWN:
            if code is None and not was_there:
                # another process may have compiled it meanwhile
                code = contents(COMPILED, kept)
            _KNOWN[key] = _loaded(subject, key, kept, code, nest)
        return _KNOWN[key]


def _loaded(
    subject: Subject, key: str, kept: Path, code: bytes | None, nest: MachineNest | None
) -> Compiled:
    """Return a kernel from its ``code``, or if there is none, from its ``nest``."""
    name, prefix = subject.name, f"schedlang.{key}"
    symbol = symbol_of(prefix, name)
    called = f"from_python.{symbol}"
    name_objects()
    if subject.threads:
        # this also lets LLVM find the functions that launch loops
        start_threads()
    library = Library(cpu_context().codegen(), name)
    if code is None:
        assert nest is not None
        # a process that loads a kernel imports no printer
        from schedlang.runtime.llvm.failures import explained
        from schedlang.runtime.llvm.printed import objects_of

        with explained(nest, subject.path, subject.fastmath):
            code = packed(objects_of(subject, nest, prefix, called))
        store(COMPILED, kept, code)
    library.load(unpacked(code), [symbol, called])
    address = library.get_pointer_to_function(called)
    function = python_function(name, ModuleType(subject.path.stem), address, library)
    return Compiled(function, library, symbol, code)


@lru_cache(maxsize=1)
def _printers_key() -> str:
    """Return a hash of what writes LLVM's code."""
    folder = Path(__file__).parent
    texts = [path.read_bytes() for path in sorted(folder.glob("*.py"))]
    texts += [(folder.parent / f"numba_{name}.py").read_bytes() for name in ADAPTERS]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _key(subject: Subject) -> str:
    """Return a hash of all that the machine code depends on.

    The path has one of the file's text and of the intrinsics.
    """
    settings = [getattr(config, name, None) for name in SETTINGS]
    about = [
        subject.path.name, subject.name, subject.fastmath, _printers_key(), settings,
        cpu_context().codegen().magic_tuple(), numba.__version__, llvmlite.__version__,
        __version__,
        sys.version,
    ]  # fmt: skip
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16]
