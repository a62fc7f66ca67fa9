"""Time stamps and the number of a thread, for kernels that measure themselves."""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.ufunc.parallel import get_num_threads

from schedlang.intrinsics.memory import I32

COUNT = ir.IntType(64)
ARM = ("aarch64", "arm64")
# the clock of clock_gettime that never jumps, on Linux and on macOS
MONOTONIC = {"linux": 1, "darwin": 6, "macosx": 6}
NANOSECONDS = 1_000_000_000


def has_counter(triple: str) -> bool:
    """Return whether the processor of an LLVM target counts ticks of a constant length."""
    return triple.split("-", 1)[0] in ("x86_64", *ARM)


def read_counter(builder: ir.IRBuilder, triple: str) -> ir.Value:
    """Emit a read of the processor's counter of ticks, after all instructions before it.

    Without the barrier a processor reads the counter while hundreds of earlier instructions wait.
    On Arm it is the system's timer, since a program may not read the counter of cycles.
    """
    kind = ir.FunctionType(COUNT, [])
    if triple.split("-", 1)[0] in ARM:
        return builder.asm(kind, "isb\\0Amrs $0, cntvct_el0", "=r", [], side_effect=True)
    nothing = ir.FunctionType(ir.VoidType(), [])
    barrier = cgutils.get_or_insert_function(builder.module, nothing, "llvm.x86.sse2.lfence")
    builder.call(barrier, [])
    counter = cgutils.get_or_insert_function(builder.module, kind, "llvm.readcyclecounter")
    return builder.call(counter, [])


def read_system_clock(builder: ir.IRBuilder, triple: str) -> ir.Value:
    """Emit a call of ``clock_gettime``, in nanoseconds."""
    system = triple.split("-")[2].rstrip("0123456789.") if triple.count("-") > 1 else "linux"
    read = ir.FunctionType(I32, [I32, ir.ArrayType(COUNT, 2).as_pointer()])
    function = cgutils.get_or_insert_function(builder.module, read, "clock_gettime")
    with builder.goto_entry_block():
        moment = builder.alloca(ir.ArrayType(COUNT, 2))
    builder.call(function, [I32(MONOTONIC.get(system, 1)), moment])
    seconds = builder.load(builder.gep(moment, [I32(0), I32(0)]))
    rest = builder.load(builder.gep(moment, [I32(0), I32(1)]))
    return builder.add(builder.mul(seconds, COUNT(NANOSECONDS)), rest)


@intrinsic
def ticks(typingctx: Any) -> Any:
    """Return a time stamp, in ticks of a constant length that has to be measured."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        triple = binding.get_process_triple()
        read = read_counter if has_counter(triple) else read_system_clock
        return read(builder, triple)

    return types.int64(), codegen


@intrinsic
def thread_number(typingctx: Any) -> Any:
    """Return the number of this thread among the threads of a parallel loop, from 0 on."""
    # it also makes the function below known to LLVM
    get_num_threads()

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        kind = ir.FunctionType(I32, [])
        function = cgutils.get_or_insert_function(builder.module, kind, "get_thread_id")
        return builder.sext(builder.call(function, []), COUNT)

    return types.int64(), codegen
