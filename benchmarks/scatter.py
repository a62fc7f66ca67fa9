"""Compare scatters with NumPy and with loops in numba written by hand.

    python -m benchmarks.scatter [--only PATTERN] [--json FILE]

``of numba`` is the time of numba's best loops over the row's own: 1 means equally fast. A histogram
of bytes counts uniform bytes, bytes around one value, or a single value, whose counts wait for each
other. The gradient of an embedding adds rows at indices, as ``np.add.at`` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numba
import numpy as np

import schedlang as sl
from benchmarks.harness import Case, Column, Row, main
from benchmarks.works.work import aligned

BYTES, WORDS, ROWS, WIDTH = 1 << 24, 8192, 32768, 256
BINS = 256
# private copies of a thread, since an update waits for an earlier one of the same element
COPIES = 8


def histogram(size: int) -> tuple[sl.Tensor, sl.Tensor]:
    X = sl.placeholder((size,), "uint8", name="X")
    return X, sl.scatter((BINS,), (size,), lambda k: (X[k], 1), name="H")


def private_copies(H: sl.Tensor, threads: int) -> sl.Schedule:
    """Count into copies of each thread, of which it fills several in turn."""
    s = sl.schedule(H)
    part, inside = s[H].split(H.op.reduce_axis[0], nparts=threads)
    s[H].split(inside, factor=COPIES)
    P = s.rfactor(H, part)
    Q = s.rfactor(P, s[P].op.reduce_axis[1])
    s[P].parallel(s[P].op.axis[0])
    s[Q].compute_at(s[P], s[P].op.axis[0])
    copy, _, b = s[Q].op.axis
    s[Q].reorder(b, s[Q].op.reduce_axis[0], copy)
    s[Q].unroll(copy)
    return s


def as_written(H: sl.Tensor, threads: int) -> sl.Schedule:
    return sl.schedule(H)


@cache
def counting_loops(threads: int) -> dict[str, Callable[..., Any]]:
    """Return histograms in numba: one array of counts, one of each thread, four of each thread."""

    @numba.njit
    def serial(x: Any) -> Any:
        counts = np.zeros(BINS, np.int64)
        for k in range(x.size):
            counts[x[k]] += 1
        return counts

    @numba.njit
    def four(x: Any) -> Any:
        counts = np.zeros((4, BINS), np.int64)
        whole = x.size - x.size % 4
        for k in range(0, whole, 4):
            counts[0, x[k]] += 1
            counts[1, x[k + 1]] += 1
            counts[2, x[k + 2]] += 1
            counts[3, x[k + 3]] += 1
        for k in range(whole, x.size):
            counts[0, x[k]] += 1
        return counts.sum(0)

    @numba.njit(parallel=True)
    def copies(x: Any) -> Any:
        parts = np.zeros((threads, BINS), np.int64)
        for t in numba.prange(threads):
            parts[t] = serial(x[t * x.size // threads : (t + 1) * x.size // threads])
        return parts.sum(0)

    @numba.njit(parallel=True)
    def four_copies(x: Any) -> Any:
        parts = np.zeros((threads, BINS), np.int64)
        for t in numba.prange(threads):
            parts[t] = four(x[t * x.size // threads : (t + 1) * x.size // threads])
        return parts.sum(0)

    return {"numba, serial": serial, "numba, copies": copies, "numba, 4 copies": four_copies}


def bytes_of(kind: str, size: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "uniform":
        return rng.integers(0, BINS, size).astype("uint8")
    if kind == "peaked":
        return np.clip(rng.normal(128, 8, size), 0, 255).astype("uint8")
    return np.full(size, 7, "uint8")


def _same(run: Callable[..., Any]) -> Callable[..., Any]:
    return run


def _built(
    make: Callable[[sl.Tensor, int], sl.Schedule], tensor: sl.Tensor, threads: int
) -> sl.Kernel:
    return sl.build(make(tensor, threads))


def histograms(size: int, threads: int) -> Iterator[Case]:
    for kind in ("uniform", "peaked", "one value"):
        x, work = bytes_of(kind, size), f"histogram, {kind}"
        by_numpy = {"np.bincount": lambda x: np.bincount(x, minlength=BINS)}
        for name, run in {**by_numpy, **counting_loops(threads)}.items():
            yield _case(work, name, partial(_same, run), (x,), np.bincount(x, minlength=BINS))
        for scheduled in (as_written, private_copies):
            yield _case(
                work, scheduled.__name__.replace("_", " "),
                partial(_built, scheduled, histogram(size)[1], threads), (x,),
                np.bincount(x, minlength=BINS),
            )  # fmt: skip


def gradient(rows: int, words: int, width: int) -> sl.Tensor:
    P, G = sl.placeholder((rows,), "int32", name="P"), sl.placeholder((rows, width), name="G")
    return sl.scatter((words, width), (rows, width), lambda t, j: ((P[t], j), G[t, j]), name="D")


def columns_in_threads(D: sl.Tensor, threads: int) -> sl.Schedule:
    """Add rows in vectors; each thread has columns of its own, so that no two meet."""
    s = sl.schedule(D)
    (word, column), (t,) = D.op.axis, D.op.reduce_axis
    mine, rest = s[D].split(column, nparts=threads)
    over, lane = s[D].split(rest, factor=64)
    s[D].reorder(mine, word, t, over, lane)
    s[D].vectorize(lane)
    s[D].parallel(mine)
    return s


@cache
def adding_loops(threads: int, words: int) -> dict[str, Callable[..., Any]]:
    """Return the gradient in numba: serial, and with columns of its own for each thread."""

    @numba.njit
    def serial(p: Any, g: Any) -> Any:
        d = np.zeros((words, g.shape[1]), np.float32)
        for t in range(p.size):
            for j in range(g.shape[1]):
                d[p[t], j] += g[t, j]
        return d

    @numba.njit(parallel=True)
    def columns(p: Any, g: Any) -> Any:
        d = np.zeros((words, g.shape[1]), np.float32)
        for part in numba.prange(threads):
            first = part * g.shape[1] // threads
            last = (part + 1) * g.shape[1] // threads
            for t in range(p.size):
                for j in range(first, last):
                    d[p[t], j] += g[t, j]
        return d

    return {"numba, serial": serial, "numba, columns": columns}


def gradients(rows: int, words: int, width: int, threads: int) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    p, g = rng.integers(0, words, rows).astype("int32"), aligned((rows, width))
    rng.random(out=g, dtype="float32")
    wanted = np.zeros((words, width))
    np.add.at(wanted, p, g)

    def by_numpy(p: Any, g: Any) -> Any:
        d = np.zeros((words, width), "float32")
        np.add.at(d, p, g)
        return d

    for name, run in {"np.add.at": by_numpy, **adding_loops(threads, words)}.items():
        yield _case("embedding gradient", name, partial(_same, run), (p, g), wanted)
    for scheduled in (as_written, columns_in_threads):
        yield _case(
            "embedding gradient", scheduled.__name__.replace("_", " "),
            partial(_built, scheduled, gradient(rows, words, width), threads), (p, g),
            wanted,
        )  # fmt: skip


def _case(
    work: str, name: str, make: Callable[[], Callable[..., Any]], arrays: tuple[Any, ...],
    wanted: np.ndarray,
) -> Case:  # fmt: skip
    """Return a case that compiles before timing and compares its last result with ``wanted``."""
    found: list[Any] = []

    def prepare() -> Callable[[], object]:
        run = make()

        def call() -> None:
            found[:] = [run(*arrays)]

        return call

    def check() -> bool:
        return bool(np.allclose(found[0], wanted, rtol=1e-4))

    return Case(work, name, prepare, check, bytes=sum(a.nbytes for a in arrays))


def cases(
    size: int = BYTES, rows: int = ROWS, words: int = WORDS, width: int = WIDTH
) -> Iterator[Case]:
    """Yield the cases of each work."""
    threads = numba.get_num_threads()
    yield from histograms(size, threads)
    yield from gradients(rows, words, width, threads)


def _of_numba(row: Row, rows: Sequence[Row]) -> str:
    """Return the time of the fastest loops in numba over that of ``row``."""
    best = [r.seconds for r in rows if r.case.implementation.startswith("numba")]
    return f"{min(best) / row.seconds:.2f}" if best else ""


if __name__ == "__main__":
    sys.exit(main("Scatters", cases(), [Column("of numba", _of_numba)]))
