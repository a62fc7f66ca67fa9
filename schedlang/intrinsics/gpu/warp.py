"""The intrinsics of GPU kernels alone: exchanges in a warp, aligned vector accesses.

They compile for the CUDA target of numba (numba-cuda).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from schedlang.intrinsics.memory import (
    is_flat,
    load_intrinsic,
    prefetch_intrinsic,
    store_intrinsic,
    vector_of,
)
from schedlang.intrinsics.operators import elementwise, is_any
from schedlang.intrinsics.simd import (
    Vec,
    common_type,
    each_lane,
    element,
    is_float,
    is_unsigned,
    llvm_type,
)

# the mask of all threads of a warp
FULL = 0xFFFFFFFF


def _shuffle(builder: ir.IRBuilder, word: ir.Value, distance: ir.Value) -> ir.Value:
    """Emit the 32-bit word of the thread whose number is this one's xor ``distance``."""
    i32 = ir.IntType(32)
    fnty = ir.FunctionType(i32, [i32] * 4)
    name = "llvm.nvvm.shfl.sync.bfly.i32"
    function = cgutils.get_or_insert_function(builder.module, fnty, name)
    return builder.call(function, [i32(FULL), word, builder.trunc(distance, i32), i32(31)])


@intrinsic
def prefetch(typingctx: Any, A: Any, off: Any) -> Any:
    """Prefetch the line of the element at `off` into the L2 cache; any offset is allowed."""

    def emit(builder: ir.IRBuilder, ptr: ir.Value) -> None:
        kind = ir.FunctionType(ir.VoidType(), [ptr.type])
        builder.call(ir.InlineAsm(kind, "prefetch.L2 [$0];", "l", side_effect=True), [ptr])

    return prefetch_intrinsic(A, emit)


@intrinsic
def exchange(typingctx: Any, x: Any, distance: Any) -> Any:
    """Return ``x`` of the thread of the warp whose number is this one's xor ``distance``."""
    ty = types.unliteral(x)
    if not isinstance(ty, types.Number | types.Boolean):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        value, distance = args
        raw = llvm_type(ty)
        bits = {"float": 32, "double": 64}.get(str(raw)) or raw.width
        word = value if isinstance(raw, ir.IntType) else builder.bitcast(value, ir.IntType(bits))
        if bits < 32:
            moved = builder.trunc(
                _shuffle(builder, builder.zext(word, ir.IntType(32)), distance), ir.IntType(bits)
            )
        elif bits == 32:
            moved = _shuffle(builder, word, distance)
        else:
            i32, i64 = ir.IntType(32), ir.IntType(64)
            low = _shuffle(builder, builder.trunc(word, i32), distance)
            high = _shuffle(builder, builder.trunc(builder.lshr(word, i64(32)), i32), distance)
            upper = builder.shl(builder.zext(high, i64), i64(32))
            moved = builder.or_(builder.zext(low, i64), upper)
        return moved if isinstance(raw, ir.IntType) else builder.bitcast(moved, raw)

    return ty(ty, types.int64), codegen


def _extremum(name: str, emit: Any, *operands: types.Type) -> Any:
    """Return an intrinsic of the minimum or maximum, NaN if an operand is NaN.

    In float32 it is one instruction; other types use ``emit``.
    """
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
    """Return the larger of a and b; NaN if either is NaN."""
    return _extremum("max", emit_nvvm_maximum, a, b)


@intrinsic(prefer_literal=True)
def minimum(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the smaller of a and b; NaN if either is NaN."""
    return _extremum("min", emit_nvvm_minimum, a, b)


def emit_nvvm_maximum(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit max(a, b) without LLVM's own maximum, which NVVM does not know."""
    return _emit_compared(builder, ty, ">", a, b)


def emit_nvvm_minimum(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    """Emit min(a, b) without LLVM's own minimum, which NVVM does not know."""
    return _emit_compared(builder, ty, "<", a, b)


def _emit_compared(builder: ir.IRBuilder, ty: types.Type, op: str, a: Any, b: Any) -> ir.Value:
    """Emit a if the comparison a `op` b holds or a is NaN, else b."""
    if is_float(ty):
        first = builder.or_(builder.fcmp_ordered(op, a, b), builder.fcmp_unordered("uno", a, a))
    elif is_unsigned(ty):
        first = builder.icmp_unsigned(op, a, b)
    else:
        first = builder.icmp_signed(op, a, b)
    return builder.select(first, a, b)


def _aligned_load(array: types.Type, dtype: types.Type, lanes: Any, half: bool) -> Any:
    if not is_flat(array):
        return None
    return load_intrinsic(array, Vec(dtype, lanes.literal_value), half, lanes, whole=True)


def _aligned_store(array: types.Type, v: types.Type, half: bool) -> Any:
    if vector_of(array, v, half) is None:
        return None
    return store_intrinsic(array, v, half, whole=True)


@intrinsic(prefer_literal=True)
def vload_aligned(typingctx: Any, A: Any, off: Any, lanes: Any) -> Any:
    """Return the ``lanes`` elements from ``off`` on, loaded by one instruction.

    ``lanes`` is a literal, and ``off`` is a multiple of it.
    """
    return _aligned_load(A, A.dtype, lanes, False)


@intrinsic(prefer_literal=True)
def vload_aligned_half(typingctx: Any, A: Any, off: Any, lanes: Any) -> Any:
    """Return ``vload_aligned`` of float16 elements, as float32."""
    return _aligned_load(A, types.float32, lanes, True)


@intrinsic
def vstore_aligned(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Write the vector ``v`` by one instruction; ``off`` is a multiple of its lanes."""
    return _aligned_store(A, v, False)


@intrinsic
def vstore_aligned_half(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Write ``v`` as ``vstore_aligned`` does, rounded to float16."""
    return _aligned_store(A, v, True)
