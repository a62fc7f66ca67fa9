"""Kernels that people bring, as users of numba and SciPy write them, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from benchmarks.works.kernels import REACH, WEIGHTS

W = np.array(WEIGHTS, "float32")


@njit(fastmath=True)
def _nearest(p: Any, c: Any, out: Any) -> None:
    for i in range(p.shape[0]):
        least, at = np.float32(np.inf), 0
        for j in range(c.shape[0]):
            far = np.float32(0)
            for f in range(p.shape[1]):
                far += (p[i, f] - c[j, f]) * (p[i, f] - c[j, f])
            if far < least:
                least, at = far, j
        out[i] = at


@njit(fastmath=True)
def _stencil(x: Any, y: Any) -> None:
    for i in range(y.shape[0]):
        for j in range(y.shape[1]):
            for k in range(y.shape[2]):
                a, b, c = i + REACH, j + REACH, k + REACH
                total = x[a, b, c] * W[0]
                for far in range(1, REACH + 1):
                    total += (x[a - far, b, c] + x[a + far, b, c]) * W[far]
                    total += (x[a, b - far, c] + x[a, b + far, c]) * W[far]
                    total += (x[a, b, c - far] + x[a, b, c + far]) * W[far]
                y[i, j, k] = total


def nearest(p: Any, c: Any, out: Any) -> Callable[[], object]:
    return lambda: _nearest(p, c, out)


def stencil(x: Any, out: Any) -> Callable[[], object]:
    return lambda: _stencil(x, out)


def sparse(data: Any, x: Any, indices: Any, indptr: Any, out: Any) -> Callable[[], object]:
    """Return SciPy's product, whose result is copied into ``out`` afterwards to be checked."""
    from scipy.sparse import csr_matrix

    A = csr_matrix((data, indices, indptr), (len(x), len(x)))
    out[:] = A @ x
    return lambda: A @ x
