"""A hint that keeps a probe a function of its own: inlined everywhere, it compiles for seconds."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def not_inlined(typingctx: Any) -> Any:
    """Keep LLVM from inlining the function that calls this."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen
