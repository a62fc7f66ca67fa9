"""The parts of numba's inside that schedlang takes, which its next version may change.

The modules ``numba_*`` of this folder are the adapter to numba. No other module of schedlang
reaches into it, except for intrinsics, which use its interface for extensions.
``tests/test_numba_adapter.py`` says what they assume. ``.ci/run`` tests them with the oldest and
the newest numba that ``setup.cfg`` admits.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

from llvmlite import binding, ir
from numba._dynfunc import Environment, make_function
from numba.core import cgutils, config, types
from numba.core.caching import _Cache as Cache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import (
    Compiler,
    CompilerBase,
    CompileResult,
    DefaultPassBuilder,
    compile_result,
)
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.errors import NumbaError
from numba.core.fastmathpass import FastFloatBinOpVisitor, FastFloatCallVisitor
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typed_passes import InlineOverloads, NativeLowering
from numba.core.untyped_passes import (
    InlineClosureLikes,
    InlineInlinables,
    LiteralUnroll,
    WithLifting,
)
from numba.extending import _Intrinsic as Intrinsic
from numba.np.ufunc.parallel import _launch_threads as launch_threads


def compiled_by_types(function: Any) -> dict[tuple[Any, ...], Any]:
    """Return what numba compiled of a function, by the types of its arguments."""
    return function.overloads


def has_own_types(function: Any) -> bool:
    """Return whether numba compiles a function for what it is called with, without conversions.

    A function that is declared with signatures converts numbers, but no arrays.
    """
    given = [kind for signature in function.signatures for kind in signature]
    return bool(function._can_compile) or all(isinstance(kind, types.Array) for kind in given)


def link(context: Any, function: Any, called: Any) -> Any:
    """Return what numba compiled for a call of ``function``, linked to the caller's code."""
    compiled = compiled_by_types(function.dispatcher)[called.args]
    context.active_code_library.add_linking_library(compiled.library)
    return compiled


def cpu_context() -> Any:
    """Return numba's target context of the CPU."""
    return cpu_target.target_context


def compiler_lock() -> Any:
    """Return the lock around all that numba and LLVM compile."""
    # the first use of the context takes the lock; two threads would wait for each other's
    cpu_context()
    return global_compiler_lock


def ready_context() -> Any:
    """Return the target context with the implementations of all functions that numba knows."""
    context = cpu_context()
    context.refresh()
    return context


def math_context() -> Any:
    """Return the target context with the implementations of the functions of Python's ``math``.

    If one is not among them, numba loads all that it has, from 200 modules.
    """
    # math.pow is written by operator.pow
    from numba.core.imputils import builtin_registry
    from numba.cpython import mathimpl, numbers  # noqa: F401

    context = cpu_context()
    context.install_registry(builtin_registry)
    context.install_registry(mathimpl.registry)
    return context


def linking_to(library: Any) -> AbstractContextManager[None]:
    """Let numba link what it compiles for a call to ``library``."""
    return cpu_context().push_code_library(library)


def machine_options() -> dict[str, Any]:
    """Return the options of numba's generator of machine code and of its passes, as data."""
    target: dict[str, Any] = {"opt": int(config.OPT)}
    cpu_context().codegen()._customize_tm_options(target)
    target["features"] = kernel_features()
    vectors = {
        "loop_vectorization": bool(config.LOOP_VECTORIZE),
        "slp_vectorization": bool(config.SLP_VECTORIZE),
    }
    return {"target": target, "passes": vectors}


# LLVM uses SSE4a to move two bytes. Next to AVX this took 711 microseconds where shuffles took 34
_SLOW, _WITH = "+sse4a", "+avx"


def kernel_features() -> str:
    """Return the features of the processor that kernels are compiled for, as LLVM takes them.

    They are numba's without those that make code slower.
    """
    features: list[str] = cpu_context().codegen().magic_tuple()[2].split(",")
    slow = _SLOW if _WITH in features else ""
    return ",".join(f"-{name[1:]}" if name == slow else name for name in features)


def add_object(codegen: Any, code: bytes) -> None:
    """Let code that is loaded next find the functions of an object file."""
    codegen._engine._ee.add_object_file(binding.ObjectFileRef.from_data(code))


def linked_code(library: Any) -> list[bytes]:
    """Return the bitcode of what numba compiled for calls from ``library``."""
    linked = dict.fromkeys(library._linking_libraries)
    return [other._get_module_for_linking().as_bitcode() for other in linked]


def with_flags(function: ir.Function, flags: Collection[str]) -> None:
    """Add ``flags`` to the arithmetic of a function that has none, by numba's visitors."""
    for visitor in (FastFloatBinOpVisitor(flags), FastFloatCallVisitor(flags)):
        visitor.visit_Function(function)


def python_function(name: str, module: Any, address: int, kept: Any) -> Any:
    """Return the function of Python at an ``address``, which keeps the object ``kept``."""
    return make_function(module, name, f"{name}, compiled", address, Environment({}), (kept,))


__all__ = [
    "CPUDispatcher", "Cache", "CompileResult", "Compiler", "CompilerBase", "DefaultPassBuilder",
    "InlineClosureLikes", "InlineInlinables", "InlineOverloads", "Intrinsic", "JITCodeLibrary",
    "LiteralUnroll", "Lower", "NativeLowering", "NumbaError", "WithLifting", "add_object",
    "cgutils", "compile_result", "compiled_by_types", "config", "cpu_context", "dumps",
    "compiler_lock", "kernel_features", "launch_threads", "link", "linked_code", "linking_to",
    "machine_options", "math_context", "python_function", "ready_context", "register_pass", "rtsys",
    "with_flags",
]  # fmt: skip
