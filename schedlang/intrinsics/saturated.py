"""Casts to integers that keep out-of-range values at the nearest limit, and counts of bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError

from schedlang.expr.functions import definitions
from schedlang.intrinsics.elementary import emit_absolute, intrinsic_of  # noqa: F401
from schedlang.intrinsics.operators import is_bits
from schedlang.intrinsics.simd import (
    call_llvm,
    constant,
    convert,
    element,
    float_to_int,
    is_float,
    is_unsigned,
    llvm_type,
    with_element,
)

# the bits of a float's significand: integers of no more bits are exact
PRECISION = {types.float32: 24, types.float64: 53}


def limits_of(ty: types.Type) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer type or of a boolean."""
    if isinstance(ty, types.Boolean):
        return 0, 1
    bits = ty.bitwidth - ty.signed
    return -(1 << bits) if ty.signed else 0, (1 << bits) - 1


def saturate(builder: ir.IRBuilder, x: ir.Value, src: types.Type, dst: types.Type) -> ir.Value:
    """Emit `x` of type `src` as integers of type `dst`, limited to their range; NaN is 0."""
    if is_float(src):
        return saturate_float(builder, x, src, dst)
    (low, high), (least, most) = limits_of(element(dst)), limits_of(element(src))
    compare = builder.icmp_unsigned if is_unsigned(src) else builder.icmp_signed
    if least < low:
        x = builder.select(compare("<", x, constant(src, low)), constant(src, low), x)
    if most > high:
        x = builder.select(compare(">", x, constant(src, high)), constant(src, high), x)
    return convert(builder, x, src, dst)


def saturate_float(
    builder: ir.IRBuilder, x: ir.Value, src: types.Type, dst: types.Type
) -> ir.Value:
    """Emit floats truncated toward zero and limited; ordered comparisons are false for a NaN."""
    low, high = limits_of(element(dst))
    lowest, zero = constant(src, float(low)), constant(src, 0.0)
    if low:
        x = builder.select(builder.fcmp_ordered("==", x, x), x, zero)
    x = builder.select(builder.fcmp_ordered(">", x, lowest), x, lowest)
    if high.bit_length() <= PRECISION[element(src)]:
        highest = constant(src, float(high))
        x = builder.select(builder.fcmp_ordered("<", x, highest), x, highest)
        return float_to_int(builder, x, src, dst, fits=True)
    # the largest integer is not a float, but the one after it is
    beyond = builder.fcmp_ordered(">=", x, constant(src, float(high + 1)))
    inside = float_to_int(builder, builder.select(beyond, zero, x), src, dst, fits=True)
    return builder.select(beyond, constant(dst, high), inside)


def saturating(dtype: types.Type, x: types.Type) -> Any:
    """Return the signature and the code of a saturating cast."""
    src = types.unliteral(x)
    if not isinstance(element(src), types.Number | types.Boolean):
        raise TypingError(f"{x} is not a number or a vector of numbers")
    dst = with_element(src, dtype)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return saturate(builder, args[0], src, dst)

    return dst(src), codegen


def counted(x: types.Type) -> Any:
    """Return the signature and the code of the number of 1 bits of |x| as uint8."""
    src = types.unliteral(x)
    if not is_bits(src):
        raise TypingError(f"popcount({x}): give an integer or a boolean")
    dst = with_element(src, types.uint8)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        bits = emit_absolute(builder, src, args[0])
        if isinstance(element(src), types.Boolean):
            return builder.zext(bits, llvm_type(dst))
        count = call_llvm(builder, "ctpop", bits.type, [bits])
        return convert(builder, count, with_element(src, unsigned(element(src))), dst)

    return dst(src), codegen


def unsigned(ty: types.Integer) -> types.Integer:
    """Return the unsigned integer type of as many bits."""
    return types.Integer.from_bitwidth(ty.bitwidth, False)


# one for each row of the table of functions, made by intrinsic_of
exec("\n".join(definitions("saturated").values()))
__all__ = [*definitions("saturated")]
