"""Half precision: float16 in memory, float32 in values; numba's CPU target has no float16."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import UnsupportedError
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from schedlang.intrinsics.simd import convert, element, with_element


def reshaped(ty: ir.Type, scalar: ir.Type) -> ir.Type:
    """Return `scalar`, or a vector of it with as many lanes as `ty` if that is a vector."""
    return ir.VectorType(scalar, ty.count) if isinstance(ty, ir.VectorType) else scalar


def check_target() -> None:
    """Refuse x86 without F16C, where LLVM would call a library function that numba lacks."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    if triple.startswith("x86") and "+f16c" not in features:
        raise UnsupportedError(
            "float16 on the CPU needs a processor with F16C; if this one has it, unset "
            "NUMBA_CPU_NAME or list +f16c in NUMBA_CPU_FEATURES"
        )


def from_half_bits(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Emit the float16 of the given 16 bits, as float32."""
    check_target()
    half = builder.bitcast(bits, reshaped(bits.type, ir.HalfType()))
    return builder.fpext(half, reshaped(bits.type, ir.FloatType()))


def loaded_half(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Emit the float16 of 16 bits loaded from memory, as float32.

    NVVM merges the loads of eight neighbouring float16 into one, which it then cannot compile
    ("unsupported operation"). Loads of integers that are converted afterwards avoid that. The
    rounding back to float16 is exact, and so costs nothing.
    """
    if not _merges_halves(builder, bits):
        return from_half_bits(builder, bits)
    kind = ir.FunctionType(ir.FloatType(), [ir.IntType(16)])
    convert_bits = cgutils.get_or_insert_function(
        builder.module, kind, "llvm.convert.from.fp16.f32"
    )
    single = builder.call(convert_bits, [bits])
    return builder.fpext(builder.fptrunc(single, ir.HalfType()), ir.FloatType())


def _merges_halves(builder: ir.IRBuilder, value: ir.Value) -> bool:
    """Return whether NVVM compiles this scalar access, and may merge it with its neighbours."""
    is_vector = isinstance(value.type, ir.VectorType)
    return builder.module.triple.startswith("nvptx") and not is_vector


def to_half_bits(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Emit a float32 rounded to the nearest float16, ties to even, as 16 bits."""
    check_target()
    half = builder.fptrunc(x, reshaped(x.type, ir.HalfType()))
    return builder.bitcast(half, reshaped(x.type, ir.IntType(16)))


def stored_half(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Emit the bits of a float32 rounded to float16, for a store to memory.

    An assembly move hides from NVVM that they are of a float16, so that it merges neighbouring
    stores of integers (see :func:`loaded_half`). It costs nothing in machine code.
    """
    bits = to_half_bits(builder, x)
    if not _merges_halves(builder, bits):
        return bits
    kind = ir.FunctionType(bits.type, [bits.type])
    move = ir.InlineAsm(kind, "mov.b16 $0, $1;", "=h,h", side_effect=False)
    # without these attributes it would keep the loads around it apart
    return builder.call(move, [bits], attrs=("nounwind", "readnone"))


def round_to_odd(builder: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """Emit a float64 rounded toward zero to float32, with the last bit set if inexact.

    Rounding the result to float16 gives the float64 rounded once (Boldo and Melquiond, "Emulation
    of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
    """
    f32, f64, i32 = (reshaped(x.type, t) for t in (ir.FloatType(), ir.DoubleType(), ir.IntType(32)))
    near = builder.fptrunc(x, f32)
    back = builder.fpext(near, f64)
    absolute = [builder.bitcast(v, reshaped(x.type, ir.IntType(64))) for v in (x, back)]
    sign_off = ir.Constant(absolute[0].type, lanes_of(x.type, (1 << 63) - 1))
    size, back_size = (builder.and_(v, sign_off) for v in absolute)
    # without their signs, floats compare like their bits; an ordered compare is false for a NaN
    inexact = builder.fcmp_ordered("!=", x, back)
    too_far = builder.and_(inexact, builder.icmp_unsigned(">", back_size, size))
    bits = builder.sub(builder.bitcast(near, i32), builder.zext(too_far, i32))
    return builder.bitcast(builder.or_(bits, builder.zext(inexact, i32)), f32)


def lanes_of(ty: ir.Type, x: int) -> Any:
    """Return the initialiser of an LLVM constant that is `x` in every lane."""
    return [x] * ty.count if isinstance(ty, ir.VectorType) else x


@intrinsic
def half(typingctx: Any, x: Any) -> Any:
    """Return a float32 rounded to float16 precision, as float32."""
    ty = types.unliteral(x)
    if element(ty) != types.float32:
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return from_half_bits(builder, to_half_bits(builder, args[0]))

    return ty(ty), codegen


@intrinsic
def half_from(typingctx: Any, x: Any) -> Any:
    """Return any number rounded once to float16 precision, as float32."""
    ty = types.unliteral(x)
    single = with_element(ty, types.float32)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        # float32 is exact for every integer up to float16's largest
        if element(ty) == types.float64:
            value = round_to_odd(builder, args[0])
        else:
            value = convert(builder, args[0], ty, single)
        return from_half_bits(builder, to_half_bits(builder, value))

    return single(ty), codegen
