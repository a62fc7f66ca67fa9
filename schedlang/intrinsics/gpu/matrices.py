"""Loads of matrices from shared memory, which the threads of a warp fetch as a fragment.

Source: NVIDIA, "PTX ISA", "Warp Level Matrix Load Instruction: ldmatrix".
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.memory import is_flat, pointer, size_of


def _load_rows(A: Any, B: Any, count: Any, transposed: str) -> Any:
    """Return the signature and the code of a load; ``transposed`` is a qualifier of PTX."""
    if not (is_flat(A) and is_flat(B) and A.dtype == B.dtype):
        return None
    words = size_of(A.dtype, False) * count.literal_value // 4
    i32 = ir.IntType(32)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        source = pointer(context, builder, B, args[2], args[3])
        shared = builder.ptrtoint(
            builder.addrspacecast(source, source.type.pointee.as_pointer(3)), i32
        )
        listed = ", ".join(f"${k}" for k in range(words))
        text = f"ldmatrix.sync.aligned.m8n8.x{words}{transposed}.shared.b16 {{{listed}}}, "
        result = i32 if words == 1 else ir.LiteralStructType([i32] * words)
        kind = ir.FunctionType(result, [i32])
        constraints = ",".join(["=r"] * words + ["r", "~{memory}"])
        # no branch may come between the threads of a warp, and no store move across it
        code = ir.InlineAsm(kind, f"{text}[${words}];", constraints, side_effect=True)
        registers = builder.call(code, [shared])
        vector = ir.Constant(ir.VectorType(i32, words), ir.Undefined)
        for k in range(words):
            word = registers if words == 1 else builder.extract_value(registers, k)
            vector = builder.insert_element(vector, word, i32(k))
        into = pointer(context, builder, A, args[0], args[1])
        builder.store(vector, builder.bitcast(into, vector.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(A, types.intp, B, types.intp, count), codegen


@intrinsic(prefer_literal=True)
def load_matrix(typingctx: Any, A: Any, at: Any, B: Any, start: Any, count: Any) -> Any:
    """Load the ``count`` elements that a thread gets of matrices in ``B`` into its own ``A``.

    The matrices have 8 rows of 16 bytes. ``start`` is the first element of the row that the lane
    gives: lanes 0 to 7 give the rows of the first matrix, and so on.
    """
    return _load_rows(A, B, count, "")


@intrinsic(prefer_literal=True)
def load_matrix_transposed(typingctx: Any, A: Any, at: Any, B: Any, start: Any, count: Any) -> Any:
    """Load as ``load_matrix`` does, with rows and columns of each matrix exchanged."""
    return _load_rows(A, B, count, ".trans")
