"""The dialect of emitted CPU kernels: every name that they may import.

A kernel is plain Python over flat one-dimensional arrays.  The same text runs compiled, with these
names from here, and uncompiled, with the same names from `schedlang.intrinsics.twins`, e.g. under a
debugger.  Compile it with `numba.njit(nogil=True, error_model="numpy",
fastmath={"contract"})`.

**Memory.**  `A` is a flat C-contiguous array, and `off` counts elements.  Compiled code checks
neither bounds nor signs.

    load(A, off)                  store(A, off, x)                     one element
    vload(A, off, lanes)          vstore(A, off, v)                    `lanes` in a row, 1..64
    vload_masked(A, off, mask)    vstore_masked(A, off, v, mask)       lanes off: 0, not written
    vload_if(test, A, off, other)         the vector `other` where `test` is false
    vload_strided(A, off, step, lanes)    vstore_strided(A, off, step, v)
    vload_strided_masked(A, off, step, mask)                           step 1..4 or -1..-4
    vload_shuffled(A, off, order)         lane l at off + order[l]; literals 0..lanes - 1
    vload_columns(A, off, step, columns, lanes)    a tuple; lane l of vector k at off + l * step + k
    vgather(A, offs)              vscatter(A, offs, v)                 int64 vector of offsets
    vgather_masked(A, offs, mask) vscatter_masked(A, offs, v, mask)
    vstore_stream(A, off, v)      bypasses the cache if aligned; end each parallel task that uses
                                  it with stream_fence()
    prefetch(A, off)              any offset is allowed
    stack_array(64, float32)      heap_array(n, float32)               scratch, uninitialised
    arena_array(M, start, n, float32)     `n` elements from byte `start` of the uint8 array M on

The length of a stack array and `lanes` are integer literals; a dtype is the name of a cast below or
a literal string.  Every load and store has a form that ends in `_half`: the array is uint16 and
holds float16, the value is float32.

**Hints** to LLVM.  They change at most the rounding of a product.

    apart(A, B)                   first in a function: these parameters do not alias any other
    rolled(4)                     after a loop: LLVM keeps it for its vectorizer, which takes as
                                  many vectors in an iteration
    rounded(a * b)                the product is not fused with the addition around it

**Values.**  A scalar has its dtype, a vector (`Vec`) a dtype and a number of lanes.  Casts have the
meaning of NumPy's astype: `float32(x)`, `int8(x)`, ..., `boolean(x)`; `half(x)` rounds a float32 to
float16 precision, `half_from(x)` any number, once.  bfloat16 has `bfloat(x)` and
`bfloat_from(x)`; its arrays are uint16 too, of which `bfloat_value(bits)` makes float32 and
`bfloat_bits(x)` the bits again.  `broadcast(x, lanes)` and `iota(lanes)` make
vectors.  `lane(v, i)`, `with_lane(v, i, x)` and `reduce_add`, `reduce_mul`, `reduce_min`,
`reduce_max`, `reduce_and`, `reduce_or` give scalars; a reduction combines halves of the vector.

**Operators** work on equal dtypes.  On vectors they have NumPy's meaning.  The other operand of a
vector may be a scalar of its dtype, and of an int64 vector any integer.  On scalars they are
numba's, which widen integers to 64 bits: write `int8(a + b)`.  For `+`, `-` and `*` of int64 values
write `add`, `subtract` and `multiply`: numba's own are for offsets, and LLVM assumes that those do
not overflow.  For `//`, `%`, `<<` and `>>` of values write `floordiv`, `mod`, `left_shift` and
`right_shift`: numba's own differ from NumPy's for zero divisors, signs of zero and large counts.

**Functions** take scalars or vectors of one dtype: `select(cond, a, b)`, `minimum`, `maximum` (NaN
if an operand is, and the first of two zeros), `fma`, `absolute`, `copysign`, `sqrt`, `rsqrt`,
`floor`, `ceil`, `trunc`, `round_even`, `isnan`, `isinf`, `isfinite`, `power`, `atan2`, and the
usual functions of one float. The functions of `vmath.py`, such as `exp`, are fast in float32; the
others call the C library. `bits_int32`, `bits_int64`, `bits_float32` and `bits_float64` reinterpret
the bits of a number of the same size. `saturated_int8(x)`, ..., `saturated_uint64(x)` limit a
number to the range of the dtype; NaN is 0. `popcount(x)` counts the 1 bits of |x|.

**Instructions** of the user's. Their operands are a tuple of vectors or scalars with the bits of
the types in the signature, or a part of them, which is repeated:

    instruct("i32x16 llvm.x86.avx512.vpdpbusd.512(i32x16, i32x16, i32x16)", (c, a, b))
    assemble("vpdpbusd $3, $2, $0", "=v,0,v,v", "i32x16 (i32x16, i32x16, i32x16)", (c, a, b))

**Functions of the user's**, by their addresses in a table of int64. Its element 0 is the position
of the first one that failed. Each box has its array, its first offset, its extents and its strides:

    invoke(functions, 1, (A, at, (8, 8), (64, 1)), (B, 0, (8, 8), (8, 1)))

**Time.** `ticks()` is a time stamp, and `thread_number()` the number of this thread in a parallel
loop; both are int64. Only kernels that `Kernel.profile` makes have them.

**Mode.**  `flush_denormals()` takes denormal numbers as 0 from there on, in its thread, and returns
an int64 with which `restore_mode(mode)` brings the mode of before back.  Modules of networks begin
and end with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from schedlang.intrinsics.bfloat import bfloat, bfloat_bits, bfloat_from, bfloat_value
from schedlang.intrinsics.bits import *
from schedlang.intrinsics.cpu.clock import thread_number, ticks
from schedlang.intrinsics.cpu.conditional import vload_if, vload_if_half
from schedlang.intrinsics.cpu.denormals import flush_denormals, restore_mode
from schedlang.intrinsics.cpu.extern import invoke
from schedlang.intrinsics.cpu.libm import *
from schedlang.intrinsics.cpu.vmath import *
from schedlang.intrinsics.dialect import NAMES
from schedlang.intrinsics.elementary import *
from schedlang.intrinsics.elementary import (
    absolute,
    copysign,
    fma,
    maximum,
    minimum,
    select,
)
from schedlang.intrinsics.half import half, half_from
from schedlang.intrinsics.hints import apart, rolled, rounded
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
    prefetch,
    store,
    store_half,
    stream_fence,
    vload,
    vload_half,
    vstore,
    vstore_half,
    vstore_stream,
    vstore_stream_half,
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
    vload_shuffled,
    vload_shuffled_half,
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

if TYPE_CHECKING:
    from schedlang.intrinsics.scratch import arena_array, heap_array, stack_array

__all__ = list(NAMES)


def __getattr__(name: str) -> Any:
    """Return an intrinsic for scratch arrays, which LLVM's printer has no use for."""
    if name not in ("arena_array", "heap_array", "stack_array"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from schedlang.intrinsics import scratch

    return getattr(scratch, name)
