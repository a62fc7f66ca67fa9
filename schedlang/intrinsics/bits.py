"""Functions of a number's bits: another dtype of the same size, and fewer bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from schedlang.expr.functions import definitions
from schedlang.intrinsics.elementary import intrinsic_of  # noqa: F401
from schedlang.intrinsics.half import reshaped
from schedlang.intrinsics.simd import element, with_element


def reinterpreted(source: types.Type, to: types.Type, scalar: ir.Type, x: Any) -> Any:
    """Return the signature and code of one conversion, or `None` if `x` is not of type `source`."""
    ty = types.unliteral(x)
    if element(ty) != source:
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], reshaped(args[0].type, scalar))

    return with_element(ty, to)(ty), codegen


def nearest_tf32(x: Any) -> Any:
    """Return the signature and code of the nearest TF32, or `None` if `x` is not float32."""
    ty = types.unliteral(x)
    if element(ty) != types.float32:
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kind = args[0].type
        words = reshaped(kind, ir.IntType(32))
        half, kept = (_filled(words, word) for word in (0x1000, 0xFFFFE000))
        nearest = builder.and_(builder.add(builder.bitcast(args[0], words), half), kept)
        # the bits of a NaN may overflow
        is_nan = builder.fcmp_unordered("uno", args[0], args[0])
        return builder.select(is_nan, args[0], builder.bitcast(nearest, kind))

    return ty(ty), codegen


def _filled(kind: ir.Type, word: int) -> ir.Constant:
    """Return a word, or a vector of equal words."""
    return ir.Constant(kind, [word] * kind.count if isinstance(kind, ir.VectorType) else word)


# one for each row of the table of functions, made by intrinsic_of
exec("\n".join(definitions("bits").values()))
__all__ = [*definitions("bits")]
