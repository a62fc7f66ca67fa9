"""The dialect of emitted GPU kernels: every name that they may import, for numba.cuda.

CPU kernels import most of these names, too (:mod:`schedlang.intrinsics.cpu`); here they are
compiled for the GPU. Functions of floats call NVIDIA's libdevice. GPU kernels alone have

    atomic_add(A, off, x)         atomic_multiply, atomic_minimum, atomic_maximum: combine x with an
                                  element that other threads may update, too
    copy_async(A, at, B, start, count)   copy elements of global to shared memory, asynchronously
    commit_copies()               end a group of such copies
    wait_copies(pending)          wait for all groups of this thread but the last ``pending``
    exchange(x, distance)         x of the thread of the warp whose number differs in that bit
    load_matrix(A, at, B, start, count)  what a thread gets of matrices in shared memory, into A
    load_matrix_transposed(A, at, B, start, count)  the same of transposed matrices
    multiply_fragments(mnemonic, (c, a, b))   c + a*b by an instruction of all threads of a warp
    unrolled()                    after a loop: unroll it
    vload_aligned(A, off, lanes)  vstore_aligned(A, off, v)   one access of up to 16 bytes: ``off``
                                  is a multiple of ``lanes``

This package needs numba-cuda.
"""

from __future__ import annotations

from schedlang.intrinsics.bfloat import bfloat, bfloat_bits, bfloat_from, bfloat_value
from schedlang.intrinsics.bits import *
from schedlang.intrinsics.dialect import GPU_NAMES
from schedlang.intrinsics.elementary import *
from schedlang.intrinsics.elementary import (
    absolute,
    copysign,
    fma,
    select,
)
from schedlang.intrinsics.gpu.atomics import (
    atomic_add,
    atomic_maximum,
    atomic_minimum,
    atomic_multiply,
)
from schedlang.intrinsics.gpu.copies import commit_copies, copy_async, wait_copies
from schedlang.intrinsics.gpu.libdevice import *
from schedlang.intrinsics.gpu.matrices import load_matrix, load_matrix_transposed
from schedlang.intrinsics.gpu.products import multiply_fragments
from schedlang.intrinsics.gpu.warp import (
    exchange,
    maximum,
    minimum,
    prefetch,
    vload_aligned,
    vload_aligned_half,
    vstore_aligned,
    vstore_aligned_half,
)
from schedlang.intrinsics.half import half, half_from
from schedlang.intrinsics.hints import unrolled
from schedlang.intrinsics.instructions import assemble, instruct
from schedlang.intrinsics.lanes import (
    broadcast,
    iota,
    lane,
    reduce_add,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_mul,
    reduce_or,
    with_lane,
)
from schedlang.intrinsics.memory import (
    load,
    load_half,
    store,
    store_half,
    vload,
    vload_half,
    vstore,
    vstore_half,
)
from schedlang.intrinsics.operators import (
    add,
    floordiv,
    left_shift,
    mod,
    multiply,
    right_shift,
    subtract,
)
from schedlang.intrinsics.predicates import *
from schedlang.intrinsics.saturated import *
from schedlang.intrinsics.scattered import (
    vgather,
    vgather_half,
    vgather_masked,
    vgather_masked_half,
    vload_masked,
    vload_masked_half,
    vload_strided,
    vload_strided_half,
    vload_strided_masked,
    vload_strided_masked_half,
    vscatter,
    vscatter_half,
    vscatter_masked,
    vscatter_masked_half,
    vstore_masked,
    vstore_masked_half,
    vstore_strided,
    vstore_strided_half,
)
from schedlang.intrinsics.simd import (
    boolean,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from schedlang.intrinsics.transposed import vload_columns, vload_columns_half

__all__ = list(GPU_NAMES)
