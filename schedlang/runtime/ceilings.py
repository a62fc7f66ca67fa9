"""The measured ceilings of this machine: multiply-adds and copied bytes a second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from schedlang.runtime import probe_nests, thread_safety
from schedlang.runtime.runner_of import runner_of
from schedlang.runtime.runners import Purpose
from schedlang.runtime.timing import samples
from schedlang.target import Target

COPIED_BYTES = 64 << 20
STEPS = 200_000
SAMPLE_SECONDS = 0.4
MAX_MEASUREMENTS = 4
ROUNDS = 3
CEILING = Purpose("ceiling", "for a ceiling of the machine")


@dataclass(frozen=True)
class Ceilings:
    """The highest rates of a machine: ``gflops`` of multiply-adds, ``gbps`` of a copy.

    ``gflops`` is of vector multiply-adds in one dtype; ``gbps`` counts bytes read and written. Both
    are the better of a run on all of numba's threads and a run on one thread. One thread is faster
    while other programs occupy the cores, since the threads of a team wait for each other.
    """

    gflops: float
    gbps: float

    def seconds(self, flops: float, moved: float) -> float:
        """Return the least time that this machine needs for ``flops`` and ``moved`` bytes.

        >>> Ceilings(100.0, 10.0).seconds(1e9, 1e9)
        0.1
        """
        return max(flops / (self.gflops * 1e9), moved / (self.gbps * 1e9))


@dataclass
class Rate:
    """The best rate measured so far, and how often it was measured."""

    best: float = 0.0
    count: int = 0


# by kind, and by the number of threads, which numba.set_num_threads changes
RATES: dict[tuple[str, int], Rate] = defaultdict(Rate)


def ceilings(dtype: str = "float32", gflops: float = 0.0, gbps: float = 0.0) -> Ceilings:
    """Return the ceilings for ``dtype``; every dtype but float64 has the ``gflops`` of float32.

    ``gflops`` and ``gbps`` are the rates that a kernel reached. A lower ceiling must have been
    measured while the machine was busy, so it is measured again, at most a few times in a process.
    The best measurement counts.
    """
    kind = "float64" if dtype == "float64" else "float32"
    return Ceilings(rate(kind, gflops), rate("copy", gbps))


def rate(kind: str, reached: float) -> float:
    """Return the ceiling of multiply-adds in a dtype, or of a ``"copy"``.

    It is measured the first time with so many threads, and again if a kernel ``reached`` more.
    """
    ceiling = RATES[kind, _workers()]
    while not ceiling.count or (reached > ceiling.best and ceiling.count < MAX_MEASUREMENTS):
        measured = copy_rate() if kind == "copy" else fma_rate(kind)
        ceiling.best, ceiling.count = max(ceiling.best, measured), ceiling.count + 1
    return ceiling.best


@dataclass(frozen=True)
class Probe:
    """A kernel that measures a ceiling, on one thread or on all.

    A run does ``amount`` operations, or moves ``amount`` bytes.
    """

    alone: Callable[[], None]
    together: Callable[[], None]
    amount: float

    def rate(self) -> float:
        """Return the best rate of several samples, in 10^9 a second."""
        best = _best(self.alone)
        # after a fork without its threads, a parallel launch would end the process
        if not thread_safety.left_behind():
            best = min(best, _best(self.together))
        return self.amount / best * 1e-9

    def faster(self) -> Callable[[], None]:
        """Return the run on all threads, or the run on one thread if it takes less time now.

        The two are timed in turns, since the threads of a team may share a core at first.
        """
        if thread_safety.left_behind():
            return self.alone
        times = [(_best(self.together), _best(self.alone)) for _ in range(ROUNDS)]
        together, alone = map(min, zip(*times))
        return self.together if together <= alone else self.alone


def multiply_adds(dtype: str) -> Probe:
    """Return a probe of independent multiply-adds in vector registers, 2 operations each."""
    lanes, workers = Target("cpu").vector_width(dtype), _workers()
    one, team = _fma_kernels(dtype, lanes)
    out = np.zeros(workers * lanes, dtype)

    def alone() -> None:
        for task in range(workers):
            one(out, task, STEPS)

    flops = workers * STEPS * probe_nests.CHAINS * lanes * 2.0
    return Probe(alone, partial(team, out, workers, STEPS), flops)


def copies() -> tuple[Probe, Probe]:
    """Return probes of copies between arrays larger than the caches.

    The first uses plain stores, the second streaming stores. Bytes read and bytes written both
    count.
    """
    count = COPIED_BYTES // 4
    lanes, workers = Target("cpu").vector_width("float32"), _workers()
    source, target = np.ones(count, "float32"), np.ones(count, "float32")
    plain, streaming = (
        Probe(
            partial(one, source, target, 0, count),
            partial(team, source, target, workers, count // (workers * lanes) * lanes),
            2.0 * COPIED_BYTES,
        )
        for one, team in _copy_kernels(lanes)
    )
    return plain, streaming


def fma_rate(dtype: str) -> float:
    """Return the GFLOP/s of :func:`multiply_adds`."""
    return multiply_adds(dtype).rate()


def copy_rate() -> float:
    """Return the GB/s of the faster of :func:`copies`."""
    return max(copy_rates())


def copy_rates() -> tuple[float, float]:
    """Return the GB/s of each of :func:`copies`."""
    plain, streaming = copies()
    return plain.rate(), streaming.rate()


def _best(call: Callable[[], None]) -> float:
    with thread_safety.guard() or nullcontext():
        return min(samples(call, 7, SAMPLE_SECONDS))


def _workers() -> int:
    from numba import get_num_threads

    return int(get_num_threads())


@lru_cache(maxsize=2)
def _fma_kernels(dtype: str, lanes: int) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return the loop of multiply-adds on one thread, and on all threads."""
    return _compiled(probe_nests.multiply_adds(dtype, lanes))


@lru_cache(maxsize=1)
def _copy_kernels(lanes: int) -> list[tuple[Callable[..., None], Callable[..., None]]]:
    """Return the copy with plain and with streaming stores, each on one thread and on all."""
    stores = "vstore", "vstore_stream"
    return [_compiled(probe_nests.copies("float32", lanes, store)) for store in stores]


def _compiled(nests: probe_nests.Nests) -> tuple[Callable[..., None], Callable[..., None]]:
    runner = runner_of(Target("cpu").facts)
    one, team = (
        runner.function_of_nest(nest, nest.entry.name, False, purpose=CEILING)[0] for nest in nests
    )
    return one, team
