"""Profiles of GPU kernels: the time of each kernel of a call, by events of the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from statistics import median
from time import perf_counter
from typing import Any

from schedlang.runtime import nvidia
from schedlang.runtime.gpu_clock import hold
from schedlang.runtime.profile import Part, Profile

# the events that are recorded with nothing between them, to know what they cost
EMPTY = 20
# the milliseconds that the GPU waits for the host, at least
LEAST_HOLD = 2

Watch = Callable[[str], AbstractContextManager[None]]


class KernelClock:
    """Events before and after each kernel of a call, on one stream."""

    def __init__(self, stream: int) -> None:
        self.cuda = nvidia.driver()
        self.stream = nvidia.stream_of(stream)
        self.pairs: list[tuple[str, Any, Any]] = []

    @contextmanager
    def watch(self, name: str) -> Iterator[None]:
        """Record an event before the launch in the ``with`` block, and one after it."""
        start, end = self.cuda.event(), self.cuda.event()
        start.record(self.stream)
        yield
        end.record(self.stream)
        self.pairs.append((name, start, end))

    def seconds(self) -> list[tuple[str, float]]:
        """Wait for the kernels and return the name and the seconds of each, in launch order."""
        self.stream.synchronize()
        times = [(name, start.elapsed_time(end) * 1e-3) for name, start, end in self.pairs]
        self.pairs.clear()
        return times


def gpu_profile(
    name: str,
    target: str,
    stages: Mapping[str, str],
    run: Callable[[Watch | None], object],
    stream: int,
    repeat: int,
) -> Profile:
    """Return the profile of a call by ``run``, which takes what is to watch each launch, or None.

    ``stages`` are the stages of the kernels by name. The GPU waits until the host has launched all
    kernels of a call, so that the times are the GPU's alone.
    """
    clock = KernelClock(stream)
    run(None)
    host = _host_seconds(run, clock)
    empty = _empty_seconds(clock)
    calls, whole = [], []
    for _ in range(repeat):
        hold(max(LEAST_HOLD, 1 + int(4e3 * host)), clock.stream)
        run(clock.watch)
        calls.append(clock.seconds())
        hold(max(LEAST_HOLD, 1 + int(4e3 * host)), clock.stream)
        with clock.watch(name):
            run(None)
        whole.append(max(0.0, clock.seconds()[0][1] - empty))
    return kernel_profile(name, target, stages, calls, min(whole), empty, repeat)


def kernel_profile(
    name: str,
    target: str,
    stages: Mapping[str, str],
    calls: Sequence[Sequence[tuple[str, float]]],
    whole: float,
    empty: float,
    repeat: int,
) -> Profile:
    """Return the profile of ``calls``, each the seconds of its kernels by name, in launch order.

    ``whole`` are the seconds of a call without events between its kernels, and ``empty`` what the
    events of a kernel add to its time.
    """
    by_kernel: dict[str, list[float]] = {}
    for kernel, seconds in min(calls, key=lambda call: sum(seconds for _, seconds in call)):
        by_kernel.setdefault(kernel, []).append(max(0.0, seconds - empty))
    parts = tuple(
        Part(kernel, stages[kernel], "kernel", 0, sum(times), sum(times), len(times))
        for kernel, times in by_kernel.items()
    )
    by_stage = dict.fromkeys((part.stage for part in parts), 0.0)
    for part in parts:
        by_stage[part.stage] += part.seconds
    launches = sum(len(times) for times in by_kernel.values())
    return Profile(
        name,
        target,
        sum(by_stage.values()),
        whole,
        by_stage,
        0.0,
        0.0,
        parts,
        empty * launches,
        repeat,
    )


def _host_seconds(run: Callable[[Watch | None], object], clock: KernelClock) -> float:
    """Return the seconds that the host takes for a call, with events."""
    before = perf_counter()
    run(clock.watch)
    passed = perf_counter() - before
    clock.seconds()
    return passed


def _empty_seconds(clock: KernelClock) -> float:
    """Return the seconds between two events with nothing between them."""
    hold(LEAST_HOLD, clock.stream)
    for _ in range(EMPTY):
        with clock.watch(""):
            pass
    return median(seconds for _, seconds in clock.seconds())
