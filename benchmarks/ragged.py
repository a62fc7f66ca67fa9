"""Compare ragged reductions with SciPy's sparse matrices, numba loops, and whole boxes.

    python -m benchmarks.ragged [--only PATTERN] [--json FILE]

``of best`` is the best time of the other libraries, or of the other form, over the row's own: more
than 1 is faster. SciPy's products run on one thread. Triangular works compare a ragged range with
``where=`` over the whole box, under one schedule. Threads sleep as soon as a call ends
(``OMP_WAIT_POLICY``), since idle ones that spin would take a core from SciPy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import numpy as np  # noqa: E402

import schedlang as sl  # noqa: E402
from benchmarks.harness import Case, Column, Row, Unavailable, main  # noqa: E402

OURS = "schedlang"
ROWS, COLUMNS, SIDE = 100_000, 64, 512
# rows of one task
TASK = 256


@dataclass(frozen=True)
class Matrix:
    """A sparse matrix in the form CSR."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray

    @property
    def rows(self) -> int:
        return len(self.indptr) - 1

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"indptr": self.indptr, "indices": self.indices, "data": self.data}


@cache
def matrix(kind: str, rows: int) -> Matrix:
    """Return a square matrix with rows of one to 20 elements, or of lengths by a power law."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 21, rows)
    if kind == "power law":
        lengths = np.minimum(rng.zipf(1.6, rows), rows // 8)
    indptr = np.r_[0, np.cumsum(lengths)].astype("int32")
    count = int(indptr[-1])
    indices = rng.integers(0, rows, count).astype("int32")
    return Matrix(indptr, indices, rng.standard_normal(count).astype("float32"))


def product(columns: int = 0) -> sl.Tensor:
    """Declare a sparse matrix times a vector, or times a matrix of ``columns`` columns."""
    n, m, nnz = sl.var("n"), sl.var("m"), sl.var("nnz")
    indptr = sl.placeholder((n + 1,), "int32", name="indptr")
    sl.assume(indptr, monotonic=True, within=(0, nnz))
    indices = sl.placeholder((nnz,), "int32", name="indices")
    data = sl.placeholder((nnz,), name="data")
    x = sl.placeholder((m, columns) if columns else (m,), name="x")

    def element(i: Any, *j: Any) -> Any:
        k = sl.reduce_axis((indptr[i], indptr[i + 1]), name="k")
        place = (indices[k], *j)
        return sl.sum(data[k] * x[place], axis=k)

    return sl.compute((n, columns) if columns else (n,), element, name="y")


def by_rows(y: sl.Tensor, parallel: bool) -> sl.Schedule:
    s = sl.schedule(y)
    i, *j = s[y].op.axis
    (k,) = s[y].op.reduce_axis
    task, row = s[y].split(i, factor=TASK)
    s[y].reorder(task, row, k, *j)
    if parallel:
        s[y].parallel(task)
    for axis in j:
        s[y].vectorize(axis)
    return s


def sparse_cases(name: str, kind: str, rows: int, columns: int = 0) -> Iterator[Case]:
    """Yield the products of one matrix by schedlang, SciPy and numba."""
    held = matrix(kind, rows)
    shape = (rows, columns) if columns else (rows,)
    x = np.random.default_rng(1).standard_normal(shape).astype("float32")
    out = np.empty(shape, "float32")
    flops = 2.0 * len(held.data) * max(columns, 1)

    def ours(parallel: bool = True) -> Callable[[], object]:
        f = sl.build(by_rows(product(columns), parallel))
        return lambda: f(**held.arrays, x=x, y=out)

    def scipy() -> Callable[[], object]:
        known = _scipy(held)
        return lambda: known @ x

    def numba() -> Callable[[], object]:
        run = _numba_many() if columns else _numba_one()
        return lambda: run(held.data, held.indices, held.indptr, x, out)

    def check() -> bool:
        return bool(np.allclose(out, _scipy(held) @ x, rtol=1e-3, atol=1e-3))

    yield Case(name, OURS, ours, check, flops)
    yield Case(name, f"{OURS}, one thread", lambda: ours(False), check, flops)
    yield Case(name, "SciPy", scipy, None, flops)
    yield Case(name, "numba", numba, check, flops)


def _scipy(held: Matrix) -> Any:
    try:
        from scipy.sparse import csr_matrix
    except ImportError as error:
        raise Unavailable("SciPy is not installed: pip install schedlang[bench]") from error
    shape = (held.rows, held.rows)
    return csr_matrix((held.data, held.indices, held.indptr), shape=shape)


def _numba_one() -> Any:
    import numba

    @numba.njit(parallel=True, fastmath=False)
    def run(data: Any, indices: Any, indptr: Any, x: Any, y: Any) -> None:
        for i in numba.prange(len(y)):
            total = np.float32(0)
            for k in range(indptr[i], indptr[i + 1]):
                total += data[k] * x[indices[k]]
            y[i] = total

    return run


def _numba_many() -> Any:
    import numba

    @numba.njit(parallel=True, fastmath=False)
    def run(data: Any, indices: Any, indptr: Any, x: Any, y: Any) -> None:
        for i in numba.prange(len(y)):
            y[i] = 0
            for k in range(indptr[i], indptr[i + 1]):
                for j in range(x.shape[1]):
                    y[i, j] += data[k] * x[indices[k], j]

    return run


def triangle(form: str, side: int) -> sl.Tensor:
    """Declare a lower triangular matrix times a matrix; ``form`` says how to leave out the rest."""
    A, B = sl.placeholder((side, side), name="A"), sl.placeholder((side, side), name="B")
    whole = sl.reduce_axis(side, name="k")

    def element(i: Any, j: Any) -> Any:
        if form == "where=":
            return sl.sum(A[i, whole] * B[whole, j], axis=whole, where=whole <= i)
        k = sl.reduce_axis((0, i + 1), name="k")
        return sl.sum(A[i, k] * B[k, j], axis=k)

    return sl.compute((side, side), element, name="C")


def row_sums(form: str, side: int) -> sl.Tensor:
    """Declare the sums of exponentials up to the diagonal, as in causal attention."""
    A = sl.placeholder((side, side), name="A")
    whole = sl.reduce_axis(side, name="k")

    def element(i: Any) -> Any:
        if form == "where=":
            return sl.sum(sl.exp(A[i, whole]), axis=whole, where=whole <= i)
        k = sl.reduce_axis((0, i + 1), name="k")
        return sl.sum(sl.exp(A[i, k]), axis=k)

    return sl.compute((side,), element, name="C")


def in_tiles(C: sl.Tensor) -> sl.Schedule:
    """Keep sums of 4 rows and two vectors in registers; threads share columns of tiles."""
    s = sl.schedule(C)
    width = 2 * sl.Target("cpu").vector_width("float32")
    yo, xo, yi, xi = s[C].tile(C.op.axis[0], C.op.axis[1], 4, width)
    s[C].reorder(xo, yo, s[C].op.reduce_axis[0], yi, xi)
    s[C].unroll(yi)
    s[C].vectorize(xi)
    s[C].parallel(xo)
    return s


def in_lanes(C: sl.Tensor) -> sl.Schedule:
    """Keep partial sums of each row in the lanes of a vector."""
    s = sl.schedule(C)
    width = sl.Target("cpu").vector_width("float32")
    _, lane = s[C].split(s[C].op.reduce_axis[0], factor=width)
    P = s.rfactor(C, lane, factor_axis=1)
    s[P].compute_at(s[C], s[C].op.axis[0])
    s[P].reorder(s[P].op.axis[0], s[P].op.reduce_axis[0], s[P].op.axis[1])
    s[P].vectorize(s[P].op.axis[1])
    return s


def triangle_cases(side: int) -> Iterator[Case]:
    """Yield triangular reductions over the range, and over the box with ``where=``."""
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((side, side)).astype("float32") for _ in range(2))
    product_ = np.tril(a).astype("float64") @ b
    sums = np.tril(np.exp(a.astype("float64"))).sum(axis=1)
    works: tuple[tuple[str, Any, Any, tuple[np.ndarray, ...], np.ndarray], ...] = (
        (f"triangular product {side}, tiles", triangle, in_tiles, (a, b), product_),
        (f"causal row sums {side}, lanes", row_sums, in_lanes, (a,), sums),
    )
    for name, make, schedule, given, expected in works:
        for form in ("ragged", "where="):
            out = np.empty(expected.shape, "float32")

            def prepare(
                make: Any = make, schedule: Any = schedule, form: str = form, given: Any = given,
                out: np.ndarray = out,
            ) -> Callable[[], object]:  # fmt: skip
                f = sl.build(schedule(make(form, side)))
                return lambda: f(*given, out)

            def check(out: np.ndarray = out, expected: np.ndarray = expected) -> bool:
                return bool(np.allclose(out, expected, rtol=1e-3, atol=1e-3))

            yield Case(name, f"{OURS}, {form}", prepare, check)


def cases(rows: int = ROWS, columns: int = COLUMNS, side: int = SIDE) -> Iterator[Case]:
    """Yield the cases of each work, schedlang's first."""
    yield from sparse_cases("SpMV, short rows", "short", rows)
    yield from sparse_cases("SpMV, power law", "power law", rows)
    yield from sparse_cases(f"SpMM, {columns} columns", "short", rows // 4, columns)
    yield from triangle_cases(side)


def _of_best(row: Row, rows: Sequence[Row]) -> str:
    """Return the best time of other libraries, or of the other form, over that of ``row``."""
    sparse = any(not r.case.implementation.startswith(OURS) for r in rows)
    others = [
        r.seconds for r in rows
        if r is not row and not (sparse and r.case.implementation.startswith(OURS))
    ]  # fmt: skip
    return f"{min(others) / row.seconds:.2f}" if others else ""


if __name__ == "__main__":
    sys.exit(main("Ragged reductions", cases(), [Column("of best", _of_best)]))
