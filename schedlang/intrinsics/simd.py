"""The vector type of emitted CPU kernels, `Vec`, and conversions of scalars and vectors.

A value of type `Vec(dtype, lanes)` is an LLVM vector.  It is a local variable like any other: it
can be reassigned in loops, passed to other compiled functions and returned from them.  A comparison
of two vectors gives a mask, a `Vec(boolean, lanes)`.  A number that is combined with a vector is
broadcast to its lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import lower_cast
from numba.extending import intrinsic, register_model


class Vec(types.Type):
    """The numba type of a vector of `lanes` values of `dtype`."""

    def __init__(self, dtype: types.Type, lanes: int) -> None:
        self.dtype, self.lanes = dtype, lanes
        super().__init__(name=f"Vec({dtype}, {lanes})")


@register_model(Vec)
class VecModel(models.PrimitiveModel):
    """The data model of `Vec`: one LLVM value."""

    def __init__(self, dmm: Any, fe_type: Vec) -> None:
        super().__init__(dmm, fe_type, llvm_type(fe_type))


def llvm_type(ty: types.Type) -> ir.Type:
    """Return the LLVM type of a scalar or vector value; a boolean is one bit."""
    if isinstance(ty, Vec):
        return ir.VectorType(llvm_type(ty.dtype), ty.lanes)
    if isinstance(ty, types.Boolean):
        return ir.IntType(1)
    if isinstance(ty, types.Integer):
        return ir.IntType(ty.bitwidth)
    return ir.FloatType() if ty == types.float32 else ir.DoubleType()


def element(ty: types.Type) -> types.Type:
    """Return the dtype of a vector type; a scalar type is returned as it is."""
    return ty.dtype if isinstance(ty, Vec) else ty


def with_element(ty: types.Type, dtype: types.Type) -> types.Type:
    """Return `dtype`, or a vector of it with as many lanes as `ty` if that is a vector."""
    return Vec(dtype, ty.lanes) if isinstance(ty, Vec) else dtype


def is_float(ty: types.Type) -> bool:
    """Return whether a scalar or vector type has floating-point values."""
    return isinstance(element(ty), types.Float)


def is_integer(ty: types.Type) -> bool:
    """Return whether a scalar or vector type has integers; booleans are not integers."""
    return isinstance(element(ty), types.Integer)


def is_unsigned(ty: types.Type) -> bool:
    """Return whether comparisons and divisions of this type are unsigned."""
    return isinstance(element(ty), types.Boolean) or not element(ty).signed


def constant(ty: types.Type, x: float) -> ir.Constant:
    """Return the constant `x` in every lane of a scalar or vector type."""
    llt = llvm_type(ty)
    return ir.Constant(llt, [x] * ty.lanes if isinstance(ty, Vec) else x)


def common_type(*operands: types.Type) -> types.Type | None:
    """Return the type that an elementwise operation converts its operands to, or None.

    Equal types stay as they are, and scalars of different integer types become int64. A number that
    is combined with a vector is broadcast if both have the same dtype. An integer is also converted
    and broadcast if it is a literal, or if the vector is of int64, as offsets are.
    """
    plain = [types.unliteral(t) for t in operands]
    shape = next((t for t in plain if isinstance(t, Vec)), plain[0])
    if isinstance(shape, Vec):
        for given, ty in zip(operands, plain, strict=True):
            mixes = isinstance(given, types.IntegerLiteral) or shape.dtype == types.int64
            converts = ty == shape.dtype or (is_integer(shape) and is_integer(ty) and mixes)
            if ty != shape and not (converts and not isinstance(ty, Vec)):
                return None
        return shape
    if all(t == shape for t in plain):
        return shape if isinstance(shape, types.Number | types.Boolean) else None
    return types.int64 if all(isinstance(t, types.Integer) for t in plain) else None


def type_suffix(ty: ir.Type) -> str:
    """Return the suffix for a type in the name of an overloaded LLVM function."""
    if isinstance(ty, ir.VectorType):
        return f"v{ty.count}{type_suffix(ty.element)}"
    if isinstance(ty, ir.IntType):
        return f"i{ty.width}"
    return {"half": "f16", "float": "f32", "double": "f64"}.get(str(ty), "p0")


def call_llvm(
    builder: ir.IRBuilder,
    name: str,
    ret: ir.Type,
    args: Sequence[ir.Value],
    *overloads: ir.Type,
    flags: Sequence[str] = (),
) -> ir.Value:
    """Emit a call of `llvm.<name>`, overloaded on some types, by default on the result's."""
    full_name = ".".join(["llvm", name, *(type_suffix(ty) for ty in overloads or [ret])])
    fnty = ir.FunctionType(ret, [a.type for a in args])
    function = cgutils.get_or_insert_function(builder.module, fnty, full_name)
    return builder.call(function, args, fastmath=flags)


def splat(builder: ir.IRBuilder, x: ir.Value, lanes: int) -> ir.Value:
    """Emit a vector with the scalar `x` in each of `lanes` lanes."""
    vt, i32 = ir.VectorType(x.type, lanes), ir.IntType(32)
    one = builder.insert_element(ir.Constant(vt, ir.Undefined), x, i32(0))
    zeros = ir.Constant(ir.VectorType(i32, lanes), None)
    return builder.shuffle_vector(one, ir.Constant(vt, ir.Undefined), zeros)


def each_lane(
    builder: ir.IRBuilder, ty: types.Type, one: Callable[..., ir.Value], args: Sequence[ir.Value]
) -> ir.Value:
    """Emit ``one`` on scalars, or on each lane of vectors."""
    if not isinstance(ty, Vec):
        return one(*args)
    result = ir.Constant(llvm_type(ty), ir.Undefined)
    for lane in range(ty.lanes):
        at = ir.IntType(32)(lane)
        value = one(*(builder.extract_element(x, at) for x in args))
        result = builder.insert_element(result, value, at)
    return result


def convert(builder: ir.IRBuilder, x: ir.Value, src: types.Type, dst: types.Type) -> ir.Value:
    """Emit the conversion of `x` from `src` to `dst`, both scalars or vectors of as many lanes."""
    a, b, llt = element(src), element(dst), llvm_type(dst)
    if a == b:
        return x
    if isinstance(b, types.Boolean):
        zero = constant(src, 0)
        if is_float(a):
            return builder.fcmp_unordered("!=", x, zero)
        return builder.icmp_unsigned("!=", x, zero)
    if is_float(b):
        if is_float(a):
            return builder.fptrunc(x, llt) if b == types.float32 else builder.fpext(x, llt)
        return builder.uitofp(x, llt) if is_unsigned(a) else builder.sitofp(x, llt)
    if is_float(a):
        return float_to_int(builder, x, src, dst)
    if isinstance(a, types.Boolean) or a.bitwidth < b.bitwidth:
        return builder.zext(x, llt) if is_unsigned(a) else builder.sext(x, llt)
    return builder.trunc(x, llt) if a.bitwidth > b.bitwidth else x


def float_to_int(
    builder: ir.IRBuilder, x: ir.Value, src: types.Type, dst: types.Type, fits: bool = False
) -> ir.Value:
    """Emit a truncation toward zero that wraps, by way of a wider signed type as in C compilers.

    What does not fit that type, NaN too, becomes its lowest number, like in x86's instructions.
    `fits` says that all values do.
    """
    ty = element(dst)
    if ty == types.uint64:
        # values from 2**63 up are moved into the signed range; then the top bit is set again
        limit = constant(src, 2.0**63)
        high = builder.fcmp_ordered(">=", x, limit)
        low = _truncation(builder, builder.select(high, builder.fsub(x, limit), x), src, dst, fits)
        top = builder.select(high, constant(dst, 1 << 63), constant(dst, 0))
        return builder.xor(low, top)
    wide = types.int32 if ty.bitwidth < 32 or ty == types.int32 else types.int64
    via = with_element(dst, wide)
    return convert(builder, _truncation(builder, x, src, via, fits), via, dst)


def _truncation(
    builder: ir.IRBuilder, x: ir.Value, src: types.Type, dst: types.Type, fits: bool
) -> ir.Value:
    """Emit the truncation of `x` to a signed type, or its lowest number where that does not fit."""
    whole = builder.fptosi(x, llvm_type(dst))
    if fits or not builder.module.triple.startswith("nvptx"):
        return whole
    # NVIDIA's instruction takes the nearest number instead, and 0 or the lowest one for NaN
    bits = element(dst).bitwidth
    below = builder.fcmp_ordered("<", x, constant(src, 2.0 ** (bits - 1)))
    return builder.select(below, whole, constant(dst, -(1 << (bits - 1))))


@lower_cast(types.Number, Vec)
@lower_cast(types.Boolean, Vec)
def cast_number_to_vec(
    context: Any, builder: ir.IRBuilder, src: types.Type, dst: Vec, x: ir.Value
) -> ir.Value:
    """Emit the conversion of a number to a vector, with its value in every lane."""
    plain = types.unliteral(src)
    x = context.cast(builder, x, src, plain)
    return splat(builder, convert(builder, x, plain, dst.dtype), dst.lanes)


def cast_intrinsic(x: types.Type, dtype: types.Type) -> Any:
    """Return the signature and the code of a cast with the meaning of `astype(dtype)`."""
    src = types.unliteral(x)
    if not isinstance(element(src), types.Number | types.Boolean):
        return None
    dst = with_element(src, dtype)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return convert(builder, args[0], src, dst)

    return dst(src), codegen


@intrinsic
def float32(typingctx: Any, x: Any) -> Any:
    """Return `x` as float32."""
    return cast_intrinsic(x, types.float32)


@intrinsic
def float64(typingctx: Any, x: Any) -> Any:
    """Return `x` as float64."""
    return cast_intrinsic(x, types.float64)


@intrinsic
def int8(typingctx: Any, x: Any) -> Any:
    """Return `x` as int8, wrapping."""
    return cast_intrinsic(x, types.int8)


@intrinsic
def int16(typingctx: Any, x: Any) -> Any:
    """Return `x` as int16, wrapping."""
    return cast_intrinsic(x, types.int16)


@intrinsic
def int32(typingctx: Any, x: Any) -> Any:
    """Return `x` as int32, wrapping."""
    return cast_intrinsic(x, types.int32)


@intrinsic
def int64(typingctx: Any, x: Any) -> Any:
    """Return `x` as int64, wrapping."""
    return cast_intrinsic(x, types.int64)


@intrinsic
def uint8(typingctx: Any, x: Any) -> Any:
    """Return `x` as uint8, wrapping."""
    return cast_intrinsic(x, types.uint8)


@intrinsic
def uint16(typingctx: Any, x: Any) -> Any:
    """Return `x` as uint16, wrapping."""
    return cast_intrinsic(x, types.uint16)


@intrinsic
def uint32(typingctx: Any, x: Any) -> Any:
    """Return `x` as uint32, wrapping."""
    return cast_intrinsic(x, types.uint32)


@intrinsic
def uint64(typingctx: Any, x: Any) -> Any:
    """Return `x` as uint64, wrapping."""
    return cast_intrinsic(x, types.uint64)


@intrinsic
def boolean(typingctx: Any, x: Any) -> Any:
    """Return whether `x` is not zero."""
    return cast_intrinsic(x, types.boolean)
