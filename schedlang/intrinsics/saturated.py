"""Casts to integers that keep out-of-range values at the nearest limit, and counts of bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from schedlang.intrinsics.elementary import emit_absolute
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
    # the largest integer is no float, but the one after it is
    beyond = builder.fcmp_ordered(">=", x, constant(src, float(high + 1)))
    inside = float_to_int(builder, builder.select(beyond, zero, x), src, dst, fits=True)
    return builder.select(beyond, constant(dst, high), inside)


def saturating(x: types.Type, dtype: types.Type) -> Any:
    """Return the signature and the code of a saturating cast."""
    src = types.unliteral(x)
    if not isinstance(element(src), types.Number | types.Boolean):
        raise TypingError(f"{x} is no number or vector of numbers")
    dst = with_element(src, dtype)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return saturate(builder, args[0], src, dst)

    return dst(src), codegen


@intrinsic
def saturated_int8(typingctx: Any, x: Any) -> Any:
    """Return `x` as the nearest int8, floats truncated toward zero and NaN as 0."""
    return saturating(x, types.int8)


@intrinsic
def saturated_int16(typingctx: Any, x: Any) -> Any:
    """Return `x` as the nearest int16, floats truncated toward zero and NaN as 0."""
    return saturating(x, types.int16)


@intrinsic
def saturated_int32(typingctx: Any, x: Any) -> Any:
    """Return `x` as the nearest int32, floats truncated toward zero and NaN as 0."""
    return saturating(x, types.int32)


@intrinsic
def saturated_int64(typingctx: Any, x: Any) -> Any:
    """Return `x` as the nearest int64, floats truncated toward zero and NaN as 0."""
    return saturating(x, types.int64)


@intrinsic
def saturated_uint8(typingctx: Any, x: Any) -> Any:
    """Return `x` as the nearest uint8, floats truncated toward zero and NaN as 0."""
    return saturating(x, types.uint8)


@intrinsic
def saturated_uint16(typingctx: Any, x: Any) -> Any:
    """Return `x` as the nearest uint16, floats truncated toward zero and NaN as 0."""
    return saturating(x, types.uint16)


@intrinsic
def saturated_uint32(typingctx: Any, x: Any) -> Any:
    """Return `x` as the nearest uint32, floats truncated toward zero and NaN as 0."""
    return saturating(x, types.uint32)


@intrinsic
def saturated_uint64(typingctx: Any, x: Any) -> Any:
    """Return `x` as the nearest uint64, floats truncated toward zero and NaN as 0."""
    return saturating(x, types.uint64)


@intrinsic
def popcount(typingctx: Any, x: Any) -> Any:
    """Return the number of 1 bits of |x| as uint8 (integers and booleans)."""
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
