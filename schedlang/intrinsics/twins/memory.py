"""Loads, stores and scratch arrays in NumPy; every access is checked.

Scratch arrays are first filled with NaN or an odd number, so that a read before the first write
shows.
"""

# the compiled function of the same name has the docstring

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.intrinsics.twins.arithmetic import Array, Value, quiet

# arrays of float16 and of bfloat16 are uint16: in both the pattern is a NaN
POISON: dict[str, Any] = {
    "float32": np.nan,
    "float64": np.nan,
    "bool": True,
    "uint16": 0x7FA5,
    "int8": -0x5B,
    "int16": -0x5A5B,
    "int32": -0x5A5A5A5B,
    "int64": -0x5A5A5A5A5A5A5A5B,
    "uint8": 0xA5,
    "uint32": 0xA5A5A5A5,
    "uint64": 0xA5A5A5A5A5A5A5A5,
}


def check(what: str, A: Array, low: int, high: int) -> None:
    """Raise IndexError if elements low..high are not all in the array."""
    if low < 0 or high >= A.size:
        at = f"offset {low}" if low == high else f"offsets {low}..{high}"
        raise IndexError(f"{what} at {at} of an array of {A.size} elements")


def halves(A: Array) -> Array:
    """Return an array of uint16 as the float16 that it stores."""
    return A.view(np.float16)


def load(A: Array, off: int) -> Value:
    if not 0 <= off < A.size:
        check("load", A, off, off)
    return A[off]


def store(A: Array, off: int, x: Value) -> None:
    if not 0 <= off < A.size:
        check("store", A, off, off)
    if type(x) is A.dtype.type:
        A[off] = x
    else:
        _convert_and_store(A, off, x)


@quiet
def _convert_and_store(A: Array, at: Any, x: Value) -> None:
    A[at] = x


def load_half(A: Array, off: int) -> Value:
    return np.float32(load(halves(A), off))


def store_half(A: Array, off: int, x: Value) -> None:
    store(halves(A), off, x)


def vload(A: Array, off: int, lanes: int) -> Array:
    if off < 0 or off + lanes > A.size:
        check("vload", A, off, off + lanes - 1)
    return A[off : off + lanes].copy()


def vload_if(test: Any, A: Array, off: int, other: Array) -> Array:
    return vload(A, off, other.size) if test else other


def vload_if_half(test: Any, A: Array, off: int, other: Array) -> Array:
    return vload_half(A, off, other.size) if test else other


def vstore(A: Array, off: int, v: Array) -> None:
    if off < 0 or off + v.size > A.size:
        check("vstore", A, off, off + v.size - 1)
    if v.dtype is A.dtype:
        A[off : off + v.size] = v
    else:
        _convert_and_store(A, slice(off, off + v.size), v)


def vload_half(A: Array, off: int, lanes: int) -> Array:
    return vload(halves(A), off, lanes).astype(np.float32)


def vstore_half(A: Array, off: int, v: Array) -> None:
    vstore(halves(A), off, v)


vstore_stream = vstore
vstore_stream_half = vstore_half


def stream_fence() -> None:
    """Do nothing: writes are in order."""


def prefetch(A: Array, off: int) -> None:
    """Do nothing: there is no cache to fill."""


def vgather(A: Array, offs: Array) -> Array:
    check("vgather", A, offs.min(), offs.max())
    return A[offs]


def vgather_half(A: Array, offs: Array) -> Array:
    return vgather(halves(A), offs).astype(np.float32)


def vgather_masked(A: Array, offs: Array, mask: Array) -> Array:
    v = np.zeros(offs.size, A.dtype)
    if mask.any():
        v[mask] = vgather(A, offs[mask])
    return v


def vgather_masked_half(A: Array, offs: Array, mask: Array) -> Array:
    return vgather_masked(halves(A), offs, mask).astype(np.float32)


@quiet
def vscatter(A: Array, offs: Array, v: Array) -> None:
    check("vscatter", A, offs.min(), offs.max())
    A[offs] = v


def vscatter_half(A: Array, offs: Array, v: Array) -> None:
    vscatter(halves(A), offs, v)


def vscatter_masked(A: Array, offs: Array, v: Array, mask: Array) -> None:
    if mask.any():
        vscatter(A, offs[mask], v[mask])


def vscatter_masked_half(A: Array, offs: Array, v: Array, mask: Array) -> None:
    vscatter_masked(halves(A), offs, v, mask)


def vload_masked(A: Array, off: int, mask: Array) -> Array:
    return vgather_masked(A, off + np.arange(mask.size), mask)


def vload_masked_half(A: Array, off: int, mask: Array) -> Array:
    return vload_masked(halves(A), off, mask).astype(np.float32)


def vstore_masked(A: Array, off: int, v: Array, mask: Array) -> None:
    vscatter_masked(A, off + np.arange(mask.size), v, mask)


def vstore_masked_half(A: Array, off: int, v: Array, mask: Array) -> None:
    vstore_masked(halves(A), off, v, mask)


def vload_strided(A: Array, off: int, stride: int, lanes: int) -> Array:
    return vgather(A, off + stride * np.arange(lanes))


def vload_strided_half(A: Array, off: int, stride: int, lanes: int) -> Array:
    return vload_strided(halves(A), off, stride, lanes).astype(np.float32)


def vload_strided_masked(A: Array, off: int, stride: int, mask: Array) -> Array:
    return vgather_masked(A, off + stride * np.arange(mask.size), mask)


def vload_strided_masked_half(A: Array, off: int, stride: int, mask: Array) -> Array:
    return vload_strided_masked(halves(A), off, stride, mask).astype(np.float32)


def vload_shuffled(A: Array, off: int, order: tuple[int, ...]) -> Array:
    return vgather(A, off + np.array(order))


def vload_shuffled_half(A: Array, off: int, order: tuple[int, ...]) -> Array:
    return vload_shuffled(halves(A), off, order).astype(np.float32)


def vload_columns(A: Array, off: int, stride: int, columns: int, lanes: int) -> tuple[Array, ...]:
    return tuple(vload_strided(A, off + k, stride, lanes) for k in range(columns))


def vload_columns_half(
    A: Array, off: int, stride: int, columns: int, lanes: int
) -> tuple[Array, ...]:
    return tuple(vload_strided_half(A, off + k, stride, lanes) for k in range(columns))


def vstore_strided(A: Array, off: int, stride: int, v: Array) -> None:
    vscatter(A, off + stride * np.arange(v.size), v)


def vstore_strided_half(A: Array, off: int, stride: int, v: Array) -> None:
    vstore_strided(halves(A), off, stride, v)


def poisoned(n: int, dtype: Any) -> Array:
    """Return a new array filled with the poison value of its dtype."""
    name = dtype if isinstance(dtype, str) else dtype.__name__
    name = "bool" if name == "boolean" else name
    return np.full(max(n, 0), POISON[name], name)


def stack_array(n: int, dtype: Any) -> Array:
    return poisoned(n, dtype)


def arena_array(arena: Array, start: int, n: int, dtype: Any) -> Array:
    name = dtype if isinstance(dtype, str) else dtype.__name__
    kind = np.dtype("bool" if name == "boolean" else name)
    stop = start + n * kind.itemsize
    if n:
        check("arena_array", arena, start, stop - 1)
    return arena[start:stop].view(kind)


def heap_array(n: int, dtype: Any) -> Array:
    return poisoned(n, dtype)
