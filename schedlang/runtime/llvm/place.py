"""The place of a compiled kernel: its key, its file in the cache folder, and its code in memory."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numba

from schedlang.runtime.cache_files import COMPILED
from schedlang.runtime.llvm.library import Library, Subject, unpacked
from schedlang.runtime.llvm.symbols import name_objects, symbol_of
from schedlang.runtime.numba_cache import SETTINGS
from schedlang.runtime.numba_internals import (
    compiler_lock,
    config,
    cpu_context,
    launch_threads,
    python_function,
)
from schedlang.version import __version__


@dataclass(frozen=True)
class Compiled:
    """A kernel as a function of Python, and its machine code.

    ``library`` has the code of the function ``symbol``, and ``code`` is the object file. NumPy
    calls the loop of a ufunc at its ``address``; Python does not call it.
    """

    function: Callable[..., None]
    library: Any
    symbol: str
    code: bytes
    address: int


# the adapters to numba that write code
ADAPTERS = ("internals", "parallel", "team")
# what was compiled or loaded, by the keys: LLVM keeps code until the process ends
_KNOWN: dict[str, Compiled] = {}


@dataclass(frozen=True)
class Place:
    """The place of a kernel among those that are compiled, by a hash of all that it depends on."""

    subject: Subject
    key: str

    @property
    def path(self) -> Path:
        """The file in the cache folder that has the machine code."""
        source = self.subject.path
        return source.with_name(f"{source.stem}.{self.key}{COMPILED.suffix}")

    @property
    def prefix(self) -> str:
        """The beginning of the symbols of the kernel's functions."""
        return f"schedlang.{self.key}"

    @property
    def symbol(self) -> str:
        return symbol_of(self.prefix, self.subject.name)

    @property
    def called(self) -> str:
        """The symbol of the function that Python calls."""
        return f"from_python.{self.symbol}"

    @property
    def known(self) -> Compiled | None:
        """The kernel, if this process has it."""
        return _KNOWN.get(self.key)

    def load(self, code: bytes) -> Compiled:
        """Load the machine code of the kernel."""
        name_objects()
        if self.subject.threads:
            # this also lets LLVM find the functions that launch loops
            launch_threads()
        library = Library(cpu_context().codegen(), self.subject.name)
        library.load(unpacked(code), [self.symbol, self.called])
        address = library.get_pointer_to_function(self.called)
        module = ModuleType(self.subject.path.stem)
        function = (
            _no_function
            if self.subject.loop is not None
            else python_function(self.subject.name, module, address, library)
        )
        loaded = _KNOWN[self.key] = Compiled(function, library, self.symbol, code, address)
        return loaded


def _no_function(*_: Any) -> None:
    raise TypeError("this is the loop of a ufunc, which NumPy calls")


def place_of(subject: Subject) -> Place:
    """Return the place of a kernel."""
    with compiler_lock():
        return Place(subject, _key(subject))


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
        subject.path.name, subject.name, subject.fastmath, subject.loop, _printers_key(), settings,
        cpu_context().codegen().magic_tuple(), numba.__version__, llvmlite.__version__,
        __version__,
        sys.version,
    ]  # fmt: skip
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16]
