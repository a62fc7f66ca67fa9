"""The names of the intrinsics that emitted CPU source may use, and the names of its own.

The names are plain text so that code generation imports neither numba nor the runtime. They are the
names in ``schedlang.intrinsics.cpu.__all__`` and in ``__all__`` of its twins; a test asks both for
each name.
"""

from __future__ import annotations

import builtins
import keyword

from schedlang.expr.functions import INTRINSICS

# all but the functions of the language
_OTHERS = (
    "add", "apart", "arena_array", "assemble", "bfloat", "bfloat_bits", "bfloat_from",
    "bfloat_value", "boolean", "broadcast", "copysign", "float32", "float64", "floordiv",
    "flush_denormals", "fma", "half", "half_from", "heap_array", "instruct", "int16", "int32",
    "int64", "int8", "invoke", "iota", "lane", "left_shift", "load", "load_half", "mod", "multiply",
    "power", "prefetch", "reduce_add", "reduce_and", "reduce_max", "reduce_min", "reduce_mul",
    "reduce_or", "restore_mode", "right_shift", "rolled", "rounded", "select", "stack_array",
    "store", "store_half", "stream_fence", "subtract", "thread_number", "ticks", "uint16", "uint32",
    "uint64", "uint8", "vgather", "vgather_half", "vgather_masked", "vgather_masked_half", "vload",
    "vload_columns", "vload_columns_half", "vload_half", "vload_if", "vload_if_half",
    "vload_masked", "vload_masked_half", "vload_shuffled", "vload_shuffled_half", "vload_strided",
    "vload_strided_half", "vload_strided_masked", "vload_strided_masked_half", "vscatter",
    "vscatter_half", "vscatter_masked", "vscatter_masked_half", "vstore", "vstore_half",
    "vstore_masked", "vstore_masked_half", "vstore_stream", "vstore_stream_half", "vstore_strided",
    "vstore_strided_half", "with_lane",
)  # fmt: skip
NAMES = tuple(sorted({*_OTHERS, *INTRINSICS}))

# intrinsics of GPU kernels alone, and intrinsics of CPU kernels alone
GPU_ONLY = (
    "atomic_add", "atomic_maximum", "atomic_minimum", "atomic_multiply", "commit_copies",
    "copy_async", "exchange", "load_matrix", "load_matrix_transposed", "multiply_fragments",
    "unrolled", "vload_aligned", "vload_aligned_half", "vstore_aligned", "vstore_aligned_half",
    "wait_copies",
)  # fmt: skip
CPU_ONLY = (
    "apart", "arena_array", "flush_denormals", "heap_array",
    "invoke", "restore_mode", "rolled", "rounded", "stack_array", "stream_fence",
    "thread_number", "ticks", "vload_if", "vload_if_half", "vload_shuffled", "vload_shuffled_half",
    "vstore_stream", "vstore_stream_half",
)  # fmt: skip
GPU_NAMES = tuple(sorted({*NAMES, *GPU_ONLY} - set(CPU_ONLY)))
# intrinsics of values alone, which both have
_OF_MEMORY = ("load", "prefetch", "store", "vgather", "vload", "vscatter", "vstore")
OF_VALUES = tuple(
    name for name in GPU_NAMES if name in NAMES and not name.startswith(_OF_MEMORY)
)  # fmt: skip

RESERVED = (
    frozenset(keyword.kwlist)
    | frozenset(dir(builtins))
    | {
        "np",
        "njit",
        "prange",
        "inf",
        "nan",
        "OPTIONS",
        "math",
        "numba",
    }
)
# names that a standalone file imports and defines beside its public function
SAVED = frozenset({
    "AbstractTemplate", "Any", "BuiltinFunctionType", "CPUContext", "Callable", "Path", "Sequence",
    "TypingError", "UnsupportedError", "annotations", "binding", "cfunc", "cgutils", "compiler",
    "cpu_target", "ctypes", "from_dtype", "get_num_threads", "infer_global", "intrinsic", "ir",
    "lower_builtin", "lower_cast", "lru_cache", "models", "numpy_dtype", "operator", "os",
    "populate_array", "register_model", "shlex", "shutil", "signature", "subprocess", "tempfile",
    "types", "_array", "_apart", "_given", "_holds", "_root",
    "COMPILERS", "C_OPTIONS", "GCC_OPTIONS", "_functions", "_succeeded", "c_function",
    "numba_function",
})  # fmt: skip


def is_reserved(name: str) -> bool:
    """Return whether an emitted file uses a name itself, so that nothing of the user's has it."""
    return any(name in names for names in (RESERVED, NAMES, GPU_ONLY, SAVED))
