"""Machine code from numba's cache on disk, without what only its compiler needs.

numba prepares its compiler before it looks into its cache: it imports the implementations of all
functions that it knows (and SciPy), compiles its own runtime, and reads LLVM's code of the function
for callers that may inline it. That is most of the time and of the memory of loading a kernel.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import binding as llvm
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompileResult, compile_result
from numba.core.runtime import rtsys

# what the names of the functions of numba's runtime, which counts references, begin with
RUNTIME = b"NRT_"


class _Library(JITCodeLibrary):
    """Machine code that was loaded. ``for_callers`` is LLVM's code of it, read if one asks."""

    def __init__(
        self, codegen: Any, name: str, code: bytes, for_callers: bytes, symbols: Iterable[str]
    ) -> None:  # fmt: skip
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


class _Loading(CompileResultCacheImpl):
    """The function that makes the result of a compilation of the data in the cache."""

    def rebuild(self, target_context: Any, payload: Any) -> CompileResult:
        """Return the result of a compilation, as ``CompileResult._rebuild`` of numba does."""
        stored, fndesc, env, signature, objectmode, lifted, notes, starts, envs = payload
        name, kind, data = stored
        if kind != "object":
            target_context.refresh()
            return super().rebuild(target_context, payload)
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
            target_context=target_context, typing_context=target_context.typing_context,
            library=library, environment=env, entry_point=entry, fndesc=fndesc,
            type_annotation=notes, signature=signature, objectmode=objectmode, lifted=lifted,
            reload_init=starts, referenced_envs=envs,
        )  # fmt: skip


class KernelCache(FunctionCache):
    """numba's cache of a function's machine code, with the same files.

    What it loads runs. numba prepares its compiler when a function is not there.
    """

    _impl_class = _Loading

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return what was compiled for the types ``sig``, ``None`` if nothing was."""
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


__all__ = ["KernelCache"]
