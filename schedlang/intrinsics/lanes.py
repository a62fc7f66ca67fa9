"""Vectors from scalars, scalars from vectors: broadcasts, single lanes and reductions."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from schedlang.intrinsics.elementary import emit_maximum, emit_minimum
from schedlang.intrinsics.operators import Emit, emit_add, emit_and, emit_mul, emit_or
from schedlang.intrinsics.simd import Vec, common_type, llvm_type, splat

I64 = ir.IntType(64)


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


@intrinsic(prefer_literal=True)
def iota(typingctx: Any, lanes: Any) -> Any:
    """Return the int64 vector 0, 1, ..., `lanes` - 1; `lanes` is a literal."""
    vec = Vec(types.int64, lanes.literal_value)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return ir.Constant(llvm_type(vec), list(range(vec.lanes)))

    return vec(lanes), codegen


@intrinsic(prefer_literal=True)
def lane(typingctx: Any, v: Any, i: Any) -> Any:
    """Return the value in lane `i` of a vector."""
    if not isinstance(v, Vec):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.extract_element(args[0], args[1])

    return v.dtype(v, types.intp), codegen


@intrinsic(prefer_literal=True)
def with_lane(typingctx: Any, v: Any, i: Any, x: Any) -> Any:
    """Return the vector `v` with `x` in lane `i`."""
    if not isinstance(v, Vec) or common_type(v, x) != v:
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        return builder.insert_element(args[0], args[2], args[1])

    return v(v, types.intp, v.dtype), codegen


def reduction(emit: Emit, v: types.Type) -> Any:
    """Return an intrinsic that reduces a vector to a scalar by a binary operation.

    It combines the upper half with the lower half until one lane is left, and odd lanes last.
    """
    if not isinstance(v, Vec):
        raise TypingError(f"{v} is not a vector")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        x, odd = args[0], []
        while x.type.count > 1:
            half, undefined = x.type.count // 2, ir.Constant(x.type, ir.Undefined)
            if x.type.count % 2:
                odd.append(builder.extract_element(x, I64(2 * half)))
            picks = ir.VectorType(ir.IntType(32), half)
            low, high = (ir.Constant(picks, list(range(i, i + half))) for i in (0, half))
            parts = [builder.shuffle_vector(x, undefined, pick) for pick in (low, high)]
            x = emit(builder, Vec(v.dtype, half), *parts)
        result = builder.extract_element(x, I64(0))
        for rest in reversed(odd):
            result = emit(builder, v.dtype, result, rest)
        return result

    return v.dtype(v), codegen


@intrinsic
def reduce_add(typingctx: Any, v: Any) -> Any:
    """Return the sum of all lanes, added by halves."""
    return reduction(emit_add, v)


@intrinsic
def reduce_mul(typingctx: Any, v: Any) -> Any:
    """Return the product of all lanes, multiplied by halves."""
    return reduction(emit_mul, v)


@intrinsic
def reduce_min(typingctx: Any, v: Any) -> Any:
    """Return the smallest lane; NaN if any lane is NaN."""
    return reduction(emit_minimum, v)


@intrinsic
def reduce_max(typingctx: Any, v: Any) -> Any:
    """Return the largest lane; NaN if any lane is NaN."""
    return reduction(emit_maximum, v)


@intrinsic
def reduce_and(typingctx: Any, v: Any) -> Any:
    """Return the bitwise AND of all lanes; of a mask, whether all are true."""
    return reduction(emit_and, v)


@intrinsic
def reduce_or(typingctx: Any, v: Any) -> Any:
    """Return the bitwise OR of all lanes; of a mask, whether any is true."""
    return reduction(emit_or, v)
