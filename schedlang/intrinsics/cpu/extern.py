"""Calls of functions of the user's, by their addresses.

Such a function is, in C, `int f(T *first, ..., T *last, const int64_t *sizes)`.  It gets the first
element of each box, and for each box its extents, then its strides in elements.  It returns 0, or
another number if it fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from schedlang.intrinsics.memory import I32, pointer

SIZE = ir.IntType(64)
BYTES = ir.IntType(8).as_pointer()


def emit_invoke(
    builder: ir.IRBuilder,
    table: ir.Value,
    position: int,
    places: Sequence[ir.Value],
    sizes: Sequence[ir.Value],
) -> None:
    """Emit a call of the function at `position` of a `table`, unless one has failed before.

    `places` are the addresses of the boxes.  Element 0 of the table is the first that failed.
    """
    failed = builder.gep(table, [SIZE(0)])
    with builder.if_then(cgutils.is_null(builder, builder.load(failed)), likely=True):
        kind = ir.ArrayType(SIZE, max(len(sizes), 1))
        with builder.goto_entry_block():
            held = builder.alloca(kind)
        for k, size in enumerate(sizes):
            builder.store(size, builder.gep(held, [I32(0), I32(k)]))
        function = ir.FunctionType(I32, [*[BYTES] * len(places), SIZE.as_pointer()])
        address = builder.load(builder.gep(table, [SIZE(position)]))
        given = [builder.bitcast(place, BYTES) for place in places]
        given.append(builder.gep(held, [I32(0), I32(0)]))
        status = builder.call(builder.inttoptr(address, function.as_pointer()), given)
        with builder.if_then(cgutils.is_not_null(builder, status), likely=False):
            builder.store(SIZE(position), failed)


@intrinsic(prefer_literal=True)
def invoke(typingctx: Any, table: Any, position: Any, *boxes: Any) -> Any:
    """Call the function at `position` of a `table` of addresses.

    A box is an array, the offset of its first element, its extents and its strides.
    """

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        places, sizes = [], []
        for k, box in enumerate(boxes):
            given = builder.extract_value(args[2], k)
            array, at = (builder.extract_value(given, n) for n in (0, 1))
            at = context.cast(builder, at, box[1], types.int64)
            places.append(pointer(context, builder, box[0], array, at))
            for n in (2, 3):
                held = builder.extract_value(given, n)
                for m, kind in enumerate(box[n]):
                    size = builder.extract_value(held, m)
                    sizes.append(context.cast(builder, size, kind, types.int64))
        data = context.data_model_manager[table].get(builder, args[0], "data")
        emit_invoke(builder, data, position.literal_value, places, sizes)
        return context.get_dummy_value()

    return types.void(table, position, types.StarArgTuple(boxes)), codegen
