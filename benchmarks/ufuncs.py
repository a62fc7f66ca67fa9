"""Compare ufuncs of ``sl.ufunc`` with those of ``numba.vectorize`` on the same functions.

    python -m benchmarks.ufuncs [--only PATTERN] [--json FILE]

Times are processor times of one thread, in turns. ``of numba`` is the time of ``numba.vectorize``
over the row's own: 1 means equally fast. ``numpy`` is NumPy's own expression, with its temporary
arrays. Operands are contiguous, or one of them is (``and numbers``), or each has every second
element of an array (``strided``).
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from time import process_time
from typing import Any

# one thread, as numba.vectorize has
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import schedlang as sl  # noqa: E402
from benchmarks.harness import Case, Column, Row, main  # noqa: E402

SIZES = (1_000, 30_000, 1_000_000)
# elements of the calls that one sample times
ELEMENTS = 300_000
OURS, PEER = "schedlang", "numba"
FORMS = ("contiguous", "and numbers", "strided")


@dataclass(frozen=True)
class Function:
    """A function of ``count`` numbers as we and as numba take it, and its expression in NumPy."""

    name: str
    count: int
    ours: Callable[..., Any]
    numba: Callable[..., Any]
    numpy: Callable[..., Any]
    dtype: str = "float32"


def _hash(x: Any) -> Any:
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


def _hash_in_numba(x: Any) -> Any:
    # numba's integers of several widths become int64
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B))
    return np.uint32(x ^ (x >> np.uint32(16)))


def _polynomial_in_numba(x: Any) -> Any:
    # a number of Python's is a float64 in numba
    y = (x * np.float32(0.5) + np.float32(0.25)) * x - np.float32(1)
    return y * x + np.float32(3)


FUNCTIONS = (
    Function("add", 2, lambda x, y: x + y, lambda x, y: x + y, np.add),
    Function("fused multiply-add", 3, lambda x, y, z: x * y + z, lambda x, y, z: x * y + z,
             lambda x, y, z: x * y + z),
    Function("sigmoid", 1, lambda x: 1 / (1 + np.exp(-x)),
             lambda x: np.float32(1) / (np.float32(1) + np.exp(-x)),
             lambda x: 1 / (1 + np.exp(-x))),
    Function("clip", 3, lambda x, y, z: np.minimum(np.maximum(x, y), z),
             lambda x, y, z: min(max(x, y), z), lambda x, y, z: np.minimum(np.maximum(x, y), z)),
    Function("polynomial", 1, lambda x: ((x * 0.5 + 0.25) * x - 1) * x + 3, _polynomial_in_numba,
             lambda x: ((x * 0.5 + 0.25) * x - 1) * x + 3),
    Function("hypot", 2, lambda x, y: np.hypot(x, y), lambda x, y: np.hypot(x, y), np.hypot),
    Function("select", 2, lambda x, y: sl.select(x > y, x * 2, y),
             lambda x, y: x * np.float32(2) if x > y else y,
             lambda x, y: np.where(x > y, x * 2, y)),
    Function("integer hash", 1, _hash, _hash_in_numba, _hash, "uint32"),
)  # fmt: skip


def operands(function: Function, size: int, form: str) -> list[np.ndarray]:
    """Return random operands of a form."""
    rng = np.random.default_rng(0)
    low, high = (0, 2**31) if function.dtype == "uint32" else (-4, 4)
    given = [rng.uniform(low, high, size).astype(function.dtype) for _ in range(function.count)]
    if form == "and numbers":
        return [given[0], *(x[:1].reshape(()) for x in given[1:])]
    return [np.repeat(x, 2)[::2] for x in given] if form == "strided" else given


def case(function: Function, size: int, form: str, implementation: str) -> Case:
    """Return a case whose calls say how much processor time one took."""
    given, out = operands(function, size, form), np.empty(size, function.dtype)
    repeat = max(ELEMENTS // size, 1)

    def called() -> Callable[..., Any]:
        if implementation == OURS:
            return sl.ufunc(function.ours, dtypes=[function.dtype], name="benchmarked")
        if implementation == PEER:
            from numba import vectorize

            kinds = ", ".join([function.dtype] * function.count)
            return vectorize([f"{function.dtype}({kinds})"])(function.numba)
        return lambda *args: np.copyto(out, function.numpy(*args[:-1]))

    def prepare() -> Callable[[], float]:
        call = called()
        call(*given, out)

        def timed() -> float:
            start = process_time()
            for _ in range(repeat):
                call(*given, out)
            return (process_time() - start) / repeat

        return timed

    def check() -> bool:
        expected = function.numpy(*(x.astype("float64") if x.dtype == "float32" else x
                                    for x in given))  # fmt: skip
        return bool(np.allclose(out, expected, rtol=1e-4, atol=1e-5))

    return Case(f"{function.name} {size} {form}", implementation, prepare, check)


def cases(sizes: Sequence[int] = SIZES) -> Iterator[Case]:
    """Yield the cases of each function, size and form."""
    for function in FUNCTIONS:
        for size in sizes:
            for form in FORMS:
                if form != "and numbers" or function.count > 1:
                    for implementation in (OURS, PEER, *(["numpy"] * (form == FORMS[0]))):
                        yield case(function, size, form, implementation)


def _seconds(rows: Sequence[Row], implementation: str) -> float | None:
    return next((r.seconds for r in rows if r.case.implementation == implementation), None)


def of_numba(row: Row, rows: Sequence[Row]) -> str:
    """Return the time of numba's ufunc over that of the row."""
    peer = _seconds(rows, PEER)
    return "" if peer is None else f"{peer / row.seconds:.2f}"


def summary(rows: Sequence[Row]) -> str:
    """Return the geometric means of the ratios, by the form of the operands."""
    ratios: dict[str, list[float]] = {form: [] for form in FORMS}
    for work, members in groupby(rows, lambda r: r.case.work):
        each = [*members]
        ours, peer = _seconds(each, OURS), _seconds(each, PEER)
        if ours and peer:
            ratios[next(f for f in FORMS if work.endswith(f))].append(peer / ours)
    return "\n".join(
        f"numba's time over ours, {form}: {math.exp(sum(map(math.log, r)) / len(r)):.2f} in the "
        f"geometric mean, {min(r):.2f} at least"
        for form, r in ratios.items() if r
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(__doc__ or "", cases(), [Column("of numba", of_numba)], summary=summary))
