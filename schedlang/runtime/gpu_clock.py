"""A clock that times calls by events of the GPU, and the measured ceilings of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from schedlang.runtime import nvidia
from schedlang.runtime.ceilings import Ceilings

# milliseconds of a sample, and its most calls: a GPU's queue holds about a thousand launches
WINDOW, MOST = 20.0, 800
# attempts, each with a longer sleep and fewer calls, to keep the GPU from waiting for the host
TRIES = 4
# the blocks of the kernel that sleeps: numba warns of fewer
SLEEPERS = 128
# bytes of the copy that measures the bandwidth, more than the caches of GPUs hold
COPIED = 1 << 28
# the kernel that measures the rate of multiply-adds: 8 chains per thread
BLOCKS, THREADS, STEPS, REPEATS, CHAINS = 132 * 16, 256, 256, 16, 8

Calls = Sequence[Callable[[], object]]


class GpuClock:
    """A clock for calls on one stream of the current GPU, by default on the default stream.

    A kernel that sleeps holds the GPU while the host launches the calls of a sample. The launches
    wait in the GPU's queue, so that the time between two events is the GPU's alone.
    """

    def __init__(self, stream: int = 0) -> None:
        self.cuda = nvidia.driver()
        self.stream = nvidia.stream_of(stream)
        # whether the GPU waited for the host in the last sample
        self.starved = False

    def seconds(self, calls: Calls, window: float = WINDOW) -> float:
        """Take one sample of ``calls`` in turns, and return the mean seconds of a call.

        The sample lasts about ``window`` milliseconds, or three calls if these take longer.
        """
        for call in calls[:3]:
            call()
        hold(1, self.stream)
        self.stream.synchronize()
        each, host, _ = self._window(calls, 3, 5)
        count = int(min(MOST, max(3, len(calls), window / each)))
        wait = 1 + int(4 * host * count)
        for _ in range(TRIES):
            each, host, held = self._window(calls, count, wait)
            self.starved = not held
            if held:
                break
            # a call of several kernels may fill the queue, and then the host waits
            count, wait = max(3, count // 2), 2 * wait
        return each * 1e-3

    def _window(self, calls: Calls, count: int, wait: int) -> tuple[float, float, bool]:
        """Return the milliseconds of a call on the GPU, and the milliseconds of launching it.

        Also return whether the host launched all calls before the first one began.
        """
        start, end = self.cuda.event(), self.cuda.event()
        # Defer deallocations, which would wait for the GPU.
        with self.cuda.defer_cleanup():
            hold(wait, self.stream)
            start.record(self.stream)
            before = perf_counter()
            for k in range(count):
                calls[k % len(calls)]()
            host = (perf_counter() - before) * 1e3 / count
            was_waiting = not start.query()
            end.record(self.stream)
            end.synchronize()
        return start.elapsed_time(end) / count, host, was_waiting


def hold(milliseconds: int, stream: Any) -> None:
    """Let the GPU sleep on ``stream``, while the host launches what comes after."""
    _sleeper()[SLEEPERS, 1, stream](milliseconds)


@lru_cache(maxsize=1)
def _sleeper() -> Any:
    """Return the kernel that sleeps for some milliseconds."""
    cuda = nvidia.driver()

    @cuda.jit
    def sleep(milliseconds: int) -> None:
        for _ in range(milliseconds):
            cuda.nanosleep(1_000_000)

    return sleep


def gpu_ceilings(dtype: str = "float32") -> Ceilings:
    """Return the ceilings of the current GPU for ``dtype``, measured once in a process.

    They are the rates of multiply-adds outside the matrix units and of a copy within the GPU's
    memory. Every dtype but float64 has the multiply-adds of float32.
    """
    kind = "float64" if dtype == "float64" else "float32"
    return _measured(nvidia.driver().get_current_device().id, kind)


@lru_cache(maxsize=16)
def _measured(number: int, dtype: str) -> Ceilings:
    cuda, clock, one = nvidia.driver(), GpuClock(), np.dtype(dtype).type

    @cuda.jit(fastmath=True)
    def multiply_add(out: Any, factor: float, term: float) -> None:
        i = cuda.grid(1)
        a = factor * out[i]
        b, c, d, e = a + factor, a * term, a - factor, a - term
        f, g, h = b * factor, c * factor, d * factor
        for _ in range(STEPS):
            # unrolled whole, so that the loop above costs nothing
            for _ in range(REPEATS):
                a, b = a * factor + term, b * factor + term
                c, d = c * factor + term, d * factor + term
                e, f = e * factor + term, f * factor + term
                g, h = g * factor + term, h * factor + term
        out[i] = a + b + c + d + e + f + g + h

    out = cuda.to_device(np.arange(BLOCKS * THREADS, dtype=dtype))
    seconds = clock.seconds([lambda: multiply_add[BLOCKS, THREADS](out, one(0.5), one(1))])
    flops = 2.0 * BLOCKS * THREADS * STEPS * REPEATS * CHAINS
    source, target = (cuda.device_array(COPIED, "uint8") for _ in range(2))
    copy = clock.seconds([lambda: target.copy_to_device(source)])
    return Ceilings(flops / seconds * 1e-9, 2 * COPIED / copy * 1e-9)
