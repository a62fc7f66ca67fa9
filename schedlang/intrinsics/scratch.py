"""Scratch arrays of emitted CPU kernels: flat, uninitialised, on the stack, the heap or an arena.

They are numba's, from a module of numba that takes as long to import as all other intrinsics. So
:mod:`schedlang.intrinsics.cpu` imports this one for a kernel that numba compiles.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from schedlang.intrinsics.memory import ALIGNMENT, I32, is_flat, memory_type, size_of


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


@intrinsic(prefer_literal=True)
def arena_array(typingctx: Any, arena: Any, start: Any, n: Any, dtype: Any) -> Any:
    """Return the flat array of `n` elements that begins at byte `start` of `arena`, of uint8."""
    if not is_flat(arena) or arena.dtype != types.uint8:
        return None
    array = types.Array(named_dtype(dtype), 1, "C")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        data = context.data_model_manager[arena].get(builder, args[0], "data")
        place = builder.gep(data, [args[1]])
        data = builder.bitcast(place, memory_type(array.dtype, False).as_pointer())
        return array_at(context, builder, array, data, args[2], None)

    return array(arena, types.intp, types.intp, dtype), codegen


@intrinsic(prefer_literal=True)
def heap_array(typingctx: Any, n: Any, dtype: Any) -> Any:
    """Return an uninitialised flat array of `n` elements on the heap, aligned to 64 bytes."""
    array = types.Array(named_dtype(dtype), 1, "C")

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        size = context.get_constant(types.intp, size_of(array.dtype, False))
        align = I32(ALIGNMENT)
        meminfo = context.nrt.meminfo_alloc_aligned(builder, builder.mul(args[0], size), align)
        data = context.nrt.meminfo_data(builder, meminfo)
        data = builder.bitcast(data, memory_type(array.dtype, False).as_pointer())
        return array_at(context, builder, array, data, args[0], meminfo)

    return array(types.intp, dtype), codegen
