"""The ways to run the function of an emitted file on a CPU: as Python, by numba, or as C.

A kernel and the module of a network have one of these objects, and ask it instead of their target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from schedlang.codegen.listing import Launch, Listing
from schedlang.errors import CompilerWarning, warn_user
from schedlang.runtime import files, thread_safety
from schedlang.runtime.numba_threads import import_numba
from schedlang.runtime.parameters import Signature
from schedlang.runtime.starts import interpret, one_at_a_time

if TYPE_CHECKING:
    from schedlang.machine.nest import MachineNest
    from schedlang.runtime.built import Built
    from schedlang.runtime.llvm.library import Subject
    from schedlang.runtime.numba_code import Code
    from schedlang.runtime.perf_map import Code as MachineCode


class Emitted(Protocol):
    """The file of a kernel or of a network, as :class:`~schedlang.runtime.built.Built` has it."""

    @property
    def public(self) -> str: ...
    @property
    def entry(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def serial_text(self) -> str: ...
    @property
    def signature(self) -> Signature: ...
    @property
    def fastmath(self) -> bool: ...
    @property
    def launches(self) -> Sequence[Launch]: ...


class Purpose(NamedTuple):
    """The purpose of a nest that belongs to no file: a part of its file's name, and its title."""

    suffix: str
    title: str


STAMPED = Purpose("times", "with time stamps")


class Runner(ABC):
    """A way to run the function of an emitted file.

    The file's name ends in ``suffix``. ``has_threads`` says whether parallel loops run on threads,
    and ``shows_unwritten`` whether memory that nothing has written is filled with NaNs.
    """

    suffix: ClassVar[str] = ".py"
    has_threads: ClassVar[bool] = True
    shows_unwritten: ClassVar[bool] = False

    @abstractmethod
    def function_of(
        self,
        file: Emitted,
        path: Path,
        called: Collection[str],
        behind: Sequence[str],
        machine: Callable[[], MachineNest],
    ) -> Any:
        """Return the function of a file at ``path``.

        ``called`` are functions that no caller inlines. The function takes arrays of the dtypes
        ``behind`` after the parameters of the signature. ``machine`` returns the machine nest that
        the file is printed from, which a network that was loaded has to make first.
        """

    def subject(
        self, file: Emitted, path: Path, machine: Callable[[], MachineNest]
    ) -> Subject | None:
        """Return what LLVM compiles from the machine nest, if it does, for a file at ``path``."""
        return None

    @abstractmethod
    def compile(self, function: Any, signature: Signature, behind: Sequence[str]) -> None:
        """Compile a loaded function now, or load it from the disk cache."""

    def compiles_in_call(self) -> bool:
        """Return whether a function that was loaded is compiled when it is first called."""
        return False

    def counting(self, phase: str, called: Collection[str]) -> AbstractContextManager[Any]:
        """Tell how many of the functions ``called`` are compiled inside of the ``with`` block."""
        return nullcontext()

    def codes(self, function: Any) -> Iterable[MachineCode]:
        """Return the machine code of a compiled function, for perf."""
        return ()

    def in_numba(
        self, function: Any, machine: Callable[[], MachineNest], signature: Signature
    ) -> Any:
        """Return ``function`` as compiled code may call it, if numba compiles that."""
        return function

    @abstractmethod
    def code_of(self, built: Built, path: Path) -> Code:
        """Return the code of a kernel, whose file is at ``path``, with the lines of the file."""

    @abstractmethod
    def threads(self, file: Emitted, path: Path) -> Callable[[], int]:
        """Return a function that returns the greatest number of threads of a parallel loop."""

    @abstractmethod
    def function_of_nest(
        self, nest: MachineNest, name: str, fastmath: bool, called: Collection[str] = (),
        purpose: Purpose = STAMPED,
    ) -> tuple[Any, Path]:  # fmt: skip
        """Return the function of a machine nest for a purpose, and the path of its file."""

    def starting(
        self, function: Callable[..., None], what: str, name: str, path: Path, lock: Lock | None
    ) -> Callable[..., None]:
        """Return the callable that a call starts: ``function``, in a lock if there is one.

        ``what`` is what ``name`` is called in messages.
        """
        return function if lock is None else one_at_a_time(function, lock)


class ByNumba(Runner):
    """numba compiles the file."""

    compiled: ClassVar[bool] = True

    def compiles_in_call(self) -> bool:
        return self.compiled

    def counting(self, phase: str, called: Collection[str]) -> AbstractContextManager[Any]:
        if not called or not self.compiles_in_call():
            return nullcontext()
        from schedlang.runtime.numba_progress import counting

        return counting(called, f"{phase}: {{}} kernels")

    def function_of(
        self,
        file: Emitted,
        path: Path,
        called: Collection[str],
        behind: Sequence[str],
        machine: Callable[[], MachineNest],
    ) -> Any:
        if self.compiled:
            import_numba()
        module = files.load_kernel(path, file.entry, called, file.launches)
        return getattr(module, file.entry)

    def compile(self, function: Any, signature: Signature, behind: Sequence[str]) -> None:
        if function.signatures:
            return
        from numba import types

        from schedlang.runtime.built import numba_types

        arrays = [types.Array(getattr(types, dtype), 1, "C") for dtype in behind]
        function.compile((*numba_types(signature), *arrays))

    def codes(self, function: Any) -> Iterable[MachineCode]:
        from schedlang.runtime.perf_map import codes_of

        return codes_of(function)

    def threads(self, file: Emitted, path: Path) -> Callable[[], int]:
        from numba import config

        count = int(config.NUMBA_NUM_THREADS)
        return lambda: count

    def function_of_nest(
        self, nest: MachineNest, name: str, fastmath: bool, called: Collection[str] = (),
        purpose: Purpose = STAMPED,
    ) -> tuple[Any, Path]:  # fmt: skip
        listing = self.listing(nest, name, fastmath, purpose)
        path = files.write(listing.text, f"{name}_{purpose.suffix}")
        module = files.load_kernel(path, nest.entry.name, called, listing.launches)
        return getattr(module, nest.entry.name), path

    def listing(self, nest: MachineNest, name: str, fastmath: bool, purpose: Purpose) -> Listing:
        """Return the file of a machine nest for a purpose."""
        # a process that loads a network imports no printer
        from schedlang.codegen.numba_cpu import source_of
        from schedlang.codegen.numba_file import render_functions

        head = f"{nest.entry.name} {purpose.title}"
        return render_functions(source_of(nest, name), head, fastmath, self.compiled)

    def code_of(self, built: Built, path: Path) -> Code:
        from schedlang.runtime.built import numba_types
        from schedlang.runtime.numba_code import code_of

        names = [function.name for function in built.machine.functions]
        return code_of(path, built.entry, names, numba_types(built.signature))


class AsPython(ByNumba):
    """The file runs as it is, under a debugger, on one thread."""

    compiled = False
    has_threads = False
    shows_unwritten = True

    def compile(self, function: Any, signature: Signature, behind: Sequence[str]) -> None:
        """Do nothing."""

    def threads(self, file: Emitted, path: Path) -> Callable[[], int]:
        return lambda: 1

    def starting(
        self, function: Callable[..., None], what: str, name: str, path: Path, lock: Lock | None
    ) -> Callable[..., None]:
        """Return the function so that its errors name the array."""
        return interpret(function, name, str(path), what)


class AsC(Runner):
    """The system's C compiler makes a library of the file."""

    suffix = ".c"

    def function_of(
        self,
        file: Emitted,
        path: Path,
        called: Collection[str],
        behind: Sequence[str],
        machine: Callable[[], MachineNest],
    ) -> Any:
        from ctypes import c_void_p

        from schedlang.runtime.c_library import c_function, c_types, library
        from schedlang.runtime.c_toolchain import compiler, is_zig

        if file.serial_text and is_zig(compiler()):
            why = "zig compiles it, which has no OpenMP: its parallel loops run on one thread"
            warn_user(f"kernel {file.entry}: {why}; install GCC or Clang", CompilerWarning)
        elif file.serial_text:
            thread_safety.note_openmp()
        kinds = [*c_types(file.signature), *[c_void_p] * len(behind)]
        return c_function(file.entry, library(path, file.fastmath), kinds)

    def compile(self, function: Any, signature: Signature, behind: Sequence[str]) -> None:
        """Do nothing: a function is compiled when it is loaded."""

    def code_of(self, built: Built, path: Path) -> Code:
        from schedlang.runtime.c_library import FASTMATH, OPTIONS, assembly
        from schedlang.runtime.code_listing import Source, asm_listing, functions_of
        from schedlang.runtime.numba_code import Code

        asm = assembly(path, (*OPTIONS, *(FASTMATH if built.fastmath else ())))
        source = Source(path, built.text.splitlines(), {})
        return Code("", "\n".join(asm_listing(asm, name, source) for name in functions_of(asm)))

    def threads(self, file: Emitted, path: Path) -> Callable[[], int]:
        from schedlang.runtime.c_library import library

        # zig has no OpenMP
        most = getattr(library(path, file.fastmath), "omp_get_max_threads", None)
        return lambda: 1 if most is None else int(most())

    def function_of_nest(
        self, nest: MachineNest, name: str, fastmath: bool, called: Collection[str] = (),
        purpose: Purpose = STAMPED,
    ) -> tuple[Any, Path]:  # fmt: skip
        from schedlang.codegen.c_source import c_source
        from schedlang.runtime.c_library import c_function, c_kinds, library

        path = files.write(c_source(nest).text, f"{name}_{purpose.suffix}", self.suffix)
        kinds = c_kinds(nest.entry.parameters)
        return c_function(nest.entry.name, library(path, fastmath), kinds), path
