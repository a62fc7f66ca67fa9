"""Kernels that people bring: the nearest centre of points, a sparse product, a wide stencil."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

import schedlang as sl

Arrays = tuple["np.ndarray[Any, Any]", ...]
POINTS, CENTRES, FEATURES = 16_384, 32, 16
ROWS, EACH = 100_000, 10
SIDE, REACH = 128, 4
WEIGHTS = (0.5, 0.2, -0.05, 0.02, -0.01)


@dataclass(frozen=True)
class Brought:
    """A kernel: its name, its result, its arrays, what is expected, and its peer by name.

    The peer is a function of :mod:`benchmarks.peers.kernel_loops`.
    """

    name: str
    result: Callable[[], sl.Tensor]
    arrays: Callable[[], Arrays]
    expected: Callable[..., Any]
    peer: str


def brought(points: int = POINTS, rows: int = ROWS, side: int = SIDE) -> Iterator[Brought]:
    """Yield the kernels, for so many points, rows of the matrix, and elements along the grid."""
    for name, result, arrays, expected, peer, size in (
        ("nearest centres", nearest, _points, nearest_by_numpy, "nearest", points),
        ("CSR product", sparse, _sparse_arrays, sparse_by_numpy, "sparse", rows),
        ("25-point stencil", stencil, _grid, stencil_by_numpy, "stencil", side),
    ):
        yield Brought(name, partial(result, size), partial(arrays, size), expected, peer)


def nearest(points: int) -> sl.Tensor:
    """Declare the index of the nearest centre of each point, as k-means assigns it."""
    P, C = (sl.placeholder((n, FEATURES), name=x) for n, x in ((points, "P"), (CENTRES, "C")))
    f, c = sl.reduce_axis(FEATURES, name="f"), sl.reduce_axis(CENTRES, name="c")
    D = sl.compute(
        (points, CENTRES),
        lambda i, j: sl.sum((P[i, f] - C[j, f]) * (P[i, f] - C[j, f]), axis=f), name="D",
    )  # fmt: skip
    return sl.compute((points,), lambda i: sl.argmin(D[i, c], axis=c), name="N")


def nearest_by_numpy(p: Any, c: Any) -> Any:
    return ((p[:, None].astype("float64") - c) ** 2).sum(axis=2).argmin(axis=1)


def sparse(rows: int) -> sl.Tensor:
    """Declare the product of a sparse matrix in CSR and a vector."""
    count = rows * EACH
    indptr = sl.assume(
        sl.placeholder((rows + 1,), "int32", name="indptr"), monotonic=True, within=(0, count)
    )
    indices = sl.assume(sl.placeholder((count,), "int32", name="indices"), within=(0, rows - 1))
    data, x = sl.placeholder((count,), name="data"), sl.placeholder((rows,), name="x")

    def row(i: sl.Axis) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        return sl.sum(data[k] * x[indices[k]], axis=k)

    return sl.compute((rows,), row, name="Y")


def sparse_by_numpy(data: Any, x: Any, indices: Any, indptr: Any) -> Any:
    starts, values = indptr[:-1], data.astype("float64") * x[indices]
    return np.where(np.diff(indptr) > 0, np.add.reduceat(np.r_[values, 0.0], starts), 0.0)


def stencil(side: int) -> sl.Tensor:
    """Declare the sum of a point and of four on each side of it, in three dimensions."""
    X: Any = sl.placeholder((side + 2 * REACH,) * 3, name="X")

    def point(i: Any, j: Any, k: Any) -> Any:
        at = (i + REACH, j + REACH, k + REACH)
        total = X[at] * WEIGHTS[0]
        for far in range(1, REACH + 1):
            for dim in range(3):
                ends = [
                    X[tuple(a + step * (d == dim) for d, a in enumerate(at))]
                    for step in (-far, far)
                ]
                total = total + (ends[0] + ends[1]) * WEIGHTS[far]
        return total

    return sl.compute((side,) * 3, point, name="Y")


def stencil_by_numpy(x: Any) -> Any:
    inner = slice(REACH, -REACH)
    wide = x.astype("float64")
    total = wide[inner, inner, inner] * WEIGHTS[0]
    for far in range(1, REACH + 1):
        for dim in range(3):
            total += (
                sum(np.roll(wide, by, dim)[inner, inner, inner] for by in (far, -far))
                * (WEIGHTS[far])
            )
    return total


def _points(points: int) -> Arrays:
    rng = np.random.default_rng(0)
    return tuple(rng.random((n, FEATURES), "float32") for n in (points, CENTRES))


@cache
def _sparse_arrays(rows: int) -> Arrays:
    rng = np.random.default_rng(0)
    lengths = rng.multinomial(rows * EACH, [1 / rows] * rows)
    indptr = np.r_[0, np.cumsum(lengths)].astype("int32")
    data, x = (rng.standard_normal(n).astype("float32") for n in (rows * EACH, rows))
    return data, x, rng.integers(0, rows, rows * EACH).astype("int32"), indptr


def _grid(side: int) -> Arrays:
    return (np.random.default_rng(0).random((side + 2 * REACH,) * 3, "float32"),)
