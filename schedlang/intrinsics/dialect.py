"""The names of the intrinsics that emitted CPU source may use.

The names are plain text so that code generation imports neither numba nor the runtime. A test
compares them with ``schedlang.intrinsics.cpu.__all__``.
"""

from __future__ import annotations

NAMES = (
    "absolute", "acos", "acosh", "add", "apart", "arena_array", "asin", "asinh", "atan", "atan2",
    "atanh", "bfloat", "bfloat_bits", "bfloat_from", "bfloat_value", "bits_float32", "bits_float64",
    "bits_int32", "bits_int64", "boolean", "broadcast", "ceil", "copysign", "cos", "cosh",
    "erf", "exp", "exp2", "expm1", "float32", "float64", "floor", "floordiv", "flush_denormals",
    "fma", "half",
    "half_from", "heap_array", "int16", "int32", "int64", "int8", "iota", "isfinite", "isinf",
    "isnan", "lane", "left_shift", "load", "load_half", "log", "log10", "log1p", "log2",
    "maximum", "minimum", "mod", "multiply", "popcount", "power", "prefetch", "reduce_add",
    "reduce_and", "reduce_max", "reduce_min", "reduce_mul", "reduce_or", "restore_mode",
    "right_shift",
    "rolled", "round_even", "rounded", "rsqrt", "saturated_int16", "saturated_int32",
    "saturated_int64", "saturated_int8", "saturated_uint16", "saturated_uint32",
    "saturated_uint64", "saturated_uint8", "select", "sigmoid", "sin", "sinh", "sqrt",
    "stack_array", "store", "store_half", "stream_fence", "subtract", "tan", "tanh",
    "thread_number", "ticks", "trunc", "uint16", "uint32", "uint64", "uint8", "vgather",
    "vgather_half", "vgather_masked", "vgather_masked_half", "vload", "vload_columns",
    "vload_columns_half", "vload_half", "vload_if", "vload_if_half", "vload_masked",
    "vload_masked_half", "vload_shuffled", "vload_shuffled_half", "vload_strided",
    "vload_strided_half", "vload_strided_masked", "vload_strided_masked_half", "vscatter",
    "vscatter_half", "vscatter_masked", "vscatter_masked_half", "vstore", "vstore_half",
    "vstore_masked", "vstore_masked_half", "vstore_stream", "vstore_stream_half",
    "vstore_strided", "vstore_strided_half", "with_lane",
)  # fmt: skip

# intrinsics of GPU kernels alone, and those of CPU kernels alone
GPU_ONLY = (
    "atomic_add", "atomic_maximum", "atomic_minimum", "atomic_multiply",
    "exchange", "unrolled", "vload_aligned", "vload_aligned_half", "vstore_aligned",
    "vstore_aligned_half",
)  # fmt: skip
CPU_ONLY = (
    "apart", "arena_array", "flush_denormals", "heap_array", "restore_mode", "rolled", "rounded",
    "stack_array", "stream_fence",
    "thread_number", "ticks", "vload_if", "vload_if_half", "vload_shuffled", "vload_shuffled_half",
    "vstore_stream", "vstore_stream_half",
)  # fmt: skip
GPU_NAMES = tuple(sorted({*NAMES, *GPU_ONLY} - set(CPU_ONLY)))
