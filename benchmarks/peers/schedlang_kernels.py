"""schedlang's kernels, from the schedules in ``benchmarks/schedules``."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks import schedules
from benchmarks.peers import Call
from benchmarks.works import Arrays, Work


def prepare(label: str, work: Work, arrays: Arrays, outs: Arrays) -> tuple[Call, dict[str, Any]]:
    # the same schedule for both targets
    in_c = label == schedules.IN_C
    chosen = schedules.of(work)[schedules.MAIN if in_c else label]
    made = chosen.make(work, sl.Target("cpu"))
    _start_numba()
    start = perf_counter()
    kernel = sl.build(*made, target="c" if in_c else "cpu").compile()
    facts = {"compile_seconds": perf_counter() - start}
    inputs = arrays.values() if chosen.ahead is None else chosen.ahead(arrays)
    given = (*inputs, *outs.values())

    def call() -> None:
        kernel(*given)

    return call, facts


def _start_numba() -> None:
    """Compile a small kernel first, so that loading the compiler is not timed."""
    A = sl.placeholder((64,), name="A")
    B = sl.compute((64,), lambda i: A[i] + 1, name="B")
    s = sl.schedule(B)
    s[B].parallel(s[B].split(B.op.axis[0], factor=32)[0])
    sl.build(s)(np.zeros(64, "float32"))
