"""The intrinsics of `schedlang.intrinsics.gpu` in NumPy, for GPU kernels in the simulator.

Those that CPU kernels share come from `schedlang.intrinsics.twins`. The simulator itself has
`exchange`, `multiply_fragments` and `load_matrix`.
"""

# the compiled function of the same name has the docstring

from __future__ import annotations

from typing import Any

import numpy as np

from schedlang.expr import special_values
from schedlang.intrinsics.twins import *
from schedlang.intrinsics.twins.arithmetic import add, multiply, quiet
from schedlang.intrinsics.twins.memory import load, store, vload, vload_half, vstore, vstore_half


def aligned(off: int, lanes: int) -> None:
    if off % lanes:
        raise IndexError(
            f"an access of {lanes} elements at once starts at {off}, which is not a multiple of "
            f"{lanes}"
        )


def vload_aligned(A: np.ndarray, off: int, lanes: int) -> np.ndarray:
    aligned(off, lanes)
    return vload(A, off, lanes)


def vstore_aligned(A: np.ndarray, off: int, v: Any) -> None:
    aligned(off, len(v))
    vstore(A, off, v)


def vload_aligned_half(A: np.ndarray, off: int, lanes: int) -> np.ndarray:
    aligned(off, lanes)
    return vload_half(A, off, lanes)


def vstore_aligned_half(A: np.ndarray, off: int, v: Any) -> None:
    aligned(off, len(v))
    vstore_half(A, off, v)


def atomic_add(A: np.ndarray, off: int, x: Any) -> None:
    store(A, off, add(load(A, off), x))


def atomic_multiply(A: np.ndarray, off: int, x: Any) -> None:
    store(A, off, multiply(load(A, off), x))


def atomic_minimum(A: np.ndarray, off: int, x: Any) -> None:
    store(A, off, quiet(special_values.minimum)(load(A, off), x))


def atomic_maximum(A: np.ndarray, off: int, x: Any) -> None:
    store(A, off, quiet(special_values.maximum)(load(A, off), x))


def copy_async(A: np.ndarray, at: int, B: np.ndarray, start: int, count: int) -> None:
    aligned(at, count)
    aligned(start, count)
    A[at : at + count] = B[start : start + count]


def commit_copies() -> None:
    return


def wait_copies(pending: int) -> None:
    return


def unrolled() -> None:
    return
