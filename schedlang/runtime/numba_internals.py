"""The parts of numba's inside that schedlang takes, which its next version may change.

The modules ``numba_*`` of this folder are the adapter to numba. No other module of schedlang
reaches into it, except for intrinsics, which use its interface for extensions.
``tests/test_numba_adapter.py`` says what they assume. ``.ci/run`` tests them with the oldest and
the newest numba that ``setup.cfg`` admits.
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, config
from numba.core.caching import _Cache as Cache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import (
    Compiler,
    CompilerBase,
    CompileResult,
    DefaultPassBuilder,
    compile_result,
)
from numba.core.compiler_machinery import register_pass
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.core.typed_passes import InlineOverloads, NativeLowering
from numba.core.untyped_passes import (
    InlineClosureLikes,
    InlineInlinables,
    LiteralUnroll,
    WithLifting,
)
from numba.np.ufunc.parallel import _launch_threads as launch_threads


def compiled_by_types(function: Any) -> dict[tuple[Any, ...], Any]:
    """Return what numba compiled of a function, by the types of its arguments."""
    return function.overloads


def link(context: Any, function: Any, called: Any) -> Any:
    """Return what numba compiled for a call of ``function``, linked to the caller's code."""
    compiled = compiled_by_types(function.dispatcher)[called.args]
    context.active_code_library.add_linking_library(compiled.library)
    return compiled


__all__ = [
    "CPUDispatcher", "Cache", "CompileResult", "Compiler", "CompilerBase", "DefaultPassBuilder",
    "InlineClosureLikes", "InlineInlinables", "InlineOverloads", "JITCodeLibrary", "LiteralUnroll",
    "Lower", "NativeLowering", "WithLifting", "cgutils", "compile_result", "compiled_by_types",
    "config", "dumps", "launch_threads", "link", "register_pass", "rtsys",
]  # fmt: skip
