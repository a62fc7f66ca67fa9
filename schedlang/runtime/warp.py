"""The intrinsics that only GPU kernels have: exchanges in a warp, wide accesses.

They compile for the CUDA target of numba (numba-cuda).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .arith import elementwise, is_any
from .memory import is_flat, load_intrinsic, prefetch_intrinsic, store_intrinsic, vector_of
from .simd import Vec, common_type, each_lane, element, is_float, is_unsigned, llvm_type

# the whole warp takes part
FULL = 0xFFFFFFFF


def _shuffle(builder: ir.IRBuilder, word: ir.Value, distance: ir.Value) -> ir.Value:
    """Return a 32-bit word of the thread whose number is xored with ``distance``."""
    i32 = ir.IntType(32)
    fnty = ir.FunctionType(i32, [i32] * 4)
    name = "llvm.nvvm.shfl.sync.bfly.i32"
    function = cgutils.get_or_insert_function(builder.module, fnty, name)
    return builder.call(function, [i32(FULL), word, builder.trunc(distance, i32), i32(31)])


@intrinsic
def prefetch(typingctx: Any, A: Any, off: Any) -> Any:
    """Ask the second-level cache for the line of the element at `off`; any offset is allowed."""

    def emit(builder: ir.IRBuilder, ptr: ir.Value) -> None:
        kind = ir.FunctionType(ir.VoidType(), [ptr.type])
        builder.call(ir.InlineAsm(kind, "prefetch.L2 [$0];", "l", side_effect=True), [ptr])

    return prefetch_intrinsic(A, emit)


@intrinsic
def exchange(typingctx: Any, x: Any, distance: Any) -> Any:
    """Return ``x`` of the thread of the warp whose number is this one's xored with ``distance``."""
    ty = types.unliteral(x)
    if not isinstance(ty, types.Number | types.Boolean):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        value, distance = args
        raw = llvm_type(ty)
        bits = {"float": 32, "double": 64}.get(str(raw)) or raw.width
        word = value if isinstance(raw, ir.IntType) else builder.bitcast(value, ir.IntType(bits))
        if bits < 32:
            found = builder.trunc(
                _shuffle(builder, builder.zext(word, ir.IntType(32)), distance), ir.IntType(bits)
            )
        elif bits == 32:
            found = _shuffle(builder, word, distance)
        else:
            i32, i64 = ir.IntType(32), ir.IntType(64)
            low = _shuffle(builder, builder.trunc(word, i32), distance)
            high = _shuffle(builder, builder.trunc(builder.lshr(word, i64(32)), i32), distance)
            upper = builder.shl(builder.zext(high, i64), i64(32))
            found = builder.or_(builder.zext(low, i64), upper)
        return found if isinstance(raw, ir.IntType) else builder.bitcast(found, raw)

    return ty(ty, types.int64), codegen


def _extreme(name: str, emit: Any, *operands: types.Type) -> Any:
    """Return the least or the greatest: one instruction in float32, in which NaN wins."""
    ty = common_type(*operands)
    if ty is None or element(ty) != types.float32:
        return elementwise(is_any, emit, *operands)

    f32 = ir.FloatType()
    code = ir.InlineAsm(ir.FunctionType(f32, [f32] * 2), f"{name}.NaN.f32 $0, $1, $2;", "=f,f,f")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return each_lane(builder, ty, lambda *values: builder.call(code, values), args)

    return ty(ty, ty), codegen


@intrinsic(prefer_literal=True)
def maximum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the greater of a and b; NaN if one is."""
    return _extreme("max", emit_greatest, a, b)


@intrinsic(prefer_literal=True)
def minimum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the lesser of a and b; NaN if one is."""
    return _extreme("min", emit_least, a, b)


def emit_greatest(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Without LLVM's own maximum, which NVVM does not know."""
    return _chosen(builder, ty, ">", a, b)


def emit_least(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the same for the minimum."""
    return _chosen(builder, ty, "<", a, b)


def _chosen(builder: ir.IRBuilder, ty: types.Type, op: str, a: ir.Value, b: ir.Value) -> ir.Value:
    if is_float(ty):
        first = builder.or_(builder.fcmp_ordered(op, a, b), builder.fcmp_unordered("uno", a, a))
    elif is_unsigned(ty):
        first = builder.icmp_unsigned(op, a, b)
    else:
        first = builder.icmp_signed(op, a, b)
    return builder.select(first, a, b)


def _whole_load(array: types.Type, dtype: types.Type, lanes: Any, half: bool) -> Any:
    if not is_flat(array):
        return None
    return load_intrinsic(array, Vec(dtype, lanes.literal_value), half, lanes, whole=True)


def _whole_store(array: types.Type, v: types.Type, half: bool) -> Any:
    if vector_of(array, v, half) is None:
        return None
    return store_intrinsic(array, v, half, whole=True)


@intrinsic(prefer_literal=True)
def vload_aligned(typingctx: Any, A: Any, off: Any, lanes: Any) -> Any:
    """Return ``lanes`` elements (a literal) from ``off`` on, which is a multiple of it, at once."""
    return _whole_load(A, A.dtype, lanes, False)


@intrinsic(prefer_literal=True)
def vload_aligned_half(typingctx: Any, A: Any, off: Any, lanes: Any) -> Any:
    """Return ``vload_aligned`` of float16, as float32."""
    return _whole_load(A, types.float32, lanes, True)


@intrinsic
def vstore_aligned(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Write a vector from ``off`` on, which is a multiple of its lanes, at once."""
    return _whole_store(A, v, False)


@intrinsic
def vstore_aligned_half(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Return ``vstore_aligned`` of float32, rounded to float16."""
    return _whole_store(A, v, True)
