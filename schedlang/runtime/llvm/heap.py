"""Memory of the heap for the arrays of a kernel.

The first touch of a page is a call of the system, which takes longer than to compute its elements.
So under Linux a large array asks for huge pages, like NumPy's.
"""

from __future__ import annotations

import sys

from llvmlite import ir

from schedlang.intrinsics.memory import ALIGNMENT
from schedlang.runtime.llvm.dialect import I64
from schedlang.runtime.numba_internals import cgutils

BYTE_PTR = ir.IntType(8).as_pointer()
HUGE_PAGE = 2 << 20
# an array of fewer bytes would have few whole pages
LARGE = 2 * HUGE_PAGE
_I32 = ir.IntType(32)
_MADV_HUGEPAGE = _I32(14)


def allocate(builder: ir.IRBuilder, size: ir.Value) -> ir.Value:
    """Emit the allocation of ``size`` bytes and of room to align them; null if memory lacks."""
    wanted = builder.add(size, I64(ALIGNMENT))
    known = size.constant if isinstance(size, ir.Constant) else LARGE
    if sys.platform != "linux" or known < LARGE:
        return builder.call(_function(builder, "malloc", BYTE_PTR, [I64]), [wanted])
    large = builder.icmp_unsigned(">=", size, I64(LARGE))
    page = builder.select(large, I64(HUGE_PAGE), I64(ALIGNMENT))
    whole = builder.and_(builder.add(wanted, builder.sub(page, I64(1))), builder.neg(page))
    block = builder.call(_function(builder, "aligned_alloc", BYTE_PTR, [I64, I64]), [page, whole])
    # the advice for a null block would be one for all memory of the process
    with builder.if_then(builder.and_(large, cgutils.is_not_null(builder, block))):
        advise = _function(builder, "madvise", _I32, [BYTE_PTR, I64, _I32])
        # a system without huge pages refuses, which changes nothing
        builder.call(advise, [block, whole, _MADV_HUGEPAGE])
    return block


def free(builder: ir.IRBuilder, block: ir.Value) -> None:
    """Emit the end of a block of :func:`allocate`."""
    builder.call(_function(builder, "free", ir.VoidType(), [BYTE_PTR]), [block])


def _function(
    builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]
) -> ir.Function:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)
