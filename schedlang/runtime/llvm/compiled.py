"""Kernels that LLVM compiles from the machine nest: compiled, kept in the cache, and loaded."""

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

from schedlang.machine.nest import MachineNest
from schedlang.runtime.cache_files import COMPILED, contents, store
from schedlang.runtime.code_listing import Source, asm_listing, functions_of, llvm_listings
from schedlang.runtime.llvm.entry import name_objects, print_entry
from schedlang.runtime.llvm.failures import check_code, explained
from schedlang.runtime.llvm.functions import finish, print_functions, symbol_of
from schedlang.runtime.llvm.lines import FileLines, Lines, first_lines
from schedlang.runtime.llvm.passes import optimize
from schedlang.runtime.numba_cache import SETTINGS
from schedlang.runtime.numba_code import Code
from schedlang.runtime.numba_internals import (
    JITCodeLibrary,
    config,
    cpu_context,
    global_compiler_lock,
    linking_to,
    python_function,
)
from schedlang.runtime.numba_parallel import start_threads
from schedlang.runtime.one_process import one_process


@dataclass(frozen=True)
class Subject:
    """A machine nest to compile, its file, and the options of the file's functions."""

    nest: MachineNest
    path: Path
    fastmath: bool

    @property
    def name(self) -> str:
        """The name of the function that is called."""
        return self.nest.entry.name


@dataclass(frozen=True)
class Compiled:
    """A kernel as a function of Python, and its machine code.

    ``library`` has the code of the function ``symbol``, and ``code`` is the object file.
    """

    function: Callable[..., None]
    library: Any
    symbol: str
    code: bytes


class _Library(JITCodeLibrary):
    """The code of one kernel, which is optimized once, or was before."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.enable_object_caching()

    def loaded(self, code: bytes, symbols: list[str]) -> None:
        """Take the machine code that an earlier process made."""
        self._set_compiled_object(code)
        self._finalize_final_module()
        self.codegen._engine._defined_symbols.update(symbols)

    @property
    def code(self) -> bytes:
        """The object file that was made."""
        return bytes(self._get_compiled_object())

    @property
    def optimized(self) -> Any:
        """The module of LLVM's code."""
        return self._final_module

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        optimize(self._codegen, self._final_module)


class _Listed(_Library):
    """The code of a kernel that is only read: it is no part of this process.

    ``printed`` is the code before the passes.
    """

    printed = ""

    def _optimize_functions(self, ll_module: Any) -> None:
        super()._optimize_functions(ll_module)
        self.printed = str(ll_module)

    def _finalize_final_module(self) -> None:
        self._finalized = True


# the headings of the parts of LLVM's code
BEFORE, AFTER = "; before LLVM's passes", "; after LLVM's passes"
# the adapters to numba that write code
ADAPTERS = ("internals", "parallel", "team")
# what was compiled or loaded, by the keys: LLVM keeps code until the process ends
_KNOWN: dict[str, Compiled] = {}


def compiled(subject: Subject) -> Compiled:
    """Return a kernel as a function of Python: from memory, from the cache folder, or compiled."""
    with global_compiler_lock:
        key = _key(subject)
    known = _KNOWN.get(key)
    if known is not None:
        return known
    # in the order of numba's compiler: another process's lock is not waited for in numba's
    with one_process(subject.path), global_compiler_lock:
        known = _KNOWN.get(key)
        if known is None:
            known = _KNOWN[key] = _loaded(subject, key)
        return known


def _loaded(subject: Subject, key: str) -> Compiled:
    name, prefix = subject.name, f"schedlang.{key}"
    symbol = symbol_of(prefix, name)
    called = f"from_python.{symbol}"
    kept = subject.path.with_name(f"{subject.path.stem}.{key}{COMPILED.suffix}")
    name_objects()
    if any(function.parallel for function in subject.nest.functions):
        # this also lets LLVM find the functions that launch loops
        start_threads()
    code = contents(COMPILED, kept)
    library = _Library(cpu_context().codegen(), name)
    if code is None:
        with explained(subject.nest, subject.path, subject.fastmath):
            _print(subject, library, prefix, called)
            library.finalize()
        code = library.code
        store(COMPILED, kept, code)
    else:
        library.loaded(code, [symbol, called])
    address = library.get_pointer_to_function(called)
    function = python_function(name, ModuleType(subject.path.stem), address, library)
    return Compiled(function, library, symbol, code)


def _print(subject: Subject, library: _Library, prefix: str, called: str) -> None:
    module = library.create_ir_module(subject.name)
    with linking_to(library):
        entry = print_functions(subject.nest, module, prefix, Lines())
    finish(module, subject.fastmath)
    print_entry(module, called, subject.name, entry, subject.nest.entry.parameters)
    library.add_ir_module(module)


def code_of(subject: Subject, text: str) -> Code:
    """Return the code of a kernel, compiled in memory with the lines of its file, a ``text``."""
    with global_compiler_lock, explained(subject.nest, subject.path, subject.fastmath):
        library = _Listed(cpu_context().codegen(), subject.name)
        module = library.create_ir_module(subject.name)
        lines = FileLines(module, subject.path, first_lines(text))
        with linking_to(library):
            print_functions(subject.nest, module, "schedlang", lines)
        finish(module, subject.fastmath)
        check_code(str(module))
        library.add_ir_module(module)
        library.finalize()
        optimized, asm = str(library.optimized), library.get_asm_str()
    names = {symbol_of("schedlang", f.name): f.name for f in subject.nest.functions}
    source = Source(subject.path, text.splitlines(), names)
    symbols = functions_of(asm)
    return Code(
        f"{BEFORE}\n\n{llvm_listings(library.printed, source)}\n"
        f"{AFTER}\n\n{llvm_listings(optimized, source)}",
        "\n".join(filter(None, (asm_listing(asm, s, source) for s in symbols))),
    )


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
        sys.version,
    ]  # fmt: skip
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16]
