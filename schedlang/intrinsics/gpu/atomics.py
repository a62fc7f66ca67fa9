"""Atomic updates of one element of an array, in global or shared memory.

Additions, and integer minima and maxima, are one instruction (PTX ISA, "Parallel Synchronization":
``red``). The others compare and swap until no other thread came in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from schedlang.intrinsics.gpu.warp import emit_nvvm_maximum, emit_nvvm_minimum
from schedlang.intrinsics.memory import is_flat, pointer
from schedlang.intrinsics.simd import is_float, is_unsigned, llvm_type

WORDS = (
    types.int32, types.int64, types.uint32, types.uint64, types.float32, types.float64,
)  # fmt: skip
Combine = Callable[[ir.IRBuilder, types.Type, ir.Value, ir.Value], ir.Value]


def _update(array: types.Type, x: types.Type, emit: Callable[..., None]) -> Any:
    """Return an intrinsic that combines a value of ``x`` with an element of ``array``."""
    if not is_flat(array) or array.dtype not in WORDS or types.unliteral(x) != array.dtype:
        return None
    ty = array.dtype

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        emit(builder, ty, pointer(context, builder, array, args[0], args[1]), args[2])
        return context.get_dummy_value()

    return types.void(array, types.intp, ty), codegen


def _reduced(builder: ir.IRBuilder, ty: types.Type, name: str, ptr: ir.Value, x: ir.Value) -> None:
    """Emit one instruction; LLVM finds out whether it is in global or in shared memory."""
    if is_float(ty):
        # the operation of LLVM that NVVM knows in every version
        function = f"llvm.nvvm.atomic.load.{name}.f{ty.bitwidth}.p0f{ty.bitwidth}"
        signature = ir.FunctionType(x.type, [ptr.type, x.type])
        builder.call(cgutils.get_or_insert_function(builder.module, signature, function), [ptr, x])
        return
    unsigned = is_unsigned(ty) and name != "add"
    builder.atomic_rmw(f"u{name}" if unsigned else name, ptr, x, "monotonic")


def _swapped(
    builder: ir.IRBuilder, ty: types.Type, emit: Combine, ptr: ir.Value, x: ir.Value
) -> None:
    """Emit a loop that compares and swaps until the element is combined with ``x``."""
    word = ir.IntType(ty.bitwidth)
    place = builder.bitcast(ptr, word.as_pointer())
    before = builder.block
    loop, done = (builder.append_basic_block(name) for name in ("swap", "swapped"))
    first = builder.load(place)
    builder.branch(loop)
    builder.position_at_end(loop)
    seen = builder.phi(word)
    seen.add_incoming(first, before)
    raw = llvm_type(ty)
    old = seen if raw == word else builder.bitcast(seen, raw)
    new = emit(builder, ty, old, x)
    wanted = new if raw == word else builder.bitcast(new, word)
    exchange = builder.cmpxchg(place, seen, wanted, "monotonic", "monotonic")
    seen.add_incoming(builder.extract_value(exchange, 0), builder.block)
    builder.cbranch(builder.extract_value(exchange, 1), done, loop)
    builder.position_at_end(done)


def _emit_product(builder: ir.IRBuilder, ty: types.Type, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.fmul(a, b) if is_float(ty) else builder.mul(a, b)


@intrinsic
def atomic_add(typingctx: Any, A: Any, off: Any, x: Any) -> Any:
    """Add x to the element at `off`."""
    return _update(A, x, lambda builder, ty, ptr, v: _reduced(builder, ty, "add", ptr, v))


@intrinsic
def atomic_multiply(typingctx: Any, A: Any, off: Any, x: Any) -> Any:
    """Multiply the element at `off` by x."""
    return _update(A, x, lambda builder, ty, ptr, v: _swapped(builder, ty, _emit_product, ptr, v))


def _atomic_extremum(A: Any, x: Any, name: str, emit: Combine) -> Any:
    def update(builder: ir.IRBuilder, ty: types.Type, ptr: ir.Value, v: ir.Value) -> None:
        # the instruction for floats drops NaN
        if is_float(ty):
            _swapped(builder, ty, emit, ptr, v)
        else:
            _reduced(builder, ty, name, ptr, v)

    return _update(A, x, update)


@intrinsic
def atomic_minimum(typingctx: Any, A: Any, off: Any, x: Any) -> Any:
    """Make the element at `off` the smaller of itself and x; NaN if either is NaN."""
    return _atomic_extremum(A, x, "min", emit_nvvm_minimum)


@intrinsic
def atomic_maximum(typingctx: Any, A: Any, off: Any, x: Any) -> Any:
    """Make the element at `off` the larger of itself and x; NaN if either is NaN."""
    return _atomic_extremum(A, x, "max", emit_nvvm_maximum)
