"""Reinterpretation of a number's bits as another dtype of the same size."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.half import reshaped
from schedlang.intrinsics.simd import element, with_element


def reinterpreted(x: Any, source: types.Type, to: types.Type, scalar: ir.Type) -> Any:
    """Return the signature and code of one conversion, or `None` if `x` is not of type `source`."""
    ty = types.unliteral(x)
    if element(ty) != source:
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.bitcast(args[0], reshaped(args[0].type, scalar))

    return with_element(ty, to)(ty), codegen


@intrinsic
def bits_int32(typingctx: Any, x: Any) -> Any:
    """Return the bits of a float32 as an int32."""
    return reinterpreted(x, types.float32, types.int32, ir.IntType(32))


@intrinsic
def bits_int64(typingctx: Any, x: Any) -> Any:
    """Return the bits of a float64 as an int64."""
    return reinterpreted(x, types.float64, types.int64, ir.IntType(64))


@intrinsic
def bits_float32(typingctx: Any, x: Any) -> Any:
    """Return the float32 that has the bits of an int32."""
    return reinterpreted(x, types.int32, types.float32, ir.FloatType())


@intrinsic
def bits_float64(typingctx: Any, x: Any) -> Any:
    """Return the float64 that has the bits of an int64."""
    return reinterpreted(x, types.int64, types.float64, ir.DoubleType())
