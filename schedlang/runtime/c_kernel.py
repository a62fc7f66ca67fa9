"""Kernels for ``target="c"``: C source, compiled by the system's C compiler."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from schedlang.errors import BuildError
from schedlang.ir.nest import Nest
from schedlang.runtime import files
from schedlang.runtime.kernel import Built, Kernel
from schedlang.schedule.schedule import Schedule

COMPILERS = ("cc", "gcc", "clang")
# integers wrap around, and a product may be fused with an addition, as in numba's kernels
OPTIONS = (
    "-std=gnu11", "-O3", "-march=native", "-fwrapv", "-ffp-contract=fast", "-fno-math-errno",
    "-fopenmp", "-shared", "-fPIC", "-w",
)  # fmt: skip


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

    def _function(self) -> Any:
        if self._entry is None:
            options = (*OPTIONS, *(("-ffast-math",) if self.fastmath else ()))
            library = ctypes.CDLL(str(compiled(self._path, options)))
            self._entry = _called(getattr(library, self._built.entry), self._types())
        return self._entry

    def _types(self) -> list[Any]:
        """Return the C types of the parameters: pointers, scalars and sizes."""
        found: list[Any] = []
        for p in self._built.signature.parameters:
            dtype = "float32" if p.dtype == "float16" else p.dtype
            found.append(np.ctypeslib.as_ctypes_type(dtype) if p.is_scalar else ctypes.c_void_p)
        return found + [ctypes.c_int64] * len(self._built.signature.sizes)

    def _starter(self) -> Callable[..., None]:
        self._start = self._function()
        return self._start

    def save(self, path: str | Path) -> Path:
        """Refuse: a C kernel has no Python file. Its source is ``source``, in the file ``path``."""
        raise BuildError(
            f"save({str(path)!r}): kernel {self.name} is C; copy its file, {self.path}, or build "
            'for target="cpu", whose kernels are saved as Python'
        )

    def __reduce__(self) -> Any:
        return CKernel, (self._built, self.schedule, self._nest, self.fastmath)


def compiler() -> list[str]:
    """Return the command of the C compiler.

    Raises :class:`~schedlang.errors.BuildError` if there is none.
    """
    given = os.environ.get("CC")
    if given:
        return shlex.split(given)
    found = next((path for name in COMPILERS if (path := shutil.which(name))), None)
    if found is None:
        raise BuildError(
            'target="c" needs a C compiler, and there is no cc, gcc or clang on the path: install '
            'GCC or Clang, or set CC to its command; target="cpu" needs none'
        )
    return [found]


def compiled(source: Path, options: tuple[str, ...]) -> Path:
    """Return the shared library of a C file, in the same folder.

    The library appears complete or not at all. Raises :class:`~schedlang.errors.BuildError` if the
    compiler fails.
    """
    command = compiler()
    key = "_".join(o.strip("-") for o in options if o == "-ffast-math")
    library = source.with_suffix(f".{Path(command[0]).name}{key and '.'}{key}.so")
    if library.exists():
        return library
    handle, temporary = tempfile.mkstemp(dir=source.parent, suffix=".so")
    os.close(handle)
    asked = [*command, *options, "-o", temporary, str(source), "-lm"]
    try:
        ran = subprocess.run(asked, capture_output=True, text=True, check=False)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise BuildError(
            f"the C compiler {command[0]} does not run ({error.strerror}): set CC to the command "
            "of GCC or Clang"
        ) from None
    if ran.returncode:
        Path(temporary).unlink(missing_ok=True)
        first = next((line for line in ran.stderr.splitlines() if "error" in line), ran.stderr)
        raise BuildError(
            f"{command[0]} refuses {source}: {first.strip()[:300]}\n  Use GCC or Clang with "
            "OpenMP and _Float16 (GCC 12, Clang 15 or later), or target=\"cpu\"."
        )
    os.replace(temporary, library)
    return library


def _called(function: Any, kinds: list[Any]) -> Callable[..., None]:
    """Return ``function`` as a function of flat NumPy arrays and scalars."""
    function.argtypes = kinds
    function.restype = None

    def call(*args: Any) -> None:
        function(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in args))

    return call


__all__ = ["CKernel", "compiled", "compiler"]
