"""Asynchronous copies of global to shared memory, and the waits for them.

Source: NVIDIA, "PTX ISA", "Data Movement and Conversion Instructions: cp.async".
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.memory import is_flat, pointer, size_of

# 16 bytes bypass the first cache, which has no second use for them
_WIDE = 16


def _assemble(builder: ir.IRBuilder, text: str, constraints: str, *operands: ir.Value) -> None:
    kind = ir.FunctionType(ir.VoidType(), [x.type for x in operands])
    # no access to memory may move across it
    code = ir.InlineAsm(kind, text, f"{constraints},~{{memory}}".lstrip(","), side_effect=True)
    builder.call(code, operands)


@intrinsic(prefer_literal=True)
def copy_async(typingctx: Any, A: Any, at: Any, B: Any, start: Any, count: Any) -> Any:
    """Copy the ``count`` elements of ``B`` from ``start`` on to ``A`` from ``at`` on.

    ``A`` is in shared memory, ``B`` in global memory; both addresses are multiples of the bytes.
    """
    if not (is_flat(A) and is_flat(B) and A.dtype == B.dtype):
        return None
    size = size_of(A.dtype, False) * count.literal_value
    cached = "cg" if size == _WIDE else "ca"

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        into = pointer(context, builder, A, args[0], args[1])
        source = pointer(context, builder, B, args[2], args[3])
        shared = builder.ptrtoint(
            builder.addrspacecast(into, into.type.pointee.as_pointer(3)), ir.IntType(32)
        )
        text = f"cp.async.{cached}.shared.global [$0], [$1], {size};"
        _assemble(builder, text, "r,l", shared, builder.ptrtoint(source, ir.IntType(64)))
        return context.get_dummy_value()

    return types.void(A, types.intp, B, types.intp, count), codegen


@intrinsic
def commit_copies(typingctx: Any) -> Any:
    """End a group of asynchronous copies: what this thread copied since the last group."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        _assemble(builder, "cp.async.commit_group;", "")
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic(prefer_literal=True)
def wait_copies(typingctx: Any, pending: Any) -> Any:
    """Wait for all groups of asynchronous copies of this thread but the last ``pending``."""
    text = f"cp.async.wait_group {pending.literal_value};"

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        _assemble(builder, text, "")
        return context.get_dummy_value()

    return types.void(pending), codegen
