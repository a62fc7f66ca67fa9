"""Triton kernels for the works of its tutorials: a matrix product, softmax, elementwise chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import triton
import triton.language as tl

from benchmarks.works import Work

KINDS = frozenset({"sgemm", "softmax", "chain"})
# the block shapes to try for the product: rows, columns, depth, warps, stages
TRIED = ((64, 64, 32, 4, 3), (128, 64, 32, 4, 3), (128, 128, 16, 8, 3), (128, 128, 32, 8, 3))


@triton.jit
def product(a, b, c, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, K, DEPTH):
        k = start + tl.arange(0, DEPTH)
        left = tl.load(a + i[:, None] * K + k[None, :],
                       mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)  # fmt: skip
        right = tl.load(b + k[:, None] * N + j[None, :],
                        mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)  # fmt: skip
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(c + i[:, None] * N + j[None, :], total, mask=(i[:, None] < M) & (j[None, :] < N))


@triton.jit
def rows(x, y, N, WIDTH: tl.constexpr):
    j = tl.arange(0, WIDTH)
    at = tl.program_id(0) * N + j
    v = tl.load(x + at, mask=j < N, other=-float("inf"))
    grown = tl.exp(v - tl.max(v, axis=0))
    tl.store(y + at, grown / tl.sum(grown, axis=0), mask=j < N)


@triton.jit
def elements(a, b, c, y, N, WIDTH: tl.constexpr):
    i = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = i < N
    v = tl.load(a + i, mask=inside)
    w = tl.load(b + i, mask=inside) * v + tl.load(c + i, mask=inside)
    tl.store(y + i, tl.maximum(w, 0.0) / (1.0 + tl.exp(-v)), mask=inside)


def _product(a: Any, b: Any, c: Any, blocks: tuple[int, int, int, int, int]) -> None:
    (m, k), n = a.shape, b.shape[1]
    height, width, depth, warps, stages = blocks
    grid = triton.cdiv(m, height), triton.cdiv(n, width)
    product[grid](a, b, c, m, n, k, ROWS=height, COLUMNS=width, DEPTH=depth,
                  num_warps=warps, num_stages=stages)  # fmt: skip


def _rows(x: Any, y: Any) -> None:
    height, width = x.shape
    rows[(height,)](x, y, width, WIDTH=triton.next_power_of_2(width))


def _elements(a: Any, b: Any, c: Any, y: Any) -> None:
    count = y.numel()
    elements[(triton.cdiv(count, 1024),)](a, b, c, y, count, WIDTH=1024)


def prepare(
    work: Work, sets: Sequence[Sequence[Any]], seconds: Callable[[Callable[[], object]], float]
) -> list[Callable[[], object]]:
    """Return a launch for each set of inputs and outputs, with the fastest block shape.

    ``seconds`` times a call.
    """
    if work.kind == "softmax":
        return [partial(_rows, *given) for given in sets]
    if work.kind == "chain":
        return [partial(_elements, *given) for given in sets]
    best = min(TRIED, key=lambda blocks: seconds(partial(_product, *sets[0], blocks)))
    return [partial(_product, *given, best) for given in sets]
