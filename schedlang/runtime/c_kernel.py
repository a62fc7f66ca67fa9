"""Kernels for ``target="c"``: C source, compiled by the system's C compiler."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.codegen.c_source import c_source
from schedlang.errors import BuildError, explain
from schedlang.expr.dtypes import computed
from schedlang.ir.nest import Nest
from schedlang.machine.nest import MachineNest
from schedlang.machine.nodes import Array, Reg
from schedlang.runtime import files, thread_safety
from schedlang.runtime.cache_files import LIBRARY, contents, store
from schedlang.runtime.code_listing import Source, asm_listing, functions_of
from schedlang.runtime.kernel import Built, Kernel
from schedlang.runtime.numba_code import Code
from schedlang.runtime.one_process import one_process
from schedlang.runtime.parameters import Signature
from schedlang.schedule.schedule import Schedule

COMPILERS = ("cc", "gcc", "clang")
# integers wrap around, and a product may be fused with an addition, as in numba's kernels; where
# GCC 12 vectorizes a loop by itself, it pairs the factors of some sums of products wrongly
OPTIONS = (
    "-std=c11", "-D_POSIX_C_SOURCE=200809L", "-O3", "-march=native", "-fwrapv",
    "-fno-tree-loop-vectorize", "-ffp-contract=fast", "-fno-math-errno", "-fopenmp", "-shared",
    "-fPIC", "-w",
)  # fmt: skip
# GCC 12 distributes some loops wrongly: it drops updates of an array that the loop before set
GCC_OPTIONS = ("-fno-tree-loop-distribution",)
# -ffast-math would also flush denormals to zero in the whole process
FASTMATH = (
    "-fassociative-math", "-freciprocal-math", "-fno-signed-zeros", "-fno-trapping-math",
    "-ffinite-math-only",
)  # fmt: skip
SECONDS = 300
# of the files of libraries
FORMAT = "2"


class CKernel(Kernel):
    """A :class:`Kernel` whose ``source`` is C; the first call compiles it by the system's ``cc``.

    The environment variable ``CC`` names another compiler. It must be GCC or Clang, with OpenMP.
    """

    def __init__(self, built: Built, schedule: Schedule, nest: Nest, fastmath: bool) -> None:
        super().__init__(built, schedule, nest)
        self.fastmath = fastmath

    @property
    def source(self) -> str:
        """The C source that runs."""
        return self._built.text

    @cached_property
    def _path(self) -> Path:
        return files.write(self._built.text, self._built.public, ".c")

    def compile(self) -> CKernel:
        """Compile now, or find the library in the cache folder; return this kernel."""
        self._function()
        return self

    def _loaded(self, path: Path) -> Any:
        if self._built.serial_text:
            thread_safety.note_openmp()
        return c_function(getattr(self._library(path), self._built.entry), self._types())

    def _library(self, path: Path) -> ctypes.CDLL:
        return library(path, self.fastmath)

    def _threads(self) -> int:
        """Return the greatest number of threads of OpenMP."""
        if not self._built.serial_text or thread_safety.left_behind():
            return 1
        return int(self._library(self._path).omp_get_max_threads())

    def _start_of(self, nest: MachineNest) -> Callable[..., None]:
        path = files.write(c_source(nest).text, f"{nest.entry.name}_times", ".c")
        kinds = [_kind(p) for p in nest.entry.parameters]
        return c_function(getattr(self._library(path), nest.entry.name), kinds)

    def _code(self, asked: str) -> Code:
        if asked == "llvm":
            raise BuildError(
                explain(
                    f"llvm of kernel {self.name}",
                    "it is C, which the system's compiler turns into machine code",
                    'Read its .asm, or build it for target="cpu", which LLVM compiles.',
                )
            )
        return self._assembly

    @cached_property
    def _assembly(self) -> Code:
        options = (*OPTIONS, *(FASTMATH if self.fastmath else ()))
        asm = assembly(self._path, options)
        source = Source(self._path, self.source.splitlines(), {})
        return Code("", "\n".join(asm_listing(asm, name, source) for name in functions_of(asm)))

    def _types(self) -> list[Any]:
        """Return the C types of the parameters."""
        return c_types(self._built.signature)

    def save(self, path: str | Path) -> Path:
        """Refuse: a C kernel has no Python file. Its source is ``source``, in the file ``path``."""
        raise BuildError(
            f"save({str(path)!r}): kernel {self.name} is C; copy its file, {self.path}, or build "
            'for target="cpu", whose kernels are saved as Python'
        )

    def __reduce__(self) -> Any:
        return CKernel, (self._built, self.schedule, self._nest, self.fastmath)


def _kind(parameter: Array | Reg) -> Any:
    """Return the C type of a parameter of a machine nest: a pointer or a scalar."""
    if isinstance(parameter, Array):
        return ctypes.c_void_p
    return np.ctypeslib.as_ctypes_type(computed(parameter.type.dtype))


def compiler() -> list[str]:
    """Return the command of the C compiler.

    Raises :class:`~schedlang.errors.BuildError` if there is none.
    """
    given = os.environ.get("CC", "")
    try:
        command = shlex.split(given)
    except ValueError as error:
        raise BuildError(
            f"CC={given!r} is no command ({error}): set CC to that of GCC or Clang"
        ) from None
    if command:
        return command
    found = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if found is None:
        raise BuildError(
            'target="c" needs a C compiler, and there is no cc, gcc or clang on the path: install '
            'GCC or Clang, or set CC to its command; target="cpu" needs none'
        )
    return [found]


@lru_cache(maxsize=8)
def version(command: tuple[str, ...]) -> str:
    """Return what a compiler says of its version, or an empty text."""
    try:
        ran = subprocess.run([*command, "--version"], capture_output=True, timeout=SECONDS)
    except OSError:
        return ""
    return ran.stdout.decode(errors="replace")


def library(source: Path, fastmath: bool = False) -> ctypes.CDLL:
    """Return the library of a C file, compiled unless the cache folder has it.

    Another compiler, version, option or processor makes another library. Raises
    :class:`~schedlang.errors.BuildError` if the compiler fails.
    """
    from llvmlite import binding as llvm

    command, options = _command(), (*OPTIONS, *(FASTMATH if fastmath else ()))
    facts = [*command, version(tuple(command)), *options, llvm.get_host_cpu_name(), FORMAT]
    key = hashlib.sha256("\0".join(facts).encode()).hexdigest()[:12]
    kept = source.with_suffix(f".{key}{LIBRARY.suffix}")
    with one_process(source):
        if contents(LIBRARY, kept) is not None:
            return _loaded(kept)
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            fresh = Path(folder) / kept.name
            _compile([*command, *options, "-o", str(fresh), str(source), "-lm"], source)
            # a file of the folder stays loaded when it is removed
            return _loaded(kept if store(LIBRARY, kept, fresh.read_bytes()) else fresh)


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(
            f"the library of a C kernel cannot be loaded ({error}): install the OpenMP library of "
            'the C compiler, set SCHEDLANG_CACHE to a folder whose files may be executed, or use '
            'target="cpu"'
        ) from None


def assembly(source: Path, options: tuple[str, ...]) -> str:
    """Return a C file compiled to assembly, with line tables, which change no instruction."""
    kept = [o for o in options if o != "-shared"]
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "kernel.s"
        _compile([*_command(), *kept, "-S", "-g1", "-o", str(target), str(source)], source)
        return target.read_text(encoding="utf-8", errors="replace")


def _command() -> list[str]:
    """Return the command of the compiler, with the options that it alone knows."""
    command = list(compiler())
    is_clang = "clang" in version(tuple(command)).lower()
    return command if is_clang else [*command, *GCC_OPTIONS]


def _compile(command: list[str], source: Path) -> None:
    """Run the compiler; raise an error with its first message if it fails."""
    name = command[0]
    try:
        ran = subprocess.run(
            command, capture_output=True, timeout=SECONDS, env={**os.environ, "LC_ALL": "C"}
        )
    except OSError as error:
        raise BuildError(
            f"the C compiler {name} does not run ({error.strerror}): set CC to the command of GCC "
            "or Clang"
        ) from None
    except subprocess.TimeoutExpired:
        raise BuildError(f"{name} took more than {SECONDS} s for {source}") from None
    if ran.returncode:
        said = ran.stderr.decode(errors="replace")
        if os.strerror(errno.ENOSPC) in said:
            raise BuildError(
                f"{name} cannot write: the disk of {tempfile.gettempdir()} is full. Free some "
                "space, or set TMPDIR to a folder of another disk"
            )
        first = next((line for line in said.splitlines() if "error" in line), said)
        raise BuildError(
            f"{name} refuses {source}: {first.strip()[:300]}\n  Use GCC or Clang with OpenMP and "
            '_Float16 (GCC 12, Clang 15 or later), or target="cpu".'
        )


def c_types(signature: Signature) -> list[Any]:
    """Return the C types of the parameters of a kernel: pointers, scalars and sizes."""
    found: list[Any] = []
    for p in signature.parameters:
        if p.is_scalar:
            found.append(np.ctypeslib.as_ctypes_type(computed(p.dtype)))
        else:
            found.append(ctypes.c_void_p)
    return found + [ctypes.c_int64] * len(signature.sizes)


def c_function(function: Any, kinds: list[Any]) -> Callable[..., None]:
    """Return ``function`` as a function of flat NumPy arrays and scalars."""
    function.argtypes = kinds
    function.restype = None

    def call(*args: Any) -> None:
        function(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in args))

    return call
