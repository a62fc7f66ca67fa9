"""Loads and stores of emitted CPU kernels, over flat one-dimensional arrays.

Offsets count elements from the first; there is no wraparound and no bounds check.  A boolean is a
byte in memory and a bit in a value.  The functions that end in `_half` are for half precision: the
array is uint16 and holds float16, the value is float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from schedlang.intrinsics.half import loaded_half, stored_half
from schedlang.intrinsics.simd import Vec, call_llvm, element, llvm_type

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
    if isinstance(ty, Vec) and not builder.module.triple.startswith("nvptx"):
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


def in_words(held: ir.Type) -> ir.Type:
    """Return words of 32 bits for a vector of bytes, as a GPU's registers, else the type."""
    if not isinstance(held, ir.VectorType) or held.element != ir.IntType(8):
        return held
    return ir.VectorType(I32, held.count // 4) if held.count % 4 == 0 else held


def load_intrinsic(
    array: types.Type, ty: types.Type, half: bool, *rest: types.Type, whole: bool = False
) -> Any:
    """Return an intrinsic that loads `ty` at an offset; arguments of types `rest` are not used."""
    align, held = alignment_of(ty, half, whole), memory_type(ty, half)
    accessed = in_words(held) if whole else held

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        ptr = pointer(context, builder, array, args[0], args[1])
        raw = builder.load(builder.bitcast(ptr, accessed.as_pointer()), align=align)
        raw = raw if accessed == held else builder.bitcast(raw, held)
        return from_memory(context, builder, raw, ty, half)

    return ty(array, types.intp, *rest), codegen


def store_intrinsic(array: types.Type, ty: types.Type, half: bool, whole: bool = False) -> Any:
    """Return an intrinsic that stores `ty` at an offset."""
    align, held = alignment_of(ty, half, whole), memory_type(ty, half)
    accessed = in_words(held) if whole else held

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        ptr = pointer(context, builder, array, args[0], args[1])
        raw = to_memory(builder, args[2], ty, half)
        raw = raw if accessed == held else builder.bitcast(raw, accessed)
        builder.store(raw, builder.bitcast(ptr, accessed.as_pointer()), align=align)
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


@intrinsic
def load_half(typingctx: Any, A: Any, off: Any) -> Any:
    """Return the float16 element at `off`, as float32."""
    return load_intrinsic(A, types.float32, True) if is_flat(A) else None


@intrinsic
def store_half(typingctx: Any, A: Any, off: Any, x: Any) -> Any:
    """Write the float32 `x` at `off`, rounded to float16."""
    return store_intrinsic(A, types.float32, True) if is_flat(A) else None


@intrinsic(prefer_literal=True)
def vload(typingctx: Any, A: Any, off: Any, lanes: Any) -> Any:
    """Return the `lanes` elements from `off` on."""
    return load_intrinsic(A, Vec(A.dtype, lanes.literal_value), False, lanes)


@intrinsic
def vstore(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Write the vector `v` from `off` on."""
    return store_intrinsic(A, v, False) if vector_of(A, v, False) else None


@intrinsic(prefer_literal=True)
def vload_half(typingctx: Any, A: Any, off: Any, lanes: Any) -> Any:
    """Return the `lanes` float16 elements from `off` on, as float32."""
    return load_intrinsic(A, Vec(types.float32, lanes.literal_value), True, lanes)


@intrinsic
def vstore_half(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Write the float32 vector `v` from `off` on, rounded to float16."""
    return store_intrinsic(A, v, True) if vector_of(A, v, True) else None


def stream_intrinsic(array: types.Type, v: types.Type, half: bool) -> Any:
    """Return an intrinsic that stores past the cache if the address is aligned, else plainly."""
    if not vector_of(array, v, half):
        return None
    size = size_of(v, half) * v.lanes

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = to_memory(builder, args[2], v, half)
        ptr = pointer(context, builder, array, args[0], args[1])
        ptr = builder.bitcast(ptr, raw.type.as_pointer())
        if size < 16 or size & (size - 1):
            builder.store(raw, ptr, align=size_of(v, half))
            return context.get_dummy_value()
        align = min(size, ALIGNMENT)
        low_bits = builder.and_(builder.ptrtoint(ptr, ir.IntType(64)), ir.IntType(64)(align - 1))
        aligned = builder.icmp_unsigned("==", low_bits, ir.IntType(64)(0))
        with builder.if_else(aligned, likely=True) as (then, otherwise):
            with then:
                stream = builder.store(raw, ptr, align=align)
                hint = builder.module.add_metadata([I32(1)])
                stream.set_metadata("nontemporal", hint)
            with otherwise:
                builder.store(raw, ptr, align=size_of(v, half))
        return context.get_dummy_value()

    return types.void(array, types.intp, v), codegen


@intrinsic
def vstore_stream(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Write the vector `v` from `off` on, past the cache if the address is aligned to `v`."""
    return stream_intrinsic(A, v, False)


@intrinsic
def vstore_stream_half(typingctx: Any, A: Any, off: Any, v: Any) -> Any:
    """Write the vector `v` as `vstore_stream` does, rounded to float16."""
    return stream_intrinsic(A, v, True)


@intrinsic
def stream_fence(typingctx: Any) -> Any:
    """Make earlier `vstore_stream` writes visible before later writes; once per parallel task."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), codegen


def prefetch_intrinsic(array: types.Type, emit: Callable[[ir.IRBuilder, ir.Value], Any]) -> Any:
    """Return an intrinsic that prefetches an element; ``emit`` writes the code for its address."""
    if not is_flat(array):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        data = context.data_model_manager[array].get(builder, args[0], "data")
        emit(builder, builder.bitcast(builder.gep(data, [args[1]]), cgutils.voidptr_t))
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@intrinsic
def prefetch(typingctx: Any, A: Any, off: Any) -> Any:
    """Prefetch the cache line of the element at `off`; any offset is allowed."""

    def emit(builder: ir.IRBuilder, ptr: ir.Value) -> None:
        call_llvm(builder, "prefetch", ir.VoidType(), [ptr, I32(0), I32(3), I32(1)], ptr.type)

    return prefetch_intrinsic(A, emit)
