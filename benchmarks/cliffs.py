"""Compare schedules that a user writes, or that a search finds, with the best one by hand.

    python -m benchmarks.cliffs [--only PATTERN] [--json FILE]

Each row was once many times slower than the schedule by hand, without a warning. ``of hand`` is
the time by hand over the row's own: 1 means equally fast. ``sl.build`` warns of the rows ``as
written``; ``the step named`` is the same schedule after the step that the warning names. Each
search has 40 trials and starts from an empty database. Recurrences and kernels
that people bring are compared with numba's loops and SciPy, which run on one thread; set
``NUMBA_NUM_THREADS=1`` for ours. ``arrays checked once`` is a call of what ``bound`` returns.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks.harness import Case, Column, Row, main
from benchmarks.peers import kernel_loops, recurrence_loops
from benchmarks.works.kernels import Brought, brought
from benchmarks.works.recurrences import Recurrence, recurrences
from schedlang.errors import StrideWarning
from schedlang.ir.nodes import Buffer
from schedlang.runtime.arrays import empty_array

Arrays = tuple["np.ndarray[Any, Any]", ...]
SIZE, GROUP, TRIALS = 4096, 128, 40
SIDE, ROWS = 512, 1024
HAND = "by hand"


def quantized(size: int, form: str = "//") -> sl.Tensor:
    """Declare a product of int8 weights, with a scale for each group, and a vector.

    ``form`` says how to write the group: ``"//"`` for ``k // 128``, ``">>"`` for ``k >> 7``, or
    ``"stage"`` to apply the scales in a stage of its own.
    """
    Q = sl.placeholder((size, size), "int8", name="Q")
    S = sl.placeholder((size, size // GROUP), name="S")
    x, k = sl.placeholder((size,), name="x"), sl.reduce_axis(size, name="k")

    def weight(n: sl.Axis, k: sl.Axis) -> sl.Expr:
        group = k >> GROUP.bit_length() - 1 if form == ">>" else k // GROUP
        return sl.cast(Q[n, k], "float32") * S[n, group]

    if form == "stage":
        W = sl.compute((size, size), weight, name="W")
        return sl.compute((size,), lambda n: sl.sum(W[n, k] * x[k], axis=k), name="R")
    return sl.compute((size,), lambda n: sl.sum(weight(n, k) * x[k], axis=k), name="R")


def row_sums(size: int) -> sl.Tensor:
    A, k = sl.placeholder((size, size), name="A"), sl.reduce_axis(size, name="k")
    return sl.compute((size,), lambda n: sl.sum(A[n, k], axis=k), name="R")


def by_rows(R: sl.Tensor, at: int, target: sl.Target) -> sl.Schedule:
    """Schedule ``R`` as partial sums in two vectors, for four rows at a time.

    The lanes of the partial sums are dimension ``at``.
    """
    s = sl.schedule(R)
    _, lane = s[R].split(R.op.reduce_axis[0], factor=2 * target.vector_width("float32"))
    part = s.rfactor(R, lane, factor_axis=at)
    strip, _ = s[R].split(R.op.axis[0], factor=4)
    s[R].parallel(strip)
    s[part].compute_at(s[R], strip)
    s[part].set_scope("local")
    rows = list(s[part].op.axis)
    lane = rows.pop(at)
    s[part].reorder(*s[part].op.reduce_axis, *rows, lane)
    s[part].unroll(rows[0])
    s[part].vectorize(lane)
    return s


def doubled(size: int) -> sl.Tensor:
    A = sl.placeholder((size, size), name="A")
    return sl.compute((size, size), lambda i, j: A[i, j] * 2, name="R")


def by_lines(R: sl.Tensor, streams: bool, target: sl.Target) -> sl.Schedule:
    """Schedule ``R`` in vectors; with ``streams``, its stores bypass the caches."""
    s = sl.schedule(R)
    i, j = R.op.axis
    s[R].vectorize(s[R].split(j, factor=2 * target.vector_width("float32"))[1])
    s[R].parallel(i)
    if streams:
        s[R].pragma(i, "nontemporal")
    return s


def product(side: int) -> sl.Tensor:
    """Declare A times B transposed: lanes along the columns of C read down a column of B."""
    A, B = (sl.placeholder((side, side), name=name) for name in "AB")
    k = sl.reduce_axis(side, name="k")
    return sl.compute((side, side), lambda i, j: sl.sum(A[i, k] * B[j, k], axis=k), name="C")


def across(C: sl.Tensor, step: int, target: sl.Target) -> sl.Schedule:
    """Schedule ``C`` in tiles of 4 rows, with k unrolled by ``step``.

    With k unrolled, the kernel loads pieces of rows of B and transposes them in registers.
    """
    s = sl.schedule(C)
    (k,) = C.op.reduce_axis
    strip, row = s[C].split(C.op.axis[0], factor=4)
    panel, lane = s[C].split(C.op.axis[1], factor=target.vector_width("float32"))
    steps = s[C].split(k, factor=step) if step > 1 else (k,)
    s[C].reorder(strip, panel, *steps, row, lane)
    s[C].parallel(strip)
    if step > 1:
        s[C].unroll(steps[-1])
    s[C].unroll(row)
    s[C].vectorize(lane)
    return s


def searched(R: sl.Tensor, trials: int) -> sl.Schedule:
    with TemporaryDirectory() as folder:
        return sl.autotune(R, trials=trials, database=Path(folder) / "db", progress=False).schedule


def inputs(R: sl.Tensor) -> Arrays:
    """Return random arrays for the placeholders of ``R``, in calling order."""
    rng, found = np.random.default_rng(0), sl.lower(sl.schedule(R)).args
    made = []
    for arg in found[:-1]:
        assert isinstance(arg, Buffer)
        low, high = (-128, 128) if arg.dtype == "int8" else (-1, 1)
        made.append(rng.uniform(low, high, arg.shape).astype(arg.dtype))
    return tuple(made)


def quantized_result(q: Any, s: Any, x: Any) -> Any:
    return (q * np.repeat(s.astype("float64"), GROUP, axis=1)) @ x


def summed(a: Any) -> Any:
    return a.sum(axis=1, dtype="float64")


def twice(a: Any) -> Any:
    return a * 2


def multiplied(a: Any, b: Any) -> Any:
    return a.astype("float64") @ b.T


def case(
    work: str, implementation: str, R: sl.Tensor, make: Callable[[], sl.Schedule],
    expected: Callable[..., Any],
) -> Case:  # fmt: skip
    """Return a case that compiles the schedule before timing and checks against NumPy."""
    arrays: list[Arrays] = []
    out = empty_array(tuple(int(str(n)) for n in R.shape), R.dtype)

    def prepare() -> Callable[[], object]:
        arrays.append(inputs(R))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StrideWarning)
            f = sl.build(make())
        return lambda: f(*arrays[0], out)

    def check() -> bool:
        want = expected(*arrays[0])
        return bool(np.abs(out - want).max() <= 1e-4 * np.abs(want).max())

    return Case(work, implementation, prepare, check)


def recurrent(work: Recurrence) -> Iterator[Case]:
    """Yield numba's loops for a recurrence, then ours by ``sl.autoschedule``."""
    arrays = work.arrays()
    out = np.empty([int(str(n)) for n in work.result().shape], "float32")
    peer = getattr(recurrence_loops, work.loops)

    def check() -> bool:
        want = work.expected(*arrays)
        return bool(np.abs(out - want).max() <= 1e-4 * np.abs(want).max())

    def loops() -> Callable[[], object]:
        peer(*arrays, out)
        return lambda: peer(*arrays, out)

    def ours() -> Callable[[], object]:
        f = sl.build(sl.autoschedule(work.result()))
        return lambda: f(*arrays, out)

    yield Case(work.name, "numba's loops", loops, check)
    yield Case(work.name, "sl.autoschedule", ours, check)


def beside_peer(work: Brought) -> Iterator[Case]:
    """Yield the peer of a kernel that people bring, then ours by ``sl.autoschedule``."""
    R = work.result()
    out = np.empty([int(str(n)) for n in R.shape], R.dtype)

    def check() -> bool:
        want = work.expected(*work.arrays())
        return bool(np.abs(out - want).max() <= 1e-4 * np.abs(want).max())

    def theirs() -> Callable[[], object]:
        call: Callable[[], object] = getattr(kernel_loops, work.peer)(*work.arrays(), out)
        return call

    def ours(once: bool) -> Callable[[], object]:
        arrays = work.arrays()
        f = sl.build(sl.autoschedule(R))
        if not once:
            return lambda: f(*arrays, out)
        function, given = f.bound(*arrays, out)
        return lambda: function(*given)

    yield Case(work.name, "the peer", theirs, check)
    yield Case(work.name, "sl.autoschedule", partial(ours, False), check)
    yield Case(work.name, "arrays checked once", partial(ours, True), check)


def cases(
    size: int = SIZE, side: int = SIDE, trials: int = TRIALS, rows: int = ROWS,
    sizes: Sequence[int] = (),
) -> Iterator[Case]:  # fmt: skip
    """Yield the cases of each work, the one by hand first."""
    target = sl.Target("cpu")
    forms = {"k // 128": "//", "k >> 7": ">>", "a stage of scales": "stage"}
    for name, form in forms.items():
        work = f"groups of int8, {name}"
        hand, R = quantized(size), quantized(size, form)
        yield case(work, HAND, hand, partial(by_rows, hand, 1, target), quantized_result)
        yield case(work, "a search", R, partial(searched, R, trials), quantized_result)
    R = row_sums(size)
    for name, at in ((HAND, 1), ("lanes in dimension 0", 0)):
        yield case("partial sums of rows", name, R, partial(by_rows, R, at, target), summed)
    for name, streams in ((HAND, True), ("through the caches", False)):
        D = doubled(size)
        yield case("twice a large matrix", name, D, partial(by_lines, D, streams, target), twice)
    yield case("twice a large matrix", "the model", D, partial(sl.autoschedule, D), twice)
    C = product(side)
    for name, step in (("the step named", 16), ("as written", 1)):
        yield case("B read across", name, C, partial(across, C, step, target), multiplied)
    for recurrence in recurrences(rows):
        yield from recurrent(recurrence)
    for kernel in brought(*sizes):
        yield from beside_peer(kernel)


def _of_hand(row: Row, rows: Sequence[Row]) -> str:
    """Return the time of the work's first row over that of ``row``."""
    return f"{rows[0].seconds / row.seconds:.2f}"


if __name__ == "__main__":
    sys.exit(main("Schedules that were once slow", cases(), [Column("of hand", _of_hand)]))
