"""Transposed loads: read whole rows, return their columns as vectors.

Squares of 2**k by 2**k elements are transposed in registers. Each step swaps off-diagonal blocks:
first single elements, then pairs, and so on (Eklundh, "A Fast Computer Method for Matrix
Transposing", IEEE Transactions on Computers C-21, 1972). A vector so costs one load and k shuffles;
loading its elements one by one costs a load and an insertion for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from schedlang.intrinsics.memory import (
    I32,
    from_memory,
    is_flat,
    memory_type,
    pointer,
    size_of,
    value_dtype,
)
from schedlang.intrinsics.simd import Vec

LARGEST_SQUARE = 16


def shuffled(builder: ir.IRBuilder, a: ir.Value, b: ir.Value, order: Sequence[int]) -> ir.Value:
    """Emit the lanes `order` of the concatenation of `a` and `b`."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(I32, len(order)), list(order)))


def transposed(builder: ir.IRBuilder, rows: Sequence[ir.Value]) -> list[ir.Value]:
    """Emit the columns of a square of 2**k vectors of 2**k lanes."""
    size, square = len(rows), list(rows)
    block = 1
    while block < size:
        low = [i if not i & block else size + i - block for i in range(size)]
        high = [i + block if not i & block else size + i for i in range(size)]
        for r in (r for r in range(size) if not r & block):
            a, b = square[r], square[r + block]
            square[r] = shuffled(builder, a, b, low)
            square[r + block] = shuffled(builder, a, b, high)
        block *= 2
    return square


def resized(builder: ir.IRBuilder, v: ir.Value, lanes: int) -> ir.Value:
    """Emit the first `lanes` lanes of a vector; those past its end are undefined."""
    have = v.type.count
    if have == lanes:
        return v
    order = [min(i, have) for i in range(lanes)]
    return shuffled(builder, v, ir.Constant(v.type, ir.Undefined), order)


def joined(builder: ir.IRBuilder, parts: Sequence[ir.Value], lanes: int) -> ir.Value:
    """Emit the first `lanes` lanes of the concatenation of vectors of equal length."""
    whole = parts[0]
    for part in parts[1:]:
        have = whole.type.count
        order = range(have + part.type.count)
        whole = shuffled(builder, whole, resized(builder, part, have), order)
    return resized(builder, whole, lanes)


def columns_intrinsic(array: types.Type, columns: int, lanes: int, half: bool) -> Any:
    """Return an intrinsic that gives `columns` vectors.

    Lane `l` of vector `k` is the element at `off + l * stride + k`.
    """
    if not is_flat(array):
        return None
    vec = Vec(value_dtype(array, half), lanes)
    many = types.UniTuple(vec, columns)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        int64 = ir.IntType(64)
        size = min(LARGEST_SQUARE, 1 << (columns.bit_length() - 1), 1 << (lanes - 1).bit_length())
        raw = memory_type(Vec(vec.dtype, size), half)

        def row(lane: int, column: int, width: int) -> ir.Value:
            off = builder.add(args[1], builder.mul(args[2], int64(lane)))
            ptr = pointer(context, builder, array, args[0], builder.add(off, int64(column)))
            span = ir.VectorType(raw.element, width)
            ptr = builder.bitcast(ptr, span.as_pointer())
            loaded = builder.load(ptr, align=size_of(vec, half))
            return resized(builder, loaded, size)

        vectors: list[ir.Value] = []
        for column in range(0, columns, size):
            width = min(size, columns - column)
            squares = []
            for first in range(0, lanes, size):
                count = min(size, lanes - first)
                rows = [row(first + r, column, width) for r in range(count)]
                rows += [ir.Constant(raw, ir.Undefined)] * (size - count)
                squares.append(transposed(builder, rows)[:width])
            vectors += [joined(builder, parts, lanes) for parts in zip(*squares)]
        values = [from_memory(context, builder, v, vec, half) for v in vectors]
        return cgutils.pack_array(builder, values)

    def literal(n: int) -> types.Type:
        return types.IntegerLiteral(n)

    return many(array, types.intp, types.intp, literal(columns), literal(lanes)), codegen


def parts_intrinsic(array: types.Type, columns: int, lanes: int) -> Any:
    """Return an intrinsic as :func:`columns_intrinsic` for rows that follow each other.

    The elements are one vector in memory, as the parts of complex numbers are.
    """
    if not is_flat(array):
        return None
    vec, many = Vec(array.dtype, lanes), Vec(array.dtype, lanes * columns)
    result = types.UniTuple(vec, columns)

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        ptr = pointer(context, builder, array, args[0], args[1])
        ptr = builder.bitcast(ptr, memory_type(many, False).as_pointer())
        loaded = builder.load(ptr, align=size_of(vec, False))
        orders = (range(k, lanes * columns, columns) for k in range(columns))
        unused = ir.Constant(loaded.type, ir.Undefined)
        each = [shuffled(builder, loaded, unused, order) for order in orders]
        return cgutils.pack_array(
            builder, [from_memory(context, builder, v, vec, False) for v in each]
        )

    literals = (types.IntegerLiteral(n) for n in (columns, columns, lanes))
    return result(array, types.intp, *literals), codegen


@intrinsic(prefer_literal=True)
def vload_columns(typingctx: Any, A: Any, off: Any, stride: Any, columns: Any, lanes: Any) -> Any:
    """Return a tuple of `columns` vectors; vector k is A[off + k], A[off + k + stride], ..."""
    if getattr(stride, "literal_value", 0) == columns.literal_value == 2:
        return parts_intrinsic(A, columns.literal_value, lanes.literal_value)
    return columns_intrinsic(A, columns.literal_value, lanes.literal_value, False)


@intrinsic(prefer_literal=True)
def vload_columns_half(
    typingctx: Any, A: Any, off: Any, stride: Any, columns: Any, lanes: Any
) -> Any:
    """Return `vload_columns` of float16 elements, as float32."""
    return columns_intrinsic(A, columns.literal_value, lanes.literal_value, True)
