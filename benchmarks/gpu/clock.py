"""A clock that times GPU calls by events of the GPU, and measures the GPU's ceilings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from schedlang.runtime import nvidia

# milliseconds of a sample, and its most calls: a GPU's queue holds about a thousand launches
WINDOW, MOST = 20.0, 800
# attempts, each with a longer sleep, to keep the GPU from waiting for the host
TRIES = 4
# bytes of the copy that measures the bandwidth
COPIED = 1 << 30
# the kernel that measures the rate of multiply-adds: 8 chains per thread
BLOCKS, THREADS, STEPS, CHAINS = 132 * 16, 256, 4096, 8

Calls = Sequence[Callable[[], object]]


class Clock:
    """A clock for calls on the default stream of the current device.

    A kernel that sleeps holds the GPU while the host launches the calls of a sample. The launches
    wait in the GPU's queue, so that the time between the events is the GPU's alone.
    """

    def __init__(self) -> None:
        self.cuda = nvidia.driver()
        self.device = self.cuda.get_current_device()
        # whether the GPU waited for the host in the last sample
        self.starved = False

    @property
    def name(self) -> str:
        name: Any = self.device.name
        return name.decode() if isinstance(name, bytes) else str(name)

    @property
    def arch(self) -> str:
        return "sm_{}{}".format(*self.device.compute_capability)

    @property
    def cache_bytes(self) -> int:
        """The size of the second-level cache."""
        return int(self.device.L2_CACHE_SIZE)

    def seconds(self, calls: Calls) -> float:
        """Take one sample of ``calls`` in turns, and return the mean seconds of a call."""
        for call in calls[:3]:
            call()
        self._sleep[1, 1](1)
        self.cuda.synchronize()
        each, host, _ = self._window(calls, 3, 5)
        count = int(min(MOST, max(3, len(calls), WINDOW / each)))
        hold = 1 + int(4 * host * count)
        for _ in range(TRIES):
            each, host, held = self._window(calls, count, hold)
            self.starved = not held
            if held:
                break
            hold *= 4
        return each * 1e-3

    def _window(self, calls: Calls, count: int, hold: int) -> tuple[float, float, bool]:
        """Return the milliseconds of a call on the GPU, and those of launching it.

        Also return whether the host launched all calls before the first one began.
        """
        start, end = self.cuda.event(), self.cuda.event()
        # Defer deallocations, which would wait for the GPU.
        with self.cuda.defer_cleanup():
            self._sleep[1, 1](hold)
            start.record()
            before = perf_counter()
            for k in range(count):
                calls[k % len(calls)]()
            host = (perf_counter() - before) * 1e3 / count
            held = not start.query()
            end.record()
            end.synchronize()
        return start.elapsed_time(end) / count, host, held

    @cached_property
    def _sleep(self) -> Any:
        cuda = self.cuda

        @cuda.jit
        def sleep(milliseconds: int) -> None:
            for _ in range(milliseconds):
                cuda.nanosleep(1_000_000)

        return sleep

    def ceilings(self) -> dict[str, float]:
        """Measure the rates of float32 multiply-adds and of a copy within the GPU's memory."""
        cuda = self.cuda

        @cuda.jit(fastmath=True)
        def multiply_add(out: Any, factor: float) -> None:
            i = cuda.grid(1)
            a = b = c = d = e = f = g = h = factor * np.float32(i)
            for _ in range(STEPS):
                a, b, c, d = a * factor + b, b * factor + c, c * factor + d, d * factor + a
                e, f, g, h = e * factor + f, f * factor + g, g * factor + h, h * factor + e
            out[i] = a + b + c + d + e + f + g + h

        out = cuda.device_array(BLOCKS * THREADS, "float32")
        seconds = self.seconds([lambda: multiply_add[BLOCKS, THREADS](out, np.float32(0.5))])
        flops = 2.0 * BLOCKS * THREADS * STEPS * CHAINS
        source, target = (cuda.device_array(COPIED // 4, "float32") for _ in range(2))
        copy = self.seconds([lambda: target.copy_to_device(source)])
        return {"FMA GFLOP/s": flops / seconds * 1e-9, "copy GB/s": 2 * COPIED / copy * 1e-9}
