"""The clock of a run: wall time on two threads, or with ``--processor-time`` one thread's own time.

Other programs on the machine stretch wall time, and processor time far less. Workers inherit the
choice through their environment.
"""

from __future__ import annotations

import os
import sys
from time import perf_counter, process_time

from benchmarks.peers import THREADS

CLOCK, PROCESSOR = "SCHEDLANG_BENCHMARK_CLOCK", "processor"


def take_processor_time() -> None:
    """Time this process and its workers by the processor time of one thread from now on."""
    os.environ[CLOCK] = PROCESSOR
    if "numba" in sys.modules:
        sys.modules["numba"].set_num_threads(1)


def by_processor() -> bool:
    return os.environ.get(CLOCK) == PROCESSOR


def threads() -> int:
    """Return how many threads an implementation has."""
    return 1 if by_processor() else THREADS


def now() -> float:
    """Return the seconds of the run's clock."""
    return process_time() if by_processor() else perf_counter()


__all__ = ["by_processor", "now", "take_processor_time", "threads"]
