"""bfloat16: 16 bits in memory, the upper half of a float32; values are float32."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from schedlang.intrinsics.half import reshaped, round_to_odd
from schedlang.intrinsics.simd import constant, convert, element, is_unsigned, with_element


def round_bfloat(builder: ir.IRBuilder, x: ir.Value, ty: types.Type) -> ir.Value:
    """Emit a float32 rounded to the nearest bfloat16, ties to even; a NaN stays one."""
    word = with_element(ty, types.uint32)
    bits = builder.bitcast(x, reshaped(x.type, ir.IntType(32)))
    last = builder.and_(builder.lshr(bits, constant(word, 16)), constant(word, 1))
    near = builder.add(bits, builder.add(last, constant(word, 0x7FFF)))
    quiet = builder.or_(bits, constant(word, 0x00400000))
    rounded = builder.select(builder.fcmp_unordered("uno", x, x), quiet, near)
    return builder.bitcast(builder.and_(rounded, constant(word, 0xFFFF0000)), x.type)


def sticky(builder: ir.IRBuilder, x: ir.Value, ty: types.Type) -> ir.Value:
    """Emit 64-bit integers that are exact as float64 and that round to the same bfloat16.

    From 2**40 on, a bit stands for the low bits, which only decide ties.
    """
    low = builder.icmp_unsigned("!=", builder.and_(x, constant(ty, 0xFFFF)), constant(ty, 0))
    mask = (1 << 64) - 1 - 0xFFFF if is_unsigned(ty) else -0x10000
    high = builder.and_(x, constant(ty, mask))
    odd = builder.or_(high, builder.select(low, constant(ty, 0x8000), constant(ty, 0)))
    if is_unsigned(ty):
        large = builder.icmp_unsigned(">=", x, constant(ty, 1 << 40))
    else:
        beyond = builder.icmp_signed(">=", x, constant(ty, 1 << 40))
        large = builder.or_(beyond, builder.icmp_signed("<=", x, constant(ty, -(1 << 40))))
    return builder.select(large, odd, x)


@intrinsic
def bfloat(typingctx: Any, x: Any) -> Any:
    """Return a float32 rounded to bfloat16 precision, as float32."""
    ty = types.unliteral(x)
    if element(ty) != types.float32:
        raise TypingError(f"bfloat({x}): give a float32")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return round_bfloat(builder, args[0], ty)

    return ty(ty), codegen


@intrinsic
def bfloat_from(typingctx: Any, x: Any) -> Any:
    """Return any number rounded once to bfloat16 precision, as float32."""
    ty = types.unliteral(x)
    single, double = with_element(ty, types.float32), with_element(ty, types.float64)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        value, own = args[0], element(ty)
        if isinstance(own, types.Boolean) or own == types.float32 or own.bitwidth <= 16:
            return round_bfloat(builder, convert(builder, value, ty, single), single)
        if isinstance(own, types.Integer):
            value = sticky(builder, value, ty) if own.bitwidth == 64 else value
            value = convert(builder, value, ty, double)
        return round_bfloat(builder, round_to_odd(builder, value), single)

    return single(ty), codegen


@intrinsic
def bfloat_value(typingctx: Any, bits: Any) -> Any:
    """Return the bfloat16 of 16 bits (uint16), as float32."""
    ty = types.unliteral(bits)
    if element(ty) != types.uint16:
        raise TypingError(f"bfloat_value({bits}): give a uint16")
    word = with_element(ty, types.uint32)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        wide = builder.zext(args[0], reshaped(args[0].type, ir.IntType(32)))
        shifted = builder.shl(wide, constant(word, 16))
        return builder.bitcast(shifted, reshaped(shifted.type, ir.FloatType()))

    return with_element(ty, types.float32)(ty), codegen


@intrinsic
def bfloat_bits(typingctx: Any, x: Any) -> Any:
    """Return the 16 bits (uint16) of a bfloat16, which is given as float32."""
    ty = types.unliteral(x)
    if element(ty) != types.float32:
        raise TypingError(f"bfloat_bits({x}): give a float32")
    word = with_element(ty, types.uint32)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        bits = builder.bitcast(args[0], reshaped(args[0].type, ir.IntType(32)))
        upper = builder.lshr(bits, constant(word, 16))
        return builder.trunc(upper, reshaped(upper.type, ir.IntType(16)))

    return with_element(ty, types.uint16)(ty), codegen
