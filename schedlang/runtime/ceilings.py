"""What this machine can do at best, measured: multiply-adds and copied bytes a second."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from schedlang.runtime import threads
from schedlang.runtime.timing import samples
from schedlang.target import Target

COPIED_BYTES = 64 << 20
STEPS = 200_000
MEASURED = 0.4


@dataclass(frozen=True)
class Ceilings:
    """``gflops`` of vector multiply-adds in one dtype, ``gbps`` read plus written by a copy.

    Both use every thread that numba uses.
    """

    gflops: float
    gbps: float

    def seconds(self, flops: float, moved: float) -> float:
        """The least time that so many operations and bytes of memory take.

        >>> Ceilings(100.0, 10.0).seconds(1e9, 1e9)
        0.1
        """
        return max(flops / (self.gflops * 1e9), moved / (self.gbps * 1e9))


def ceilings(dtype: str = "float32") -> Ceilings:
    """The ceilings for ``dtype``; only float64 has a rate of multiply-adds of its own."""
    return Ceilings(fma_rate("float64" if dtype == "float64" else "float32"), copy_rate())


@lru_cache(maxsize=2)
def fma_rate(dtype: str) -> float:
    """GFLOP/s of independent multiply-adds in vector registers (2 operations each)."""
    lanes = Target("cpu").vector_width(dtype)
    workers = _workers()
    out = np.zeros(workers * lanes, dtype)
    run = _fma_kernel(dtype, lanes)
    with threads.guard():
        best = min(samples(partial(run, out, workers, STEPS), 7, MEASURED))
    return workers * STEPS * 12 * lanes * 2 / best * 1e-9


def copy_rate() -> float:
    """GB/s, read plus written, of a copy between arrays that no cache holds.

    The faster of plain stores and of stores that bypass the cache.
    """
    return max(copy_rates())


@lru_cache(maxsize=1)
def copy_rates() -> tuple[float, float]:
    """``copy_rate`` with plain stores, and with stores that bypass the cache."""
    count = COPIED_BYTES // 4
    source, target = np.ones(count, "float32"), np.ones(count, "float32")
    given = source, target, _workers()
    plain, streaming = _copy_kernels(Target("cpu").vector_width("float32"))
    with threads.guard():
        first = min(samples(partial(plain, *given), 7, MEASURED))
        second = min(samples(partial(streaming, *given), 7, MEASURED))
    return 2 * COPIED_BYTES / first * 1e-9, 2 * COPIED_BYTES / second * 1e-9


def _workers() -> int:
    from numba import get_num_threads

    return int(get_num_threads())


def _fma_kernel(dtype: str, lanes: int) -> Callable[..., None]:
    from numba import njit, prange

    from schedlang.runtime import intrinsics

    si: Any = intrinsics
    broadcast, fma, iota, vstore = si.broadcast, si.fma, si.iota, si.vstore
    number = getattr(si, dtype)

    @njit(error_model="numpy", nogil=True)
    def chains(out: Any, task: int, steps: int) -> None:
        a, b = broadcast(number(0.999), lanes), broadcast(number(0.001), lanes)
        first = number(iota(lanes))
        # twelve: more than any core has multiply-adds in flight, and they fit 16 registers
        c0, c1, c2, c3 = first, first + a, first + b, first - a
        c4, c5, c6, c7 = c0 + b, c1 + b, c2 + b, c3 + b
        c8, c9, c10, c11 = c4 + a, c5 + a, c6 + a, c7 + a
        for _ in range(steps):
            c0, c1, c2 = fma(c0, a, b), fma(c1, a, b), fma(c2, a, b)
            c3, c4, c5 = fma(c3, a, b), fma(c4, a, b), fma(c5, a, b)
            c6, c7, c8 = fma(c6, a, b), fma(c7, a, b), fma(c8, a, b)
            c9, c10, c11 = fma(c9, a, b), fma(c10, a, b), fma(c11, a, b)
        total = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11
        vstore(out, task * lanes, total)

    @njit(parallel=True, nogil=True)
    def run(out: Any, workers: int, steps: int) -> None:
        for task in prange(workers):
            chains(out, task, steps)

    return run


def _copy_kernels(lanes: int) -> list[Callable[..., None]]:
    from numba import njit, prange

    from schedlang.runtime import intrinsics

    si: Any = intrinsics
    vload, fence = si.vload, si.stream_fence

    def copier(write: Any) -> Callable[..., None]:
        @njit(error_model="numpy", nogil=True)
        def part(source: Any, target: Any, start: int, stop: int) -> None:
            for at in range(start, stop, lanes):
                write(target, at, vload(source, at, lanes))
            fence()

        @njit(parallel=True, nogil=True)
        def run(source: Any, target: Any, workers: int) -> None:
            size = source.size // (workers * lanes) * lanes
            for task in prange(workers):
                part(source, target, task * size, task * size + size)

        return run

    return [copier(si.vstore), copier(si.vstore_stream)]
