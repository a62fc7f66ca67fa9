"""Lesson 2: optimize a matrix product in five steps: naive, tiled, vectorized, packed, parallel.

We write five schedules of one product. For each, the lesson prints the loop nest and the time,
and compares the time with NumPy's. `--plot FILE` draws the speeds.
"""

from __future__ import annotations

import argparse
from typing import Any

import numba
import numpy as np
from lesson import milliseconds

import schedlang as sl

N = 512
WIDTH = sl.Target().vector_width("float32")
ROWS, COLUMNS = (12 if sl.Target().vector_registers >= 32 else 6), 2 * WIDTH

A = sl.placeholder((N, N), name="A")
B = sl.placeholder((N, N), name="B")
k = sl.reduce_axis(N, name="k")
C = sl.compute((N, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")

# The same product, with B packed: P holds B in panels of COLUMNS columns, each one contiguous.
P = sl.compute((N // COLUMNS, N, COLUMNS), lambda p, k, j: B[k, p * COLUMNS + j], name="P")
D = sl.compute(
    (N, N), lambda i, j: sl.sum(A[i, k] * P[j // COLUMNS, k, j % COLUMNS], axis=k), name="D"
)


def naive() -> sl.Schedule:
    """Run the textbook's three loops: each iteration of k reads another row of B."""
    return sl.schedule(C)


def tiled() -> sl.Schedule:
    """Tile the loops 32 by 32, so that what a tile reads of A and B stays in the cache."""
    s = sl.schedule(C)
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, 32, 32)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=4)
    s[C].reorder(io, jo, ko, ii, ki, ji)
    return s


def vectorized() -> sl.Schedule:
    """Vectorize the columns of a tile."""
    s = tiled()
    s[C].vectorize(s[C].leaf_axes[-1])
    return s


def packed() -> sl.Schedule:
    """Keep the sums in vector registers over all of k, and read B from contiguous panels."""
    s = sl.schedule(D)
    # Sum a tile of D in a local buffer, which stays in registers, and copy it to D at the end.
    tile = s.cache_write(D, "local")
    # Split D into blocks of 64 rows, strips of ROWS rows, and panels of COLUMNS columns.
    i, j = s[D].op.axis
    block, row = s[D].split(i, factor=64, tail="cut")
    strip, row = s[D].split(row, factor=ROWS, tail="cut")
    panel, lane = s[D].split(j, factor=COLUMNS)
    s[D].reorder(block, panel, strip, row, lane)
    # Compute a tile for each strip. The reduction is its outer loop, and its rows are unrolled.
    s[tile].compute_at(s[D], strip)
    (depth,) = s[tile].op.reduce_axis
    y, x = s[tile].op.axis
    s[tile].reorder(depth, y, x)
    s[tile].unroll(y)
    s[tile].vectorize(x)
    s[D].vectorize(lane)
    s[P].vectorize(s[P].op.axis[2])
    return s


def parallel() -> sl.Schedule:
    """Run the blocks of rows in parallel; nothing else changes."""
    s = packed()
    s[D].parallel(s[D].leaf_axes[0])
    s[P].parallel(s[P].op.axis[0])
    return s


def plot(table: list[tuple[str, float]], numpys: float, path: str) -> None:
    """Draw a bar for each schedule's speed in GFLOP/s, and a line for NumPy's."""
    from matplotlib.figure import Figure

    steps = {
        "naive": "three loops, as defined",
        "tiled": "+ tile, reorder",
        "vectorized": "+ vectorize",
        "packed": "+ pack B, sums in registers",
        "parallel": "+ parallel",
    }
    names = [name for name, _ in table]
    threads = numba.config.NUMBA_NUM_THREADS
    speeds = [2e-6 * N**3 / time for _, time in table]
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    axes = figure.add_subplot()
    bars = axes.barh([steps[name] for name in names], speeds, color="#0072b2", height=0.66)
    axes.bar_label(bars, [f"{speed:,.3g}" for speed in speeds], padding=4)
    axes.axvline(2e-6 * N**3 / numpys, color="#d55e00", linestyle="--")
    axes.annotate(
        "NumPy", (2e-6 * N**3 / numpys, 0.5), xytext=(-6, 0), ha="right", va="center",
        color="#d55e00", textcoords="offset points",
    )  # fmt: skip
    axes.set_xlim(0, 1.12 * max(speeds))
    axes.invert_yaxis()
    axes.set_xlabel(f"GFLOP/s, {N} x {N} x {N} float32 product on {threads} threads")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", metavar="FILE", help="draw the speeds into FILE (.png, .svg)")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    a, b = (rng.random((N, N), dtype=np.float32) for _ in range(2))
    expected, out = a @ b, np.empty((N, N), np.float32)
    numpys = milliseconds(np.matmul, a, b, expected)
    table: list[tuple[str, float]] = []
    for variant in (naive, tiled, vectorized, packed, parallel):
        s = variant()
        print(f"\n{variant.__name__}: {variant.__doc__}\n\n{s}\n")
        f: Any = sl.build(s)
        np.testing.assert_allclose(f(a, b, out), expected, rtol=1e-4)
        table.append((variant.__name__, milliseconds(f, a, b, out)))
    print(f"{N} x {N} x {N}, float32. NumPy takes {numpys:.2f} ms on all its threads.\n")
    print(f"{'schedule':<12}{'ms':>10}{'NumPy / this':>16}")
    for name, time in table:
        print(f"{name:<12}{time:>10.2f}{numpys / time:>16.2f}")
    if options.plot:
        plot(table, numpys, options.plot)


if __name__ == "__main__":
    main()

# Exercise: in packed(), double the rows of the tile. The nest looks as good as before, but the
# kernel is slower. Count the vectors that the tile needs and the registers that the machine has.
