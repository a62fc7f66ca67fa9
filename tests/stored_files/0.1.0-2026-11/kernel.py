from __future__ import annotations

# C(A: float32[12, 7], B: float32[7, 20]) -> C: float32[12, 20]
#
# Schedule:
#     s = sl.schedule(C)
#     C_local = s.cache_write(C, "local")
#     i, j = s[C].op.axis
#     i_outer, i_inner = s[C].split(i, factor=4)
#     j_outer, j_inner = s[C].split(j, factor=8, tail="guard")
#     s[C].vectorize(j_inner)
#     s[C].parallel(i_outer)
#     s[C_local].compute_at(s[C], i_inner)
#     (k,) = s[C_local].op.reduce_axis
#     s[C_local].unroll(k)
#
# Loop nest:
#     parallel i.outer in 0..3:
#       for i.inner in 0..4:
#         C.local: float32[1, 20]   local, 80 B
#         for j in 0..20:
#           C.local[0, j] = 0
#           unroll k in 0..7:
#             C.local[0, j] += A[i.outer*4 + i.inner, k] * B[k, j]
#         for j.outer in 0..3:
#           vectorize j.inner in 0..8:
#             if j.outer*8 + j.inner < 20:   # tail of j split by 8
#               C[i.outer*4 + i.inner, j.outer*8 + j.inner] = C.local[0, j.outer*8 + j.inner]

import numpy as np
from numba import njit, prange

import operator
from collections.abc import Callable, Sequence
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.cpu import CPUContext
from numba.core.datamodel import models
from numba.core.errors import UnsupportedError
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


@intrinsic
def int64(typingctx: Any, x: Any) -> Any:
    """Return `x` as int64, wrapping."""
    return cast_intrinsic(x, types.int64)


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


def emit_compare(builder: ir.IRBuilder, ty: types.Type, op: str, a: Any, b: Any) -> ir.Value:
    """Emit the comparison a `op` b; a NaN is unequal to everything."""
    if is_float(ty):
        return (builder.fcmp_unordered if op == "!=" else builder.fcmp_ordered)(op, a, b)
    return (builder.icmp_unsigned if is_unsigned(ty) else builder.icmp_signed)(op, a, b)


def emit_lt(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit a < b."""
    return emit_compare(builder, ty, "<", a, b)


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
vec_operator(operator.neg, is_number, False, emit_neg)
vec_operator(operator.lt, is_any, True, emit_lt)
vec_operator(operator.gt, is_any, True, emit_gt)
vec_operator(operator.eq, is_any, True, emit_eq)
vec_operator(operator.ne, is_any, True, emit_ne)


@intrinsic(prefer_literal=True)
def iota(typingctx: Any, lanes: Any) -> Any:
    """Return the int64 vector 0, 1, ..., `lanes` - 1; `lanes` is a literal."""
    vec = Vec(types.int64, lanes.literal_value)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return ir.Constant(llvm_type(vec), list(range(vec.lanes)))

    return vec(lanes), codegen


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


@intrinsic
def store(typingctx: Any, A: Any, off: Any, x: Any) -> Any:
    """Write the scalar `x` at `off`, cast to the array's dtype."""
    return store_intrinsic(A, A.dtype, False) if is_flat(A) else None


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


def is_mask(mask: types.Type) -> bool:
    """Return whether a type is a vector of booleans."""
    return isinstance(mask, Vec) and mask.dtype == types.boolean


def base_pointer(
    context: Any, builder: ir.IRBuilder, array: types.Array, value: ir.Value, off: ir.Value
) -> ir.Value:
    """Emit the address of an element.

    Unlike that of `pointer` it may be outside the array, as where every lane is off.
    """
    return builder.gep(context.data_model_manager[array].get(builder, value, "data"), [off])


def masked_load_intrinsic(array: types.Type, mask: types.Type, half: bool) -> Any:
    """Return an intrinsic that loads consecutive elements where a mask holds, 0 elsewhere."""
    if not is_flat(array) or not is_mask(mask):
        return None
    vec = Vec(value_dtype(array, half), mask.lanes)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = memory_type(vec, half)
        ptr = base_pointer(context, builder, array, args[0], args[1])
        ptr = builder.bitcast(ptr, raw.as_pointer())
        operands = [ptr, I32(size_of(vec, half)), args[2], ir.Constant(raw, None)]
        loaded = call_llvm(builder, "masked.load", raw, operands, raw, ptr.type)
        return from_memory(context, builder, loaded, vec, half)

    return vec(array, types.intp, mask), codegen


def masked_store_intrinsic(array: types.Type, v: types.Type, mask: types.Type, half: bool) -> Any:
    """Return an intrinsic that stores consecutive elements where a mask holds."""
    if not vector_of(array, v, half) or mask != Vec(types.boolean, v.lanes):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = to_memory(builder, args[2], v, half)
        ptr = base_pointer(context, builder, array, args[0], args[1])
        ptr = builder.bitcast(ptr, raw.type.as_pointer())
        operands = [raw, ptr, I32(size_of(v, half)), args[3]]
        call_llvm(builder, "masked.store", ir.VoidType(), operands, raw.type, ptr.type)
        return context.get_dummy_value()

    return types.void(array, types.intp, v, mask), codegen


@intrinsic
def vload_masked(typingctx: Any, A: Any, off: Any, mask: Any) -> Any:
    """Return the elements from `off` on where `mask` holds, 0 elsewhere.

    The other elements are not read.
    """
    return masked_load_intrinsic(A, mask, False)


@intrinsic
def vstore_masked(typingctx: Any, A: Any, off: Any, v: Any, mask: Any) -> Any:
    """Write the lanes of `v` where `mask` holds, from `off` on."""
    return masked_store_intrinsic(A, v, mask, False)


OPTIONS = dict(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})


@njit(**OPTIONS)
def C_i_outer(i_outer, A, B, C):
    for i_inner in range(4):
        C_local = stack_array(20, float32)  # C.local[1, 20]
        for j in range(20):
            C_local_sum = float32(0)
            A_at = (i_outer*4 + i_inner)*7
            C_local_sum = C_local_sum + load(A, A_at) * load(B, j)
            C_local_sum = C_local_sum + load(A, A_at + 1) * load(B, j + 20)
            C_local_sum = C_local_sum + load(A, A_at + 2) * load(B, j + 40)
            C_local_sum = C_local_sum + load(A, A_at + 3) * load(B, j + 60)
            C_local_sum = C_local_sum + load(A, A_at + 4) * load(B, j + 80)
            C_local_sum = C_local_sum + load(A, A_at + 5) * load(B, j + 100)
            C_local_sum = C_local_sum + load(A, A_at + 6) * load(B, j + 120)
            store(C_local, j, C_local_sum)
        for j_outer in range(3):
            m = j_outer*8 + iota(8) < 20  # tail of j split by 8
            vstore_masked(C, (i_outer*4 + i_inner)*20 + j_outer*8, vload_masked(C_local, j_outer*8, m), m)


@njit(parallel=True, **OPTIONS)
def C_kernel(A, B, C):
    for i_outer in prange(3):
        C_i_outer(int64(i_outer), A, B, C)


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


def C(A, B, C=None, *, out=None):
    """C: float32[12, 20]; made here unless given."""
    if out is not None:
        (C,) = _given(out, {'C': C})
    if C is None:
        C = np.empty((12, 20), 'float32')
    result = C
    A = _array(A, 'A', 'float32', (12, 7))
    B = _array(B, 'B', 'float32', (7, 20))
    C = _array(C, 'C', 'float32', (12, 20), written=True)
    _apart(C, A, 'C and A', False)
    _apart(C, B, 'C and B', False)
    C_kernel(A, B, C)
    return result


__all__ = ['C']
