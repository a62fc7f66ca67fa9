from __future__ import annotations

from typing import Any

# B(A: float32[n]) -> B: float32[m]
#
# Schedule:
#     s = sl.schedule(B)
#     (i,) = s[B].op.axis
#     s[B].bind(i, "blockIdx.x")
#
# Loop nest:
#     kernel B:
#       i = blockIdx.x in 0..m
#       B[i] = A[i] * 2
from llvmlite import ir
from numba import cuda, types
from numba.core import cgutils
from numba.core.cpu import CPUContext
from numba.core.datamodel import models
from numba.core.errors import UnsupportedError
from numba.core.imputils import lower_cast
from numba.core.registry import cpu_target
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


def is_unsigned(ty: types.Type) -> bool:
    """Return whether comparisons and divisions of this type are unsigned."""
    return isinstance(element(ty), types.Boolean) or not element(ty).signed


def constant(ty: types.Type, x: float) -> ir.Constant:
    """Return the constant `x` in every lane of a scalar or vector type."""
    llt = llvm_type(ty)
    return ir.Constant(llt, [x] * ty.lanes if isinstance(ty, Vec) else x)


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


@intrinsic
def load(typingctx: Any, A: Any, off: Any) -> Any:
    """Return the element at `off`."""
    return load_intrinsic(A, A.dtype, False) if is_flat(A) else None


@intrinsic
def store(typingctx: Any, A: Any, off: Any, x: Any) -> Any:
    """Write the scalar `x` at `off`, cast to the array's dtype."""
    return store_intrinsic(A, A.dtype, False) if is_flat(A) else None


OPTIONS = dict(fastmath=False)


@cuda.jit(launch_bounds=1, **OPTIONS)
def B_kernel(A, B, n, m):
    i = cuda.blockIdx.x  # i in 0..m
    store(B, i, load(A, i) * float32(2))


def launch(A, B, n, m, stream=0):
    """The kernels in order."""
    if m >= 1 and m >= n + 1:
        raise ValueError(
            f"kernel B cannot run where n={n}, m={m}: "
            f"index 0 of A, i, takes the values 0..{m - 1}, outside 0..{n} (in stage B)\n"
            "  Guard the read with sl.if_then_else(cond, ..., 0)."
        )
    grid = (m,)
    if all(grid):
        B_kernel[grid, (1,), stream](A, B, n, m)


__all__ = ["launch"]
