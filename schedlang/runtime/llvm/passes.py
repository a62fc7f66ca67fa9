"""LLVM's passes over the code of a kernel, and what each of them is for."""

from __future__ import annotations

from typing import Any

from schedlang.runtime.numba_internals import config


def optimize(codegen: Any, module: Any) -> None:
    """Optimize a module by the passes of level 3, with the vectorizer of loops.

    numba runs a part of them twice, to remove counts of references, which no kernel has here.
    """
    passes, builder = codegen._module_pass_manager(loop_vectorize=config.LOOP_VECTORIZE)
    passes.run(module, builder)
