"""Kernels as a numba.cuda user writes them, with the tiles that its manual recommends.

There is one kernel for each kind of work. Its first launch compiles it. Arrays may be any objects
with ``__cuda_array_interface__``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import cuda, float32

from benchmarks.works import Work

TILE, ROWS, THREADS = 32, 8, 256
# a padded row, so that the elements of a column are in different banks
PADDED = TILE + 1
# of the tile's dtype, so that a select does not widen
ZERO = np.float32(0)
# elements of a tile's column for each thread
EACH = TILE // ROWS


@cuda.jit(fastmath=True)
def sgemm(a, b, c):
    """Compute a tile of 32 by 32 per block, 4 elements of a column per thread."""
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.blockIdx.x * TILE + x, cuda.blockIdx.y * TILE + y
    sums = cuda.local.array(EACH, float32)
    for i in range(EACH):
        sums[i] = 0
    for start in range(0, a.shape[1], TILE):
        for i in range(EACH):
            at = y + i * ROWS
            inside = row + i * ROWS < a.shape[0] and start + x < a.shape[1]
            left[at, x] = a[row + i * ROWS, start + x] if inside else ZERO
            inside = start + at < b.shape[0] and column < b.shape[1]
            right[at, x] = b[start + at, column] if inside else ZERO
        cuda.syncthreads()
        for k in range(TILE):
            shared = right[k, x]
            for i in range(EACH):
                sums[i] += left[y + i * ROWS, k] * shared
        cuda.syncthreads()
    for i in range(EACH):
        if row + i * ROWS < c.shape[0] and column < c.shape[1]:
            c[row + i * ROWS, column] = sums[i]


@cuda.jit(fastmath=True)
def transpose(x, y):
    """Transpose a tile through shared memory, with padded rows."""
    tile = cuda.shared.array((TILE, PADDED), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    column, row = cuda.blockIdx.x * TILE, cuda.blockIdx.y * TILE
    for i in range(ty, TILE, ROWS):
        if row + i < x.shape[0] and column + tx < x.shape[1]:
            tile[i, tx] = x[row + i, column + tx]
    cuda.syncthreads()
    for i in range(ty, TILE, ROWS):
        if column + i < y.shape[0] and row + tx < y.shape[1]:
            y[column + i, row + tx] = tile[tx, i]


@cuda.jit(fastmath=True)
def chain(a, b, c, y):
    """Compute one element per thread."""
    i = cuda.grid(1)
    if i < y.size:
        v = a[i]
        y[i] = max(v * b[i] + c[i], float32(0)) / (float32(1) + math.exp(-v))


@cuda.jit(fastmath=True)
def row_sum(x, y):
    """Sum one row per block, by a tree in shared memory."""
    parts = cuda.shared.array(THREADS, float32)
    row, thread = cuda.blockIdx.x, cuda.threadIdx.x
    total = float32(0)
    for j in range(thread, x.shape[1], THREADS):
        total += x[row, j]
    parts[thread] = total
    cuda.syncthreads()
    half = THREADS // 2
    while half:
        if thread < half:
            parts[thread] += parts[thread + half]
        cuda.syncthreads()
        half //= 2
    if thread == 0:
        y[row] = parts[0]


@cuda.jit(fastmath=True)
def column_sum(x, y):
    """Sum one column per thread."""
    j = cuda.grid(1)
    if j < y.size:
        total = float32(0)
        for i in range(x.shape[0]):
            total += x[i, j]
        y[j] = total


@cuda.jit(fastmath=True)
def box_blur(x, y):
    """Compute one point per thread, and leave the reuse of neighbours to the cache."""
    j, i = cuda.grid(2)
    if i < y.shape[0] and j < y.shape[1]:
        total = float32(0)
        for k in range(3):
            total += x[i + k, j] + x[i + k, j + 1] + x[i + k, j + 2]
        y[i, j] = total * float32(1 / 9)


@cuda.jit(fastmath=True)
def jacobi(x, y):
    """Compute one point per thread."""
    j, i = cuda.grid(2)
    if i < y.shape[0] and j < y.shape[1]:
        across = x[i + 1, j] + x[i + 1, j + 1] + x[i + 1, j + 2]
        y[i, j] = float32(0.2) * (across + x[i, j + 1] + x[i + 2, j + 1])


def _tiles(shape: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    return (-(-shape[1] // TILE), -(-shape[0] // TILE)), (TILE, ROWS)


def _points(shape: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    return (-(-shape[1] // TILE), -(-shape[0] // ROWS)), (TILE, ROWS)


def _elements(shape: Sequence[int]) -> tuple[int, int]:
    return -(-shape[0] // THREADS), THREADS


# each kernel, the array whose shape decides its grid (the first or the last), and the grid function
_KERNELS: dict[str, tuple[Any, int, Callable[[Sequence[int]], Any]]] = {
    "sgemm": (sgemm, -1, _tiles),
    "transpose": (transpose, 0, _tiles),
    "chain": (chain, -1, _elements),
    "row_sum": (row_sum, -1, lambda shape: (shape[0], THREADS)),
    "column_sum": (column_sum, -1, _elements),
    "box_blur": (box_blur, -1, _points),
    "jacobi": (jacobi, -1, _points),
}
KINDS = frozenset(_KERNELS)


def prepare(work: Work, arrays: Sequence[Any]) -> Callable[[], object]:
    """Return the launch for one set of inputs and outputs."""
    kernel, which, launch = _KERNELS[work.kind]
    grid, block = launch(tuple(arrays[which].shape))
    given = [cuda.as_cuda_array(a) for a in arrays]
    return lambda: kernel[grid, block](*given)
