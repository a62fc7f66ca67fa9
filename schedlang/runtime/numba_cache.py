"""Machine code of numba in the cache folder, loaded without what only its compiler needs.

With its own cache, numba prepares its compiler before it looks into it: it imports the
implementations of all functions that it knows (and SciPy), compiles its own runtime, and reads
LLVM's code of the function for callers that may inline it. That is most of the time and of the
memory of loading a kernel.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import llvmlite
import numba
from llvmlite import binding as llvm

from schedlang.errors import CacheWarning
from schedlang.runtime.cache_files import COMPILED, contents, store
from schedlang.runtime.numba_internals import (
    Cache,
    CompileResult,
    CPUDispatcher,
    JITCodeLibrary,
    compile_result,
    config,
    dumps,
    rtsys,
)

# numba's settings that change machine code: it reads them from the environment
SETTINGS = (
    "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT", "BOUNDSCHECK", "USING_SVML",
)  # fmt: skip
# what the names of the functions of numba's runtime, which counts references, begin with
RUNTIME = b"NRT_"


class _Library(JITCodeLibrary):
    """Machine code that was loaded. ``for_callers`` is LLVM's code of it, read if one asks."""

    def __init__(
        self, codegen: Any, name: str, code: bytes, for_callers: bytes, symbols: Iterable[str]
    ) -> None:
        super().__init__(codegen, name)
        self._for_callers, self._read = for_callers, None
        self.enable_object_caching()
        self._set_compiled_object(code)
        self._finalize_final_module()
        codegen._engine._defined_symbols.update(symbols)

    def _get_module_for_linking(self) -> Any:
        if self._read is None:
            self._read = llvm.parse_bitcode(self._for_callers)
        return self._read


class KernelCache(Cache):
    """The cache of a function's machine code: a file beside the source for each signature.

    numba reads and unpickles the files of its own cache unchecked. A file of the cache folder is
    checked first, and a damaged one is not an error: the function is compiled again.
    """

    def __init__(self, python: Any) -> None:
        self._python = python
        self._enabled = True

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        return str(self._source.parent)

    @property
    def _source(self) -> Path:
        return Path(self._python.__code__.co_filename)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for the types ``sig``, ``None`` if nothing was."""
        if not self._enabled:
            return None
        payload = self.stored(sig, target_context.codegen())
        return None if payload is None else _rebuilt(target_context, payload)

    def stored(self, sig: Any, codegen: Any) -> Any:
        """Return the data that :meth:`save_overload` kept for the types ``sig``, or ``None``."""
        content = contents(COMPILED, self._path(sig, codegen))
        return None if content is None else pickle.loads(content)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled for the types ``sig``, unless the cache folder takes no file."""
        if not self._enabled:
            return
        if data.library.has_dynamic_globals or any(not part.can_cache for part in data.lifted):
            warnings.warn(
                f"the machine code of {self._python.__name__} holds addresses of this process, so "
                "that each process compiles it again",
                CacheWarning,
                stacklevel=2,
            )
            return
        store(COMPILED, self._path(sig, data.codegen), dumps(data._reduce()))

    def enable(self) -> None:
        """Load and keep machine code."""
        self._enabled = True

    def disable(self) -> None:
        """Neither load nor keep machine code."""
        self._enabled = False

    def flush(self) -> None:
        """Remove all that was compiled of the file."""
        for path in self._source.parent.glob(f"{self._source.stem}.*{COMPILED.suffix}"):
            path.unlink(missing_ok=True)

    def _path(self, sig: Any, codegen: Any) -> Path:
        code = self._python.__code__
        about = [
            repr(sig), codegen.magic_tuple(), [getattr(config, name, None) for name in SETTINGS],
            numba.__version__, llvmlite.__version__, sys.version,
            code.co_qualname if hasattr(code, "co_qualname") else code.co_name,
            code.co_firstlineno, hashlib.sha256(self._source.read_bytes()).hexdigest(),
        ]  # fmt: skip
        key = hashlib.sha256(repr(about).encode()).hexdigest()[:16]
        return self._source.with_name(f"{self._source.stem}.{key}{COMPILED.suffix}")


def _rebuilt(target_context: Any, payload: Any) -> CompileResult:
    """Return the result of a compilation, as ``CompileResult._rebuild`` of numba does."""
    stored, fndesc, env, signature, objectmode, lifted, notes, starts, envs = payload
    name, kind, data = stored
    if kind != "object":
        target_context.refresh()
        return CompileResult._rebuild(target_context, *payload)
    code, for_callers = data
    if RUNTIME in code:
        rtsys.initialize(target_context)
    for start in starts:
        start()
    symbols = (fndesc.llvm_func_name, fndesc.llvm_cpython_wrapper_name)
    library = _Library(target_context.codegen(), name, code, for_callers, symbols)
    entry = target_context.get_executable(library, fndesc, env)
    for other in envs:
        library.codegen.set_env(other.env_name, other)
    return compile_result(
        target_context=target_context,
        typing_context=target_context.typing_context,
        library=library,
        environment=env,
        entry_point=entry,
        fndesc=fndesc,
        type_annotation=notes,
        signature=signature,
        objectmode=objectmode,
        lifted=lifted,
        reload_init=starts,
        referenced_envs=envs,
    )


def kept_object(function: Any, kinds: tuple[Any, ...], compiled: Any) -> bytes:
    """Return the object file of a compiled function, from memory or from the cache folder.

    It is empty if there is none.
    """
    code = getattr(compiled.library, "_compiled_object", None)
    if not code:
        # numba drops the object file that it has loaded: read it again
        stored = function._cache.stored(kinds, function.targetctx.codegen())
        if stored is not None:
            (_, _, (code, _)), *_ = stored
    return bytes(code or b"")


def keep_machine_code(module: ModuleType) -> None:
    """Let the functions of an emitted file keep their machine code in the cache folder."""
    for function in vars(module).values():
        if isinstance(function, CPUDispatcher) and function.__module__ == module.__name__:
            function._cache = KernelCache(function.py_func)
