"""Ten schedules whose pages tests look at: every kind of loop, guard, storage and target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import schedlang as sl
from tests import gpu_schedules
from tests.graphs import blur, product, recurrence


def tiled(rows: int = 12, columns: int = 64, depth: int = 8) -> sl.Schedule:
    """Return a product whose tiles of 4 by 32 sums stay in registers."""
    _, _, C = product(rows, columns, depth)
    s = sl.schedule(C)
    i, j = C.op.axis
    io, jo, ii, ji = s[C].tile(i, j, 4, 32)
    s[C].reorder(io, jo, C.op.reduce_axis[0], ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[C].parallel(io)
    return s


def untouched() -> sl.Schedule:
    return sl.schedule(product(12, 16, 8)[2])


def attached() -> sl.Schedule:
    """Return a blur whose first stage is computed in strips of the second, with sliding windows."""
    first, last = blur()
    s = sl.schedule(last)
    strip, row = s[last].split(s[last].op.axis[0], factor=8)
    s[first].compute_at(s[last], row)
    s[first].store_at(s[last], strip)
    s[last].parallel(strip)
    return s


def packed() -> sl.Schedule:
    """Return a product that reads a packed copy of B, and adds in a local tile."""
    _, B, C = product(16, 32, 8)
    s = sl.schedule(C)
    BP, CL = s.cache_read(B, "global", [C]), s.cache_write(C, "local")
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 4, 16)
    s[CL].compute_at(s[C], jo)
    i, j = s[CL].op.axis
    s[CL].reorder(s[CL].op.reduce_axis[0], i, j)
    s[CL].unroll(i)
    s[CL].vectorize(j)
    s[C].vectorize(ji)
    s[BP].compute_at(s[C], io)
    return s


def guarded() -> sl.Schedule:
    """Return a map whose vectors do not divide the extent, under a guard."""
    A = sl.placeholder((37, 50), name="A")
    B = sl.compute((37, 50), lambda i, j: sl.if_then_else(i + j < 40, A[i, j] * 2, 0), name="B")
    s = sl.schedule(B)
    fused = s[B].fuse(*B.op.axis)
    outer, inner = s[B].split(fused, factor=16, tail="guard")
    s[B].vectorize(inner)
    return s


def scanned() -> sl.Schedule:
    return recurrence()["s"]


def by_size() -> sl.Schedule:
    """Return a product of a size that each call determines."""
    n = sl.var("n")
    _, _, C = product(n, 16, n)
    s = sl.schedule(C)
    s[C].vectorize(s[C].split(C.op.axis[1], factor=8)[1])
    return s


def indices() -> sl.Schedule:
    """Return the largest element of each row and its index, in partial results."""
    A = sl.placeholder((6, 64), name="A")
    k = sl.reduce_axis(64, name="k")
    B = sl.compute((6,), lambda i: sl.argmax(A[i, k], axis=k), name="B")
    s = sl.schedule(B)
    _, inner = s[B].split(k, factor=8)
    s.rfactor(B, inner)
    return s


def on_a_gpu() -> Any:
    return gpu_schedules.gemm(48, 32, 40, double=True, virtual=True, vector=2).schedule


def across_threads() -> Any:
    return gpu_schedules.softmax(20, 100, 64).schedule


TEN: dict[str, Callable[[], sl.Schedule]] = {
    f.__name__: f
    for f in (tiled, untouched, attached, packed, guarded, scanned, by_size, indices, on_a_gpu,
              across_threads)
}  # fmt: skip
GPU = ("on_a_gpu", "across_threads")


def kernel(name: str, cpu: str = "python") -> sl.Kernel:
    """Return the kernel of one of :data:`TEN`, for ``cpu`` or CUDA."""
    return sl.build(TEN[name](), target="cuda" if name in GPU else cpu)
