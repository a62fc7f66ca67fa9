"""``python -m schedlang demo``: a matrix product, from its definition to a timing against NumPy."""

from __future__ import annotations

import re
import statistics
import sys
from collections.abc import Callable
from math import inf
from numbers import Real
from textwrap import indent
from time import perf_counter, sleep
from typing import Any, TextIO

import numpy as np

import schedlang as sl
from schedlang.errors import ComputeError
from schedlang.host import is_whole
from schedlang.schedule.schedule import Schedule

DEFINITION = """\
A = sl.placeholder(({n}, {n}), name="A")
B = sl.placeholder(({n}, {n}), name="B")
k = sl.reduce_axis({n}, name="k")
P = sl.compute(({panels}, {n}, {lanes}), lambda p, k, j: {element}, name="P")
C = sl.compute(
    ({n}, {n}), lambda i, j: sl.sum(A[i, k] * P[j//{lanes}, k, j%{lanes}], axis=k), name="C"
)
"""

PROGRAM = """\
A = sl.placeholder(({n}, {n}), name="A")
B = sl.placeholder(({n}, {n}), name="B")
k = sl.reduce_axis({n}, name="k")
C = sl.compute(({n}, {n}), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
s = sl.schedule(C)"""

TILES = """\
io, jo, ii, ji = s[C].tile(*C.op.axis, 32, 32)
s[C].reorder(io, jo, k, ii, ji)"""

WHERE_TO_GO = """
Next: python -m schedlang docs      the pages, with a first kernel of your own
      python -m schedlang course    eleven lessons with exercises, as notebooks
      python -m schedlang demo --all"""

INDEX = re.compile(r"\[[^\[\]]*\]")
REST = 0.12


def matmul(n: int, lanes: int) -> tuple[Any, Any, Any, Any]:
    """Return ``C = A @ B``, with ``P`` holding ``B`` in panels of ``lanes`` columns."""
    A = sl.placeholder((n, n), name="A")
    B = sl.placeholder((n, n), name="B")
    r = sl.reduce_axis(n, name="k")

    def element(p: Any, k: Any, j: Any) -> Any:
        column = p * lanes + j
        return B[k, column] if n % lanes == 0 else sl.if_then_else(column < n, B[k, column], 0)

    P = sl.compute((-(-n // lanes), n, lanes), element, name="P")
    C = sl.compute(
        (n, n), lambda i, j: sl.sum(A[i, r] * P[j // lanes, r, j % lanes], axis=r), name="C"
    )
    return A, B, P, C


def tile_sizes(target: sl.Target | None = None) -> tuple[int, int]:
    """Return the rows and columns of the register tile of sums."""
    host = target or sl.Target()
    # where n is a power of two, 12 rows of A would take all ways of the same sets of a cache
    return 6, (4 if host.vector_registers >= 32 else 2) * host.vector_width("float32")


def matmul_schedule(P: Any, C: Any, rows: int, lanes: int) -> Schedule:
    """Return the schedule of the matrix product.

    It keeps a tile of ``rows`` by ``lanes`` sums in registers. Each core packs its groups of panels
    of ``B``.
    """
    s = sl.schedule(C)
    CL = s.cache_write(C, "local")
    i, j = s[C].op.axis
    column, lane = s[C].split(j, factor=lanes)
    group, panel = s[C].split(column, factor=panels_per_group(*P.shape))
    strip, row = s[C].split(i, factor=rows, tail="cut")
    s[C].reorder(group, strip, panel, row, lane)
    s[CL].compute_at(s[C], panel)
    (k,) = s[CL].op.reduce_axis
    y, x = s[CL].op.axis
    s[CL].reorder(k, y, x)
    s[CL].unroll(y)
    s[CL].vectorize(x)
    s[CL].prefetch(P, k, 16)
    s[C].vectorize(lane)
    s[C].parallel(group)
    s[P].compute_at(s[C], group)
    p, k, column = s[P].op.axis
    s[P].reorder(k, p, column)
    s[P].vectorize(column)
    return s


def panels_per_group(panels: int, depth: int, lanes: int, target: sl.Target | None = None) -> int:
    """Return the number of panels in a group; the number of groups is even.

    A group fits half of a core's second-level cache, where it stays for all rows of A.
    """
    fitting = (target or sl.Target()).caches[:2][-1].size // 2 // (4 * depth * lanes)
    sizes = (n for n in range(min(fitting, panels // 2), 1, -1) if panels % (2 * n) == 0)
    return next(sizes, 1)


def run(
    n: int = 1024, seconds: float = 2.0, only_print: bool = False, out: TextIO | None = None,
    every_step: bool = False,
) -> int:  # fmt: skip
    """Print the program and three nests; unless ``only_print`` is set, build, check and time it.

    Return the exit status. ``n`` is the number of rows of the matrices. ``every_step`` prints each
    step of the schedule with its change of the nest instead.

    >>> run(0)
    Traceback (most recent call last):
        ...
    schedlang.errors.ComputeError: demo.run(n=0): the matrices have n rows; give 1 or more
    """
    if not is_whole(n) or n < 1:
        raise ComputeError(f"demo.run(n={n!r}): the matrices have n rows; give 1 or more")
    if not isinstance(seconds, Real) or not 0 <= seconds < inf:
        raise ComputeError(
            f"demo.run(seconds={seconds!r}): the time of the measurement must be a finite number, "
            "0 or more; 0 measures five times"
        )
    n = int(n)
    file = out or sys.stdout

    def say(text: str = "") -> None:
        print(text, file=file)

    rows, lanes = tile_sizes()
    A, B, P, C = matmul(n, lanes)
    s = matmul_schedule(P, C, rows, lanes)
    if every_step:
        _say_steps(s, n, lanes, say)
    else:
        _say_three_nests(s, n, rows, lanes, say)
    if only_print:
        return 0
    return _measure(s, [A, B, C], n, seconds, say)


def _say_three_nests(s: Schedule, n: int, rows: int, lanes: int, say: Callable[..., None]) -> None:
    """Print the program, its plain and its tiled loops, and a summary of the final ones."""
    A, B = sl.placeholder((n, n), name="A"), sl.placeholder((n, n), name="B")
    k = sl.reduce_axis(n, name="k")
    C = sl.compute((n, n), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")
    plain, tiled = sl.schedule(C), sl.schedule(C)
    i, j = C.op.axis
    io, jo, ii, ji = tiled[C].tile(i, j, 32, 32)
    tiled[C].reorder(io, jo, k, ii, ji)
    say(f"What to compute: a product of matrices of {n} by {n}.\n")
    say(_inset(PROGRAM.format(n=n)))
    say("\n1. The loops of this program, as they stand:\n")
    say(_inset(loops(plain)))
    say("\n2. Two steps tile them, so that a piece of B is read again while the cache has it:\n")
    say(_inset(TILES))
    say("\n" + _inset(loops(tiled)))
    say(
        f"\n3. A schedule of {len(s.steps)} steps also packs B into panels of {lanes} columns, "
        f"keeps {rows} by {lanes}\n   sums in registers, and uses vectors and all cores. In short "
        "(--all shows each step, and the whole nest):\n"
    )
    say(_inset(summary(loops(s))) + "\n")


def loops(s: Schedule) -> str:
    """Return the printed nest of a schedule below its signature."""
    return str(s).partition("\n\n")[2].strip("\n")


def summary(nest: str) -> str:
    """Return a printed nest without the indices of elements and the loops for the last rows.

    >>> print(summary("for i in 0..2:\\n  P: float32[8]   global\\n  C[i] = P[i*2]"))
    for i in 0..2:
      P: float32[8]   global
      C[..] = P[..]
    """
    lines = [
        INDEX.sub("[..]", line) if " = " in line or " += " in line or "prefetch " in line else line
        for line in nest.split("\n")
    ]
    strips = next((at for at, line in enumerate(lines) if line.startswith("  for i.outer ")), None)
    after = range(len(lines)) if strips is None else range(strips + 1, len(lines))
    rest = next((at for at in after if strips is not None and lines[at][:3].strip()), None)
    if rest is None:
        return "\n".join(lines)
    return "\n".join([*lines[:rest], "  # the same loops for the last rows, which are fewer"])


def _inset(text: str) -> str:
    return indent(text, "    ")


def _say_steps(s: Schedule, n: int, lanes: int, say: Callable[..., None]) -> None:
    """Print the definition, each step with the change that it makes, and the whole nest."""
    say("The computation: a matrix product, with B packed into panels of a few columns first.\n")
    element = f"B[k, p*{lanes} + j]"
    if n % lanes:
        element = f"sl.if_then_else(p*{lanes} + j < {n}, {element}, 0)"
    say(DEFINITION.format(n=n, lanes=lanes, panels=-(-n // lanes), element=element))
    say("s = sl.schedule(C)\n\nIts loop nest, before any step:\n")
    say(f"{s.at(0)}\n\nNow the schedule, step by step, with the changes of the nest:\n")
    before = s.at(0).as_python().splitlines()
    for count in range(1, len(s.steps) + 1):
        after = s.at(count).as_python().splitlines()
        for line in after[len(before) :]:
            say(f">>> {line}")
        before = after
        changes = s.diff(count).splitlines()[2:]
        say("\n".join(f"    {c}" for c in changes if not c.startswith("@@")) + "\n")
    say(f"The whole nest:\n\n{s}\n")


def _measure(s: Schedule, args: list[Any], n: int, seconds: float, say: Callable[..., None]) -> int:
    f = sl.build(s, args)
    say(f"The source that runs; open it:\n    {f.path}")
    start = perf_counter()
    f.compile()
    say(f"Compiled, or loaded from the cache, in {perf_counter() - start:.1f} s.")
    rng = np.random.default_rng(0)
    a, b = (rng.random((n, n), dtype=np.float32) for _ in range(2))
    ours, theirs = np.empty((n, n), np.float32), np.empty((n, n), np.float32)
    np.matmul(a, b, out=theirs)
    f(a, b, ours)
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)
    say("Checked: equal to NumPy's product within a relative error of 1e-4.")
    mine, numpys = _side_by_side(
        lambda: f(a, b, ours), lambda: np.matmul(a, b, out=theirs), seconds
    )
    for name, times in (("schedlang", mine), ("NumPy", numpys)):
        middle = statistics.median(times)
        runs = f"(median of {len(times)}, best {min(times) * 1e3:.2f})"
        say(f"{name:<10} {middle * 1e3:8.2f} ms {runs} {2 * n**3 / middle * 1e-9:8.1f} GFLOP/s")
    ratio = statistics.median(numpys) / statistics.median(mine)
    say(f"NumPy's time / schedlang's time = {ratio:.2f} (above 1, schedlang is faster)")
    say(WHERE_TO_GO)
    return 0


def _side_by_side(
    one: Callable[[], Any], other: Callable[[], Any], seconds: float
) -> tuple[list[float], list[float]]:
    """Return the times of two callables, called alternately so that other load affects both.

    Threads of a pool keep spinning after a call, OpenBLAS's for about 100 ms, and would slow down
    the other callable. So each turn starts after a longer pause.
    """
    times: tuple[list[float], list[float]] = ([], [])
    end = perf_counter() + seconds
    while perf_counter() < end or len(times[1]) < 5:
        for call, own_times in zip((one, other), times):
            sleep(REST)
            call()
            for _ in range(5):
                start = perf_counter()
                call()
                own_times.append(perf_counter() - start)
    return times
