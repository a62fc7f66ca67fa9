"""Arithmetic of a thread that takes denormal numbers as 0.

A processor needs some 150 cycles for an operation on a number below the smallest normal one. The
mode is in a control register: the bits FTZ and DAZ of MXCSR ("Intel 64 and IA-32 Architectures
Software Developer's Manual", volume 1, section 10.2.3), or FZ of Arm's FPCR.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from schedlang.intrinsics.memory import I32

MODE = ir.IntType(64)
FTZ_DAZ = 0x8040
FZ = 1 << 24


def read_mode(builder: ir.IRBuilder, machine: str) -> ir.Value:
    """Emit a read of the control register; other processors have none."""
    if machine in ("aarch64", "arm64"):
        return builder.asm(
            ir.FunctionType(MODE, []), "mrs $0, fpcr", "=r", [], side_effect=True
        )
    if machine != "x86_64":
        return MODE(0)
    place = cgutils.alloca_once(builder, I32)
    access_mxcsr(builder, "st", place)
    return builder.zext(builder.load(place), MODE)


def write_mode(builder: ir.IRBuilder, machine: str, mode: ir.Value) -> None:
    """Emit a write of the control register."""
    if machine in ("aarch64", "arm64"):
        kind = ir.FunctionType(ir.VoidType(), [MODE])
        builder.asm(kind, "msr fpcr, $0", "r", [mode], side_effect=True)
    elif machine == "x86_64":
        place = cgutils.alloca_once(builder, I32)
        builder.store(builder.trunc(mode, I32), place)
        access_mxcsr(builder, "ld", place)


def access_mxcsr(builder: ir.IRBuilder, how: str, place: ir.Value) -> None:
    """Emit a load (``ld``) of MXCSR from ``place``, or a store (``st``) to it."""
    kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t])
    name = f"llvm.x86.sse.{how}mxcsr"
    function = cgutils.get_or_insert_function(builder.module, kind, name)
    builder.call(function, [builder.bitcast(place, cgutils.voidptr_t)])


@intrinsic
def flush_denormals(typingctx: Any) -> Any:
    """Take denormal numbers as 0 from here on, in this thread, and return the mode before."""

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        machine = binding.get_process_triple().split("-", 1)[0]
        before = read_mode(builder, machine)
        bits = FTZ_DAZ if machine == "x86_64" else FZ
        write_mode(builder, machine, builder.or_(before, MODE(bits)))
        return before

    return types.int64(), codegen


@intrinsic
def restore_mode(typingctx: Any, mode: Any) -> Any:
    """Set the mode of this thread to one that `flush_denormals` returned, and return it."""
    if not isinstance(mode, types.Integer):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, sig: Any, args: Any) -> ir.Value:
        write_mode(builder, binding.get_process_triple().split("-", 1)[0], args[0])
        return args[0]

    return types.int64(types.int64), codegen
