"""Vector loads behind one scalar test, e.g. of the outer loops' indices.

The branch is inside the intrinsic. numba does not see it and adds no reference counting to it, and
a row outside the array is not read. A masked load does not read such a row either, but it made some
kernels up to three times slower, in some processes and not in others.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from schedlang.intrinsics.memory import from_memory, memory_type, pointer, size_of, vector_of


def tested_load_intrinsic(
    test: types.Type, array: types.Type, other: types.Type, half: bool
) -> Any:
    """Return an intrinsic that loads as many elements as `other` has lanes, if `test` holds."""
    vec = vector_of(array, other, half)
    if vec is None or not isinstance(types.unliteral(test), types.Boolean):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        before = builder.block
        with builder.if_then(args[0]):
            ptr = pointer(context, builder, array, args[1], args[2])
            ptr = builder.bitcast(ptr, memory_type(vec, half).as_pointer())
            raw = builder.load(ptr, align=size_of(vec, half))
            loaded = from_memory(context, builder, raw, vec, half)
            inside = builder.block
        either = builder.phi(loaded.type)
        either.add_incoming(loaded, inside)
        either.add_incoming(args[3], before)
        return either

    return vec(types.boolean, array, types.intp, vec), codegen


@intrinsic
def vload_if(typingctx: Any, test: Any, A: Any, off: Any, other: Any) -> Any:
    """Return the elements from `off` on if `test` holds, else `other`, without a load."""
    return tested_load_intrinsic(test, A, other, False)


@intrinsic
def vload_if_half(typingctx: Any, test: Any, A: Any, off: Any, other: Any) -> Any:
    """Return `vload_if` of float16 elements, as float32."""
    return tested_load_intrinsic(test, A, other, True)
