"""Instructions that a user declares: functions of LLVM's, and inline assembly or PTX.

A signature is written as LLVM writes it, `"i32x16 llvm.x86.avx512.vpdpbusd.512(i32x16, i32x16,
i32x16)"`.  The operands are vectors or scalars of the same bits, or of a part of them, which is
repeated.  They come as a tuple.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.simd import Vec, splat

SCALARS = {
    "i8": types.int8, "i16": types.int16, "i32": types.int32, "i64": types.int64,
    "f32": types.float32, "f64": types.float64,
}  # fmt: skip
LLVM_SCALARS = {
    "i8": ir.IntType(8), "i16": ir.IntType(16), "i32": ir.IntType(32), "i64": ir.IntType(64),
    "f16": ir.HalfType(), "f32": ir.FloatType(), "f64": ir.DoubleType(),
}  # fmt: skip


def parsed(signature: str) -> tuple[str, str, list[str]]:
    """Return the type of the result, the name and the types of the operands in a signature."""
    head, _, rest = signature.partition("(")
    result, _, name = head.partition(" ")
    return result, name, [word.strip() for word in rest.rstrip(")").split(",")]


def value_type(word: str) -> types.Type:
    """Return the type of a value that `word` names, such as `i32x16`."""
    scalar, _, lanes = word.partition("x")
    return Vec(SCALARS[scalar], int(lanes)) if lanes else SCALARS[scalar]


def word_type(word: str) -> ir.Type:
    """Return LLVM's type that `word` names, such as `i32x16`."""
    scalar, _, lanes = word.partition("x")
    return ir.VectorType(LLVM_SCALARS[scalar], int(lanes)) if lanes else LLVM_SCALARS[scalar]


def bits_of(ty: ir.Type) -> int:
    """Return the number of bits of a scalar or a vector."""
    if isinstance(ty, ir.VectorType):
        return ty.count * bits_of(ty.element)
    return {"half": 16, "float": 32, "double": 64}.get(str(ty)) or ty.width


def fitted(builder: ir.IRBuilder, x: ir.Value, wanted: ir.Type) -> ir.Value:
    """Emit the bits of `x` as a value of the type `wanted`, repeated if they are fewer."""
    own, bits = bits_of(x.type), bits_of(wanted)
    if own < bits:
        part = ir.IntType(own)
        one = x if x.type == part else builder.bitcast(x, part)
        x = splat(builder, one, bits // own)
    return x if x.type == wanted else builder.bitcast(x, wanted)


def operands_of(builder: ir.IRBuilder, given: ir.Value, words: Sequence[str]) -> list[ir.Value]:
    """Emit the operands in a tuple, each with the type that its word names."""
    return [
        fitted(builder, builder.extract_value(given, k), word_type(word))
        for k, word in enumerate(words)
    ]


@intrinsic
def instruct(typingctx: Any, signature: Any, operands: Any) -> Any:
    """Return the result of the function of LLVM's with this `signature`."""
    if not isinstance(signature, types.StringLiteral) or not isinstance(operands, types.BaseTuple):
        return None
    result, name, words = parsed(signature.literal_value)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        given = operands_of(builder, args[1], words)
        function = builder.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(word_type(result), [v.type for v in given])
            function = ir.Function(builder.module, kind, name)
        return builder.call(function, given)

    return value_type(result)(signature, operands), codegen


@intrinsic
def assemble(typingctx: Any, text: Any, constraints: Any, signature: Any, operands: Any) -> Any:
    """Return the result of inline assembly with these `constraints` and this `signature`."""
    literals = (text, constraints, signature)
    if not all(isinstance(word, types.StringLiteral) for word in literals):
        return None
    result, _, words = parsed(signature.literal_value)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        given = operands_of(builder, args[3], words)
        kind = ir.FunctionType(word_type(result), [v.type for v in given])
        # without it LLVM ends the process when it writes the code
        binding.initialize_native_asmparser()
        inline = ir.InlineAsm(kind, text.literal_value, constraints.literal_value, False)
        return builder.call(inline, given)

    return value_type(result)(*literals, operands), codegen
