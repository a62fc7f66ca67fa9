"""The network network, as schedlang wrote it. It needs numba and NumPy alone.

In this folder:

    import numpy as np
    import network

    params = network.pack(np.load("weights.npz"))
    second = network.network(x, params=params)

It takes, in this order, contiguous arrays of NumPy:

    x: float32[3, 7]

It returns new arrays, or writes those that are given behind the inputs, or as out=:

    second: float32[3, 4]

The first call compiles all kernels, which may take minutes. numba keeps the machine code in
__pycache__ beside this file, or in NUMBA_CACHE_DIR, so that later processes start at once.

schedlang.load(folder) makes a network of this folder again.
"""

from __future__ import annotations

# network(x: float32[3, 7]) -> second: float32[3, 4]
#
# 2 calls of 2 kernels. `params` has 2 arrays in 320 B. `arena` has the arrays between calls in
# 128 B.

import numpy as np
from numba import njit

import operator
from collections.abc import Callable, Sequence
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.core.cpu import CPUContext
from numba.core.datamodel import models
from numba.core.errors import TypingError, UnsupportedError
from numba.core.imputils import lower_builtin, lower_cast
from numba.core.registry import cpu_target
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, register_model
from numba.np.arrayobj import populate_array
from typing import Any


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
        found = one(*(builder.extract_element(x, at) for x in args))
        result = builder.insert_element(result, found, at)
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

    What does not fit that type, NaN too, becomes its lowest number, as x86's instructions do.
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


# a multiplication and an addition may fuse; nothing else is reassociated
CONTRACT = ("contract",)
Emit = Callable[..., ir.Value]


def vec_operator(op: Any, accepts: Callable[[types.Type], bool], mask: bool, emit: Emit) -> None:
    """Define the operator `op` on vectors of the accepted types.

    With `mask` the result is a vector of booleans, else a vector of the operands' type.
    """
    arity = emit.__code__.co_argcount - 2

    class Operator(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if len(args) != arity or not any(isinstance(t, Vec) for t in args):
                return None
            ty = common_type(*args)
            if ty is None or not accepts(ty):
                return None
            return signature(with_element(ty, types.boolean) if mask else ty, *[ty] * arity)

    def lower(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit(builder, sig.args[0], *args)

    infer_global(op)(Operator)
    lower_builtin(op, *[Vec] * arity)(lower)


def elementwise(accepts: Callable[[types.Type], bool], emit: Emit, *operands: types.Type) -> Any:
    """Return an intrinsic that converts its operands to one type; the result has that type."""
    ty = common_type(*operands)
    if ty is None or not accepts(ty):
        given = ", ".join(str(types.unliteral(t)) for t in operands)
        raise TypingError(f"operands ({given}) have no common dtype here; cast them to one")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return emit(builder, ty, *args)

    return ty(*[ty] * len(operands)), codegen


def is_number(ty: types.Type) -> bool:
    """Return whether a type is a number, which has arithmetic."""
    return is_float(ty) or is_integer(ty)


def is_any(ty: types.Type) -> bool:
    """Return True for every scalar and vector type."""
    return True


def emit_add(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a + b."""
    return builder.fadd(a, b, flags=CONTRACT) if is_float(ty) else builder.add(a, b)


def emit_mul(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a * b."""
    return builder.fmul(a, b, flags=CONTRACT) if is_float(ty) else builder.mul(a, b)


def emit_neg(builder: ir.IRBuilder, ty: types.Type, a: ir.Value) -> ir.Value:
    """Emit -a."""
    if is_float(ty):
        return builder.fsub(constant(ty, -0.0), a)
    return builder.sub(constant(ty, 0), a)


def emit_rem(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit the exact remainder of the truncated quotient a / b, with the sign of a."""
    if not builder.module.triple.startswith("nvptx"):
        return builder.frem(a, b)

    def one(x: ir.Value, y: ir.Value) -> ir.Value:
        # NVPTX's own frem computes it from a rounded quotient
        name = "__nv_fmod" if isinstance(x.type, ir.DoubleType) else "__nv_fmodf"
        kind = ir.FunctionType(x.type, [x.type, x.type])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [x, y])

    return each_lane(builder, ty, one, [a, b])


def emit_mod(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a % b as in NumPy: with the sign of b, and 0 for an integer modulo zero."""
    zero = constant(ty, 0)
    if is_float(ty):
        rem = emit_rem(builder, ty, a, b)
        moved = builder.fadd(rem, b)
        signed_zero = emit_copysign(builder, ty, zero, b)
        result = builder.select(emit_signs_differ(builder, ty, rem, b), moved, rem)
        return builder.select(builder.fcmp_ordered("==", rem, zero), signed_zero, result)
    divisor = emit_safe_divisor(builder, ty, a, b)
    if is_unsigned(ty):
        rem = builder.urem(a, divisor)
    else:
        rem = builder.srem(a, divisor)
        moved = builder.add(rem, divisor)
        rem = builder.select(emit_signs_differ(builder, ty, rem, divisor), moved, rem)
    return builder.select(builder.icmp_unsigned("==", b, zero), zero, rem)


def emit_copysign(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit |a| with the sign of b."""
    return call_llvm(builder, "copysign", a.type, [a, b])


def emit_safe_divisor(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit `b`, or 1 where the machine's integer division a / b would trap."""
    traps = builder.icmp_unsigned("==", b, constant(ty, 0))
    if not is_unsigned(ty):
        lowest = builder.icmp_signed("==", a, constant(ty, -(1 << (bit_width(ty) - 1))))
        minus_one = builder.icmp_signed("==", b, constant(ty, -1))
        traps = builder.or_(traps, builder.and_(lowest, minus_one))
    return builder.select(traps, constant(ty, 1), b)


def emit_signs_differ(builder: ir.IRBuilder, ty: types.Type, rem: ir.Value, b: ir.Value) -> Any:
    """Emit whether a remainder is not zero and its sign is not that of the divisor."""
    zero = constant(ty, 0)
    if is_float(ty):
        some = builder.fcmp_unordered("!=", rem, zero)
        low, low_b = builder.fcmp_ordered("<", rem, zero), builder.fcmp_ordered("<", b, zero)
    else:
        some = builder.icmp_signed("!=", rem, zero)
        low, low_b = builder.icmp_signed("<", rem, zero), builder.icmp_signed("<", b, zero)
    return builder.and_(some, builder.xor(low, low_b))


def bit_width(ty: types.Type) -> int:
    """Return the number of bits in one element of an integer type, scalar or vector."""
    llt = llvm_type(ty)
    return llt.element.width if isinstance(llt, ir.VectorType) else llt.width


def emit_compare(builder: ir.IRBuilder, ty: types.Type, op: str, a: Any, b: Any) -> ir.Value:
    """Emit the comparison a `op` b; a NaN is unequal to everything."""
    if is_float(ty):
        return (builder.fcmp_unordered if op == "!=" else builder.fcmp_ordered)(op, a, b)
    return (builder.icmp_unsigned if is_unsigned(ty) else builder.icmp_signed)(op, a, b)


def emit_gt(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a > b."""
    return emit_compare(builder, ty, ">", a, b)


def emit_eq(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a == b."""
    return emit_compare(builder, ty, "==", a, b)


def emit_ne(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a != b."""
    return emit_compare(builder, ty, "!=", a, b)


vec_operator(operator.add, is_number, False, emit_add)
vec_operator(operator.mul, is_number, False, emit_mul)
vec_operator(operator.mod, is_number, False, emit_mod)
vec_operator(operator.neg, is_number, False, emit_neg)
vec_operator(operator.gt, is_any, True, emit_gt)
vec_operator(operator.eq, is_any, True, emit_eq)
vec_operator(operator.ne, is_any, True, emit_ne)


def emit_maximum(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit max(a, b), NaN if either is NaN."""
    return emit_extremum(builder, ty, ">", a, b)


def emit_extremum(builder: ir.IRBuilder, ty: types.Type, op: str, a: Any, b: Any) -> ir.Value:
    """Emit min(a, b) for `op` "<" or max(a, b) for ">"; NaN if either is NaN.

    Of 0.0 and -0.0 it is `a`, on a GPU either.
    """
    if is_float(ty):
        name = "minimum" if op == "<" else "maximum"
        # x86's instruction returns its second operand of two zeros; LLVM swaps the operands if `a`
        # alone is never NaN, for which the language gives it second
        return call_llvm(builder, name, a.type, [b, a], flags=("nsz",))
    return builder.select(emit_compare(builder, ty, op, a, b), a, b)


@intrinsic(prefer_literal=True)
def maximum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the larger of `a` and `b`, the first of two zeros; NaN if either is NaN."""
    return elementwise(is_any, emit_maximum, a, b)


@intrinsic(prefer_literal=True)
def broadcast(typingctx: Any, x: Any, lanes: Any) -> Any:
    """Return a vector with `x` in each of its `lanes` lanes; `lanes` is a literal."""
    src = types.unliteral(x)
    if not isinstance(src, types.Number | types.Boolean):
        return None
    vec = Vec(src, lanes.literal_value)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return splat(builder, args[0], vec.lanes)

    return vec(src, lanes), codegen


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


ALIGNMENT = 64
I32 = ir.IntType(32)


def memory_type(ty: types.Type, half: bool) -> ir.Type:
    """Return the LLVM type of a value of `ty` in memory."""
    bits = 16 if half else 8 if isinstance(element(ty), types.Boolean) else 0
    if not bits:
        return llvm_type(ty)
    return ir.VectorType(ir.IntType(bits), ty.lanes) if isinstance(ty, Vec) else ir.IntType(bits)


def from_memory(
    context: Any, builder: ir.IRBuilder, raw: ir.Value, ty: types.Type, half: bool
) -> ir.Value:
    """Emit the conversion of `raw`, as loaded from memory, to a value of type `ty`.

    It also aligns the stack of a CPU function that loads vectors, since they may spill there.
    """
    if isinstance(ty, Vec) and isinstance(context, CPUContext):
        align_spills(builder)
    if half:
        return loaded_half(builder, raw)
    if isinstance(element(ty), types.Boolean):
        return builder.icmp_unsigned("!=", raw, ir.Constant(raw.type, None))
    return raw


def align_spills(builder: ir.IRBuilder) -> None:
    """Align the function's stack, so that no spilled vector lies across two cache lines."""
    attributes = builder.function.attributes
    attributes.alignstack = ALIGNMENT
    # llvmlite prints the alignment only if some other attribute is set
    attributes.add("nounwind")


def to_memory(builder: ir.IRBuilder, x: ir.Value, ty: types.Type, half: bool) -> ir.Value:
    """Emit the conversion of `x`, of type `ty`, to its type in memory."""
    if half:
        return stored_half(builder, x)
    if isinstance(element(ty), types.Boolean):
        return builder.zext(x, memory_type(ty, half))
    return x


def value_dtype(array: types.Array, half: bool) -> types.Type:
    """Return the dtype of an array's elements as values."""
    return types.float32 if half else array.dtype


def size_of(ty: types.Type, half: bool) -> int:
    """Return the number of bytes of one element in memory."""
    llt = memory_type(element(ty), half)
    return {"float": 4, "double": 8}.get(str(llt)) or llt.width // 8


def pointer(
    context: Any, builder: ir.IRBuilder, array: types.Array, value: ir.Value, off: ir.Value
) -> ir.Value:
    """Emit the address of the element at `off`."""
    data = context.data_model_manager[array].get(builder, value, "data")
    return builder.gep(data, [off], inbounds=True)


def alignment_of(ty: types.Type, half: bool, whole: bool) -> int:
    """Return the alignment of an address in bytes: an element's, or the `whole` vector's."""
    lanes = ty.lanes if whole and isinstance(ty, Vec) else 1
    return size_of(ty, half) * lanes


def load_intrinsic(
    array: types.Type, ty: types.Type, half: bool, *rest: types.Type, whole: bool = False
) -> Any:
    """Return an intrinsic that loads `ty` at an offset; arguments of types `rest` are not used."""
    align = alignment_of(ty, half, whole)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        ptr = pointer(context, builder, array, args[0], args[1])
        ptr = builder.bitcast(ptr, memory_type(ty, half).as_pointer())
        return from_memory(context, builder, builder.load(ptr, align=align), ty, half)

    return ty(array, types.intp, *rest), codegen


def store_intrinsic(array: types.Type, ty: types.Type, half: bool, whole: bool = False) -> Any:
    """Return an intrinsic that stores `ty` at an offset."""
    align = alignment_of(ty, half, whole)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        ptr = pointer(context, builder, array, args[0], args[1])
        ptr = builder.bitcast(ptr, memory_type(ty, half).as_pointer())
        builder.store(to_memory(builder, args[2], ty, half), ptr, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, ty), codegen


def is_flat(array: types.Type) -> bool:
    """Return whether a type is a one-dimensional array."""
    return isinstance(array, types.Array) and array.ndim == 1


def vector_of(array: types.Type, v: types.Type, half: bool) -> types.Type | None:
    """Return `v` if it is a vector of the array's values, else None."""
    if isinstance(v, Vec) and is_flat(array) and v.dtype == value_dtype(array, half):
        return v
    return None


@intrinsic
def load(typingctx: Any, A: Any, off: Any) -> Any:
    """Return the element at `off`."""
    return load_intrinsic(A, A.dtype, False) if is_flat(A) else None


@intrinsic(prefer_literal=True)
def vload(typingctx: Any, A: Any, off: Any, lanes: Any) -> Any:
    """Return the `lanes` elements from `off` on."""
    return load_intrinsic(A, Vec(A.dtype, lanes.literal_value), False, lanes)


@intrinsic
def vstore(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Write the vector `v` from `off` on."""
    return store_intrinsic(A, v, False) if vector_of(A, v, False) else None


def named_dtype(dtype: types.Type) -> types.Type:
    """Return the dtype that is named by a cast function or a literal string."""
    name = getattr(dtype, "literal_value", None) or dtype.typing_key.__name__
    return types.boolean if name in ("bool", "boolean") else getattr(types, name)


def array_at(
    context: Any, builder: ir.IRBuilder, array: types.Array, data: ir.Value, n: Any, meminfo: Any
) -> ir.Value:
    """Emit numba's struct of an array of `n` elements at `data`."""
    size = context.get_constant(types.intp, size_of(array.dtype, False))
    struct = context.make_array(array)(context, builder)
    populate_array(
        struct, data=data, shape=[n], strides=[size], itemsize=size, meminfo=meminfo, parent=None
    )
    return struct._getvalue()


@intrinsic(prefer_literal=True)
def stack_array(typingctx: Any, n: Any, dtype: Any) -> Any:
    """Return an uninitialised flat array on the stack, aligned to 64 bytes.

    It has `n` elements, a literal.
    """
    array = types.Array(named_dtype(dtype), 1, "C")
    length = n.literal_value

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        cell = memory_type(array.dtype, False)
        with builder.goto_entry_block():
            block = builder.alloca(ir.ArrayType(cell, length))
            block.align = ALIGNMENT
        data = builder.bitcast(block, cell.as_pointer())
        count = context.get_constant(types.intp, length)
        return array_at(context, builder, array, data, count, None)

    return array(n, dtype), codegen


@intrinsic(prefer_literal=True)
def arena_array(typingctx: Any, arena: Any, start: Any, n: Any, dtype: Any) -> Any:
    """Return the flat array of `n` elements that begins at byte `start` of `arena`, of uint8."""
    if not is_flat(arena) or arena.dtype != types.uint8:
        return None
    array = types.Array(named_dtype(dtype), 1, "C")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        data = context.data_model_manager[arena].get(builder, args[0], "data")
        place = builder.gep(data, [args[1]])
        data = builder.bitcast(place, memory_type(array.dtype, False).as_pointer())
        return array_at(context, builder, array, data, args[2], None)

    return array(arena, types.intp, types.intp, dtype), codegen


MODE = ir.IntType(64)
FTZ_DAZ = 0x8040
FZ = 1 << 24


def read_mode(builder: ir.IRBuilder, machine: str) -> ir.Value:
    """Emit a read of the control register; other processors have none."""
    if machine in ("aarch64", "arm64"):
        return builder.asm(
            ir.FunctionType(MODE, []), "mrs $0, fpcr", "=r", [], side_effect=True
        )
    if machine != "x86_64":
        return MODE(0)
    place = cgutils.alloca_once(builder, I32)
    access_mxcsr(builder, "st", place)
    return builder.zext(builder.load(place), MODE)


def write_mode(builder: ir.IRBuilder, machine: str, mode: ir.Value) -> None:
    """Emit a write of the control register."""
    if machine in ("aarch64", "arm64"):
        kind = ir.FunctionType(ir.VoidType(), [MODE])
        builder.asm(kind, "msr fpcr, $0", "r", [mode], side_effect=True)
    elif machine == "x86_64":
        place = cgutils.alloca_once(builder, I32)
        builder.store(builder.trunc(mode, I32), place)
        access_mxcsr(builder, "ld", place)


def access_mxcsr(builder: ir.IRBuilder, how: str, place: ir.Value) -> None:
    """Emit a load (``ld``) of MXCSR from ``place``, or a store (``st``) to it."""
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t])
    name = f"llvm.x86.sse.{how}mxcsr"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    builder.call(function, [builder.bitcast(place, cgutils.voidptr_t)])


@intrinsic
def flush_denormals(typingctx: Any) -> Any:
    """Take denormal numbers as 0 from here on, in this thread, and return the mode before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        machine = binding.get_process_triple().split("-", 1)[0]
        before = read_mode(builder, machine)
        bits = FTZ_DAZ if machine == "x86_64" else FZ
        write_mode(builder, machine, builder.or_(before, MODE(bits)))
        return before

    return types.int64(), codegen


@intrinsic
def restore_mode(typingctx: Any, mode: Any) -> Any:
    """Set the mode of this thread to one that `flush_denormals` returned, and return it."""
    if not isinstance(mode, types.Integer):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        write_mode(builder, binding.get_process_triple().split("-", 1)[0], args[0])
        return args[0]

    return types.int64(types.int64), codegen


OPTIONS = dict(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})

# each parameter: its first byte in `params`, its dtype and its shape
PARAMS = {
    'w_packed': (0, 'float32', (7, 6)),
    'v_packed': (192, 'float32', (6, 4)),
}
PARAM_BYTES = 320
ARENA_BYTES = 128


# Kernel of first: first, relu
# schedule: by the cost model
@njit(**OPTIONS)
def first_kernel(x, w_packed, relu):
    first = stack_array(18, float32)  # first[3, 6]
    mode = flush_denormals()
    first_sum = broadcast(float32(0), 4)
    first_sum_1 = broadcast(float32(0), 2)
    first_sum_2 = broadcast(float32(0), 4)
    first_sum_3 = broadcast(float32(0), 2)
    first_sum_4 = broadcast(float32(0), 4)
    first_sum_5 = broadcast(float32(0), 2)
    w_packed_el = vload(w_packed, 0, 4)
    first_sum = first_sum + load(x, 0) * w_packed_el
    w_packed_el_1 = vload(w_packed, 4, 2)
    first_sum_1 = first_sum_1 + load(x, 0) * w_packed_el_1
    first_sum_2 = first_sum_2 + load(x, 7) * w_packed_el
    first_sum_3 = first_sum_3 + load(x, 7) * w_packed_el_1
    first_sum_4 = first_sum_4 + load(x, 14) * w_packed_el
    first_sum_5 = first_sum_5 + load(x, 14) * w_packed_el_1
    w_packed_el_2 = vload(w_packed, 6, 4)
    first_sum = first_sum + load(x, 1) * w_packed_el_2
    w_packed_el_3 = vload(w_packed, 10, 2)
    first_sum_1 = first_sum_1 + load(x, 1) * w_packed_el_3
    first_sum_2 = first_sum_2 + load(x, 8) * w_packed_el_2
    first_sum_3 = first_sum_3 + load(x, 8) * w_packed_el_3
    first_sum_4 = first_sum_4 + load(x, 15) * w_packed_el_2
    first_sum_5 = first_sum_5 + load(x, 15) * w_packed_el_3
    w_packed_el_4 = vload(w_packed, 12, 4)
    first_sum = first_sum + load(x, 2) * w_packed_el_4
    w_packed_el_5 = vload(w_packed, 16, 2)
    first_sum_1 = first_sum_1 + load(x, 2) * w_packed_el_5
    first_sum_2 = first_sum_2 + load(x, 9) * w_packed_el_4
    first_sum_3 = first_sum_3 + load(x, 9) * w_packed_el_5
    first_sum_4 = first_sum_4 + load(x, 16) * w_packed_el_4
    first_sum_5 = first_sum_5 + load(x, 16) * w_packed_el_5
    w_packed_el_6 = vload(w_packed, 18, 4)
    first_sum = first_sum + load(x, 3) * w_packed_el_6
    w_packed_el_7 = vload(w_packed, 22, 2)
    first_sum_1 = first_sum_1 + load(x, 3) * w_packed_el_7
    first_sum_2 = first_sum_2 + load(x, 10) * w_packed_el_6
    first_sum_3 = first_sum_3 + load(x, 10) * w_packed_el_7
    first_sum_4 = first_sum_4 + load(x, 17) * w_packed_el_6
    first_sum_5 = first_sum_5 + load(x, 17) * w_packed_el_7
    w_packed_el_8 = vload(w_packed, 24, 4)
    first_sum = first_sum + load(x, 4) * w_packed_el_8
    w_packed_el_9 = vload(w_packed, 28, 2)
    first_sum_1 = first_sum_1 + load(x, 4) * w_packed_el_9
    first_sum_2 = first_sum_2 + load(x, 11) * w_packed_el_8
    first_sum_3 = first_sum_3 + load(x, 11) * w_packed_el_9
    first_sum_4 = first_sum_4 + load(x, 18) * w_packed_el_8
    first_sum_5 = first_sum_5 + load(x, 18) * w_packed_el_9
    w_packed_el_10 = vload(w_packed, 30, 4)
    first_sum = first_sum + load(x, 5) * w_packed_el_10
    w_packed_el_11 = vload(w_packed, 34, 2)
    first_sum_1 = first_sum_1 + load(x, 5) * w_packed_el_11
    first_sum_2 = first_sum_2 + load(x, 12) * w_packed_el_10
    first_sum_3 = first_sum_3 + load(x, 12) * w_packed_el_11
    first_sum_4 = first_sum_4 + load(x, 19) * w_packed_el_10
    first_sum_5 = first_sum_5 + load(x, 19) * w_packed_el_11
    w_packed_el_12 = vload(w_packed, 36, 4)
    first_sum = first_sum + load(x, 6) * w_packed_el_12
    w_packed_el_13 = vload(w_packed, 40, 2)
    first_sum_1 = first_sum_1 + load(x, 6) * w_packed_el_13
    first_sum_2 = first_sum_2 + load(x, 13) * w_packed_el_12
    first_sum_3 = first_sum_3 + load(x, 13) * w_packed_el_13
    first_sum_4 = first_sum_4 + load(x, 20) * w_packed_el_12
    first_sum_5 = first_sum_5 + load(x, 20) * w_packed_el_13
    vstore(first, 0, first_sum)
    vstore(first, 4, first_sum_1)
    vstore(first, 6, first_sum_2)
    vstore(first, 10, first_sum_3)
    vstore(first, 12, first_sum_4)
    vstore(first, 16, first_sum_5)
    for i in range(3):
        vstore(relu, i*6, maximum(vload(first, i*6, 4), broadcast(float32(0), 4)))
        t = maximum(vload(first, i*6 + 4, 2), broadcast(float32(0), 2))
        vstore(relu, i*6 + 4, t)
    mode = restore_mode(mode)


# Kernel of second: second
# schedule: by the cost model
@njit(**OPTIONS)
def second_kernel(relu, v_packed, second):
    second_local = stack_array(12, float32)  # second.local[3, 4]
    mode = flush_denormals()
    second_local_sum = broadcast(float32(0), 4)
    second_local_sum_1 = broadcast(float32(0), 4)
    second_local_sum_2 = broadcast(float32(0), 4)
    v_packed_el = vload(v_packed, 0, 4)
    second_local_sum = second_local_sum + load(relu, 0) * v_packed_el
    second_local_sum_1 = second_local_sum_1 + load(relu, 6) * v_packed_el
    second_local_sum_2 = second_local_sum_2 + load(relu, 12) * v_packed_el
    v_packed_el_1 = vload(v_packed, 4, 4)
    second_local_sum = second_local_sum + load(relu, 1) * v_packed_el_1
    second_local_sum_1 = second_local_sum_1 + load(relu, 7) * v_packed_el_1
    second_local_sum_2 = second_local_sum_2 + load(relu, 13) * v_packed_el_1
    v_packed_el_2 = vload(v_packed, 8, 4)
    second_local_sum = second_local_sum + load(relu, 2) * v_packed_el_2
    second_local_sum_1 = second_local_sum_1 + load(relu, 8) * v_packed_el_2
    second_local_sum_2 = second_local_sum_2 + load(relu, 14) * v_packed_el_2
    v_packed_el_3 = vload(v_packed, 12, 4)
    second_local_sum = second_local_sum + load(relu, 3) * v_packed_el_3
    second_local_sum_1 = second_local_sum_1 + load(relu, 9) * v_packed_el_3
    second_local_sum_2 = second_local_sum_2 + load(relu, 15) * v_packed_el_3
    v_packed_el_4 = vload(v_packed, 16, 4)
    second_local_sum = second_local_sum + load(relu, 4) * v_packed_el_4
    second_local_sum_1 = second_local_sum_1 + load(relu, 10) * v_packed_el_4
    second_local_sum_2 = second_local_sum_2 + load(relu, 16) * v_packed_el_4
    v_packed_el_5 = vload(v_packed, 20, 4)
    second_local_sum = second_local_sum + load(relu, 5) * v_packed_el_5
    second_local_sum_1 = second_local_sum_1 + load(relu, 11) * v_packed_el_5
    second_local_sum_2 = second_local_sum_2 + load(relu, 17) * v_packed_el_5
    vstore(second_local, 0, second_local_sum)
    vstore(second_local, 4, second_local_sum_1)
    vstore(second_local, 8, second_local_sum_2)
    for i in range(3):
        vstore(second, i*4, vload(second_local, i*4, 4))
    mode = restore_mode(mode)


@njit(**OPTIONS)
def network_kernels(x, second, params, arena):
    w_packed = arena_array(params, 0, 42, float32)  # w_packed[7, 6]
    relu = arena_array(arena, 0, 18, float32)  # relu[3, 6]
    first_kernel(x, w_packed, relu)
    v_packed = arena_array(params, 192, 24, float32)  # v_packed[6, 4]
    second_kernel(relu, v_packed, second)


def _array(value, name, dtype, shape, written=False):
    """`value` flat, if it is a C-contiguous array of this dtype and shape."""
    if hasattr(value, "__array_interface__"):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array of {dtype}, got {type(value)}")
    if value.dtype != dtype or value.shape != shape:
        given = f"{value.dtype} of shape {value.shape}"
        raise TypeError(f"{name} must be a {dtype} array of shape {shape}, got {given}")
    if not value.flags.c_contiguous:
        raise ValueError(f"{name} is strided: pass a contiguous copy")
    if written and not value.flags.writeable:
        raise ValueError(f"{name} is read-only: pass a writable array")
    return value.reshape(-1)


def _apart(a, b, names, same_is_fine):
    """Refuse an output that shares memory with another array."""
    same = a.ctypes.data == b.ctypes.data and a.nbytes == b.nbytes
    if np.may_share_memory(a, b) and not (same and same_is_fine):
        raise ValueError(f"{names} overlap: pass a copy of one")


def _given(out, outputs):
    """The arrays of `out`, one or a tuple, for `outputs`, of which none is given by name."""
    arrays = [*out] if len(outputs) > 1 and isinstance(out, (tuple, list)) else [out]
    if len(arrays) != len(outputs):
        names = ", ".join(outputs)
        raise TypeError(f"out= has {len(arrays)} of the outputs; give an array for each: {names}")
    for name, value in outputs.items():
        if value is not None:
            raise TypeError(f"{name} is given twice, by out= and by name")
    return arrays


def _bytes(size):
    """`size` new bytes, from a multiple of 64 on."""
    whole = np.empty(size + 64, "uint8")
    start = -whole.ctypes.data % 64
    return whole[start : start + size]


def pack(arrays):
    """The bytes of all parameters, of arrays by their names in PARAMS."""
    params = _bytes(PARAM_BYTES)
    for name, (start, dtype, shape) in PARAMS.items():
        if name not in arrays:
            raise KeyError(f"the arrays given to pack have no weight {name}")
        flat = _array(arrays[name], name, dtype, shape)
        params[start : start + flat.nbytes] = flat.view("uint8")
    return params


def network(x, second=None, *, out=None, params):
    """second: float32[3, 4]; made here unless given. `params` are those of `pack`."""
    if out is not None:
        (second,) = _given(out, {'second': second})
    if second is None:
        second = np.empty((3, 4), 'float32')
    result = second
    x = _array(x, 'x', 'float32', (3, 7))
    second = _array(second, 'second', 'float32', (3, 4), written=True)
    _apart(second, x, 'second and x', False)
    params = _array(params, 'params, the result of pack(arrays),', "uint8", (PARAM_BYTES,))
    network_kernels(x, second, params, _bytes(ARENA_BYTES))
    return result


__all__ = ['PARAMS', 'network', 'pack']
