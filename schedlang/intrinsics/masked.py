"""Masked loads and stores of consecutive elements, in parts that fit in a register.

LLVM halves longer vectors itself, after its passes have folded masks. Where a mask is known in one
half alone, such as `(i == 56) & (iota(8) == 0)`, LLVM then loads from a wrong address, or makes a
plain access whose size it does not know. A later pass for x86 asks for the size, which ends the
process. The masks of parts are folded before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from schedlang.intrinsics.simd import call_llvm

# with AVX, LLVM has masked accesses of elements of these sizes; of others it makes branches
MASKED_BITS = {"float": 32, "double": 64, "i32": 32, "i64": 64}
# the bits of a register of AVX; LLVM shifts the masks of longer ones, so that it folds no half
REGISTER_BITS = 256


def masked_load(
    context: Any, builder: ir.IRBuilder, ptr: ir.Value, align: int, where: ir.Value, raw: ir.Type
) -> ir.Value:
    """Emit the load of a vector of type `raw`, with 0 in the lanes where `where` is false."""
    result = ir.Constant(raw, ir.Undefined)
    for start, address, mask in parts(context, builder, ptr, where, raw):
        kind = address.type.pointee
        operands = [address, ir.IntType(32)(align), mask, ir.Constant(kind, None)]
        part = call_llvm(builder, "masked.load", kind, operands, kind, address.type)
        if kind == raw:
            return part
        here = range(start, start + kind.count)
        part = part_of(builder, part, [i - start if i in here else 0 for i in range(raw.count)])
        order = [i + raw.count * (i in here) for i in range(raw.count)]
        result = builder.shuffle_vector(result, part, indices(order))
    return result


def masked_store(
    context: Any, builder: ir.IRBuilder, x: ir.Value, ptr: ir.Value, align: int, where: ir.Value
) -> None:
    """Emit the store of the lanes of `x` where `where` holds."""
    for start, address, mask in parts(context, builder, ptr, where, x.type):
        kind = address.type.pointee
        part = x if kind == x.type else part_of(builder, x, range(start, start + kind.count))
        operands = [part, address, ir.IntType(32)(align), mask]
        call_llvm(builder, "masked.store", ir.VoidType(), operands, kind, address.type)


def parts(
    context: Any, builder: ir.IRBuilder, ptr: ir.Value, where: ir.Value, raw: ir.Type
) -> list[tuple[int, ir.Value, ir.Value]]:
    """Return the first lane of each part of a vector of type `raw`, its address and its mask."""
    bits = MASKED_BITS.get(str(raw.element), 0)
    if raw.count * bits <= REGISTER_BITS or not halves_masked(context, builder):
        return [(0, builder.bitcast(ptr, raw.as_pointer()), where)]
    # parts of a vector of integers cost nothing, but LLVM shuffles to get parts of a vector of bits
    signs = builder.sext(where, ir.VectorType(ir.IntType(bits), raw.count))
    first = builder.bitcast(ptr, raw.element.as_pointer())
    listed = []
    for start in range(0, raw.count, REGISTER_BITS // bits):
        here = range(start, min(start + REGISTER_BITS // bits, raw.count))
        address = builder.gep(first, [ir.IntType(64)(start)])
        address = builder.bitcast(address, ir.VectorType(raw.element, len(here)).as_pointer())
        sign = part_of(builder, signs, here)
        here_holds = builder.icmp_signed("<", sign, ir.Constant(sign.type, None))
        listed.append((start, address, here_holds))
    return listed


def halves_masked(context: Any, builder: ir.IRBuilder) -> bool:
    """Return whether LLVM halves masked accesses to the size of a register of AVX."""
    if not builder.module.triple.startswith("x86"):
        return False
    features = context.codegen().magic_tuple()[2].split(",")
    return "+avx" in features and "+avx512f" not in features


def part_of(builder: ir.IRBuilder, x: ir.Value, lanes: Sequence[int]) -> ir.Value:
    """Emit the vector of some lanes of another one."""
    return builder.shuffle_vector(x, ir.Constant(x.type, ir.Undefined), indices(lanes))


def indices(lanes: Sequence[int]) -> ir.Constant:
    """Return the operand of a shuffle that takes lanes in this order."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))
