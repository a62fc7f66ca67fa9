"""Masked, gathered, scattered and strided loads and stores of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.masked import masked_load, masked_store
from schedlang.intrinsics.memory import (
    I32,
    from_memory,
    is_flat,
    memory_type,
    pointer,
    size_of,
    to_memory,
    value_dtype,
    vector_of,
)
from schedlang.intrinsics.simd import Vec, call_llvm, constant

# strided loads of up to this step read whole vectors and shuffle lanes
LARGEST_SHUFFLED_STEP = 4
# strided stores of short elements with these steps write a vector with a mask
SPREAD_STEPS = (2, 4)


def is_mask(mask: types.Type) -> bool:
    """Return whether a type is a vector of booleans."""
    return isinstance(mask, Vec) and mask.dtype == types.boolean


def is_offsets(offs: types.Type) -> bool:
    """Return whether a type is a vector of offsets."""
    return isinstance(offs, Vec) and offs.dtype == types.int64


def base_pointer(
    context: Any, builder: ir.IRBuilder, array: types.Array, value: ir.Value, off: ir.Value
) -> ir.Value:
    """Emit the address of an element.

    It may be outside the array, where every lane is off; an address of `pointer` may not.
    """
    return builder.gep(context.data_model_manager[array].get(builder, value, "data"), [off])


def pointers(
    context: Any, builder: ir.IRBuilder, array: types.Array, value: ir.Value, offs: ir.Value
) -> ir.Value:
    """Emit the addresses of the elements at a vector of offsets."""
    data = context.data_model_manager[array].get(builder, value, "data")
    ptrs = builder.gep(data, [offs], source_etype=data.type.pointee)
    # llvmlite gives this instruction the type of one pointer
    ptrs.type = ir.VectorType(data.type, offs.type.count)
    return ptrs


def masked_load_intrinsic(array: types.Type, mask: types.Type, half: bool) -> Any:
    """Return an intrinsic that loads consecutive elements where a mask holds, 0 elsewhere."""
    if not is_flat(array) or not is_mask(mask):
        return None
    vec = Vec(value_dtype(array, half), mask.lanes)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = memory_type(vec, half)
        ptr = base_pointer(context, builder, array, args[0], args[1])
        loaded = masked_load(context, builder, ptr, size_of(vec, half), args[2], raw)
        return from_memory(context, builder, loaded, vec, half)

    return vec(array, types.intp, mask), codegen


def masked_store_intrinsic(array: types.Type, v: types.Type, mask: types.Type, half: bool) -> Any:
    """Return an intrinsic that stores consecutive elements where a mask holds."""
    if not vector_of(array, v, half) or mask != Vec(types.boolean, v.lanes):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = to_memory(builder, args[2], v, half)
        ptr = base_pointer(context, builder, array, args[0], args[1])
        masked_store(context, builder, raw, ptr, size_of(v, half), args[3])
        return context.get_dummy_value()

    return types.void(array, types.intp, v, mask), codegen


def gather_intrinsic(array: types.Type, offs: types.Type, half: bool, *mask: types.Type) -> Any:
    """Return an intrinsic that loads at a vector of offsets, 0 where a mask does not hold."""
    if not is_flat(array) or not is_offsets(offs):
        return None
    vec, every = Vec(value_dtype(array, half), offs.lanes), Vec(types.boolean, offs.lanes)
    if any(m != every for m in mask):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = memory_type(vec, half)
        ptrs = pointers(context, builder, array, args[0], args[1])
        where = args[2] if mask else constant(every, 1)
        operands = [ptrs, I32(size_of(vec, half)), where, ir.Constant(raw, None)]
        loaded = call_llvm(builder, "masked.gather", raw, operands, raw, ptrs.type)
        return from_memory(context, builder, loaded, vec, half)

    return vec(array, offs, *mask), codegen


def scatter_intrinsic(
    array: types.Type, offs: types.Type, v: types.Type, half: bool, *mask: types.Type
) -> Any:
    """Return an intrinsic that stores at a vector of offsets where a mask holds.

    Where lanes have equal offsets, the last one counts.
    """
    if not vector_of(array, v, half) or offs != Vec(types.int64, v.lanes):
        return None
    every = Vec(types.boolean, v.lanes)
    if any(m != every for m in mask):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = to_memory(builder, args[2], v, half)
        ptrs = pointers(context, builder, array, args[0], args[1])
        where = args[3] if mask else constant(every, 1)
        operands = [raw, ptrs, I32(size_of(v, half)), where]
        call_llvm(builder, "masked.scatter", ir.VoidType(), operands, raw.type, ptrs.type)
        return context.get_dummy_value()

    return types.void(array, offs, v, *mask), codegen


def load_by_shuffles(
    builder: ir.IRBuilder, step: int, lanes: int, load: Callable[[int, list[int]], ir.Value]
) -> ir.Value:
    """Emit a vector of elements a small `step` apart, shuffled from loads of whole vectors.

    No load reads before the first of these elements or after the last. `load(start, of)` emits the
    load of a vector that starts `start` elements past the first one. For each element of it, `of`
    gives the lane that it goes to, or `lanes` if it goes to none.
    """
    low = min(step * (lanes - 1), 0)
    place = [step * i - low for i in range(lanes)]
    last = max(place) + 1 - lanes
    starts = [min(k * lanes, last) for k in range(abs(step))]
    result: ir.Value = None
    for k, start in enumerate(starts):
        here = [i for i in range(lanes) if min(place[i] // lanes, len(starts) - 1) == k]
        of = [lanes] * lanes
        order = list(range(lanes))
        for i in here:
            of[place[i] - start] = i
            order[i] = lanes + place[i] - start
        vector = load(start + low, of)
        before = ir.Constant(vector.type, ir.Undefined) if result is None else result
        lane = ir.Constant(ir.VectorType(I32, lanes), order)
        result = builder.shuffle_vector(before, vector, lane)
    return result


def strided_load_intrinsic(array: types.Type, stride: types.Type, lanes: int, half: bool) -> Any:
    """Return an intrinsic that loads elements `stride` apart.

    For a small literal stride it shuffles whole vectors; else it loads one element at a time.
    """
    vec = Vec(value_dtype(array, half), lanes)
    step: Any = getattr(stride, "literal_value", None)

    def one_by_one(context: Any, builder: ir.IRBuilder, args: Any) -> ir.Value:
        raw = ir.Constant(memory_type(vec, half), ir.Undefined)
        for i in range(lanes):
            off = builder.add(args[1], builder.mul(args[2], ir.IntType(64)(i)))
            ptr = pointer(context, builder, array, args[0], off)
            raw = builder.insert_element(raw, builder.load(ptr), I32(i))
        return raw

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        def part(start: int, of: list[int]) -> ir.Value:
            off = builder.add(args[1], ir.IntType(64)(start))
            ptr = pointer(context, builder, array, args[0], off)
            ptr = builder.bitcast(ptr, memory_type(vec, half).as_pointer())
            return builder.load(ptr, align=size_of(vec, half))

        if step is not None and 0 < abs(step) <= LARGEST_SHUFFLED_STEP:
            raw = load_by_shuffles(builder, step, lanes, part)
        else:
            raw = one_by_one(context, builder, args)
        return from_memory(context, builder, raw, vec, half)

    # numba caches code by signature, so the literals must be part of it
    stride_type = types.intp if step is None else stride
    return vec(array, types.intp, stride_type, types.IntegerLiteral(lanes)), codegen


def strided_masked_intrinsic(
    array: types.Type, stride: types.Type, mask: types.Type, half: bool
) -> Any:
    """Return an intrinsic that loads elements a small literal `stride` apart, 0 where masked."""
    step: Any = getattr(stride, "literal_value", None)
    if not is_flat(array) or not is_mask(mask) or not step or abs(step) > LARGEST_SHUFFLED_STEP:
        return None
    vec = Vec(value_dtype(array, half), mask.lanes)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw_type = memory_type(vec, half)
        never = ir.Constant(args[3].type, None)

        def part(start: int, of: list[int]) -> ir.Value:
            order = ir.Constant(ir.VectorType(I32, vec.lanes), of)
            where = builder.shuffle_vector(args[3], never, order)
            off = builder.add(args[1], ir.IntType(64)(start))
            ptr = base_pointer(context, builder, array, args[0], off)
            return masked_load(context, builder, ptr, size_of(vec, half), where, raw_type)

        raw = load_by_shuffles(builder, step, vec.lanes, part)
        return from_memory(context, builder, raw, vec, half)

    return vec(array, types.intp, stride, mask), codegen


def shuffled_load_intrinsic(array: types.Type, order: types.Type, half: bool) -> Any:
    """Return an intrinsic that loads a vector of elements at literal distances from `off`."""
    if not is_flat(array) or not isinstance(order, types.BaseTuple):
        return None
    lanes = len(order)
    distances = [t.literal_value for t in order if isinstance(t, types.IntegerLiteral)]
    if len(distances) < lanes or not all(0 <= d < lanes for d in distances):
        return None
    vec = Vec(value_dtype(array, half), lanes)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = memory_type(vec, half)
        ptr = base_pointer(context, builder, array, args[0], args[1])
        # elements past the last one needed may be past the end of the array
        read = ir.Constant(
            ir.VectorType(ir.IntType(1), lanes), [int(i <= max(distances)) for i in range(lanes)]
        )
        loaded = masked_load(context, builder, ptr, size_of(vec, half), read, raw)
        lane = ir.Constant(ir.VectorType(I32, lanes), distances)
        shuffled = builder.shuffle_vector(loaded, ir.Constant(raw, ir.Undefined), lane)
        return from_memory(context, builder, shuffled, vec, half)

    return vec(array, types.intp, order), codegen


def strided_store_intrinsic(
    array: types.Type, stride: types.Type, v: types.Type, half: bool
) -> Any:
    """Return an intrinsic that stores elements `stride` apart.

    On a CPU, short elements with a small literal stride are spread over a vector, whose other
    elements are not written. Others are stored one at a time.
    """
    if not vector_of(array, v, half):
        return None
    step: Any = getattr(stride, "literal_value", None)
    spread = step in SPREAD_STEPS and size_of(v, half) < 4

    def one_by_one(context: Any, builder: ir.IRBuilder, args: Any, raw: ir.Value) -> None:
        for i in range(v.lanes):
            off = builder.add(args[1], builder.mul(args[2], ir.IntType(64)(i)))
            ptr = pointer(context, builder, array, args[0], off)
            builder.store(builder.extract_element(raw, I32(i)), ptr)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        raw = to_memory(builder, args[3], v, half)
        if not spread or builder.module.triple.startswith("nvptx"):
            one_by_one(context, builder, args, raw)
            return context.get_dummy_value()
        count = v.lanes * step
        zeros = ir.Constant(raw.type, None)
        order = [v.lanes if i % step else i // step for i in range(count)]
        wide = builder.shuffle_vector(raw, zeros, ir.Constant(ir.VectorType(I32, count), order))
        mask = ir.VectorType(ir.IntType(1), count)
        where = ir.Constant(mask, [int(i % step == 0) for i in range(count)])
        ptr = pointer(context, builder, array, args[0], args[1])
        masked_store(context, builder, wide, ptr, size_of(v, half), where)
        return context.get_dummy_value()

    return types.void(array, types.intp, stride if spread else types.intp, v), codegen


@intrinsic
def vload_masked(typingctx: Any, A: Any, off: Any, mask: Any) -> Any:
    """Return the elements from `off` on where `mask` holds, 0 elsewhere.

    The other elements are not read.
    """
    return masked_load_intrinsic(A, mask, False)


@intrinsic
def vload_masked_half(typingctx: Any, A: Any, off: Any, mask: Any) -> Any:
    """Return `vload_masked` of float16 elements, as float32."""
    return masked_load_intrinsic(A, mask, True)


@intrinsic
def vstore_masked(typingctx: Any, A: Any, off: Any, v: Any, mask: Any) -> Any:
    """Write the lanes of `v` where `mask` holds, from `off` on."""
    return masked_store_intrinsic(A, v, mask, False)


@intrinsic
def vstore_masked_half(typingctx: Any, A: Any, off: Any, v: Any, mask: Any) -> Any:
    """Write `v` as `vstore_masked` does, rounded to float16."""
    return masked_store_intrinsic(A, v, mask, True)


@intrinsic
def vgather(typingctx: Any, A: Any, offs: Any) -> Any:
    """Return the elements at a vector of int64 offsets."""
    return gather_intrinsic(A, offs, False)


@intrinsic
def vgather_half(typingctx: Any, A: Any, offs: Any) -> Any:
    """Return `vgather` of float16 elements, as float32."""
    return gather_intrinsic(A, offs, True)


@intrinsic
def vgather_masked(typingctx: Any, A: Any, offs: Any, mask: Any) -> Any:
    """Return the elements at int64 offsets where `mask` holds, 0 elsewhere; others are not read."""
    return gather_intrinsic(A, offs, False, mask)


@intrinsic
def vgather_masked_half(typingctx: Any, A: Any, offs: Any, mask: Any) -> Any:
    """Return `vgather_masked` of float16 elements, as float32."""
    return gather_intrinsic(A, offs, True, mask)


@intrinsic
def vscatter(typingctx: Any, A: Any, offs: Any, v: Any) -> Any:
    """Write the lanes of `v` at a vector of int64 offsets, in the order of the lanes."""
    return scatter_intrinsic(A, offs, v, False)


@intrinsic
def vscatter_half(typingctx: Any, A: Any, offs: Any, v: Any) -> Any:
    """Write `v` as `vscatter` does, rounded to float16."""
    return scatter_intrinsic(A, offs, v, True)


@intrinsic
def vscatter_masked(typingctx: Any, A: Any, offs: Any, v: Any, mask: Any) -> Any:
    """Write the lanes of `v` at a vector of int64 offsets where `mask` holds."""
    return scatter_intrinsic(A, offs, v, False, mask)


@intrinsic
def vscatter_masked_half(typingctx: Any, A: Any, offs: Any, v: Any, mask: Any) -> Any:
    """Write `v` as `vscatter_masked` does, rounded to float16."""
    return scatter_intrinsic(A, offs, v, True, mask)


@intrinsic(prefer_literal=True)
def vload_strided(typingctx: Any, A: Any, off: Any, stride: Any, lanes: Any) -> Any:
    """Return the elements at off, off + stride, ..., one for each of `lanes` lanes."""
    return strided_load_intrinsic(A, stride, lanes.literal_value, False)


@intrinsic(prefer_literal=True)
def vload_strided_half(typingctx: Any, A: Any, off: Any, stride: Any, lanes: Any) -> Any:
    """Return `vload_strided` of float16 elements, as float32."""
    return strided_load_intrinsic(A, stride, lanes.literal_value, True)


@intrinsic(prefer_literal=True)
def vload_strided_masked(typingctx: Any, A: Any, off: Any, stride: Any, mask: Any) -> Any:
    """Return the elements at off, off + stride, ... where `mask` holds, 0 elsewhere.

    `stride` is a literal from 1 to 4 or from -1 to -4.
    """
    return strided_masked_intrinsic(A, stride, mask, False)


@intrinsic(prefer_literal=True)
def vload_strided_masked_half(typingctx: Any, A: Any, off: Any, stride: Any, mask: Any) -> Any:
    """Return `vload_strided_masked` of float16 elements, as float32."""
    return strided_masked_intrinsic(A, stride, mask, True)


@intrinsic(prefer_literal=True)
def vload_shuffled(typingctx: Any, A: Any, off: Any, order: Any) -> Any:
    """Return a vector whose lane `l` is the element at off + order[l]; 0 <= order[l] < lanes."""
    return shuffled_load_intrinsic(A, order, False)


@intrinsic(prefer_literal=True)
def vload_shuffled_half(typingctx: Any, A: Any, off: Any, order: Any) -> Any:
    """Return `vload_shuffled` of float16 elements, as float32."""
    return shuffled_load_intrinsic(A, order, True)


@intrinsic(prefer_literal=True)
def vstore_strided(typingctx: Any, A: Any, off: Any, stride: Any, v: Any) -> Any:
    """Write the vector `v` at off, off + stride, ..."""
    return strided_store_intrinsic(A, stride, v, False)


@intrinsic(prefer_literal=True)
def vstore_strided_half(typingctx: Any, A: Any, off: Any, stride: Any, v: Any) -> Any:
    """Write `v` as `vstore_strided` does, rounded to float16."""
    return strided_store_intrinsic(A, stride, v, True)
