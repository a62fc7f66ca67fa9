"""Lesson 10: see a schedule: its order, its storage, the requests of its warps, its bounds.

We draw a ladder of matrix products and a ladder of blurs, each small enough to see every element.
`--to FOLDER` says where the pictures go. `--measure` also profiles two blurs, times lesson 2's
ladder below the ceilings of this machine, and draws a search of a minute.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.errors import MissingExtraError, RaceError
from schedlang.target import Cache

N, HEIGHT, WIDTH = 64, 12, 14
ROWS, DEPTH = 16, 4

A = sl.placeholder((N, N), name="A")
B = sl.placeholder((N, N), name="B")
k = sl.reduce_axis(N, name="k")
C = sl.compute((N, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")

image = sl.placeholder((HEIGHT + 2, WIDTH + 2), name="image")
across = sl.compute(
    (HEIGHT + 2, WIDTH),
    lambda y, x: (image[y, x] + image[y, x + 1] + image[y, x + 2]) / 3,
    name="across",
)
blurred = sl.compute(
    (HEIGHT, WIDTH),
    lambda y, x: (across[y, x] + across[y + 1, x] + across[y + 2, x]) / 3,
    name="blurred",
)


def product(tiled: bool = False, vectorized: bool = False) -> sl.Schedule:
    """Schedule the product: in three loops, in tiles, and in tiles with vectors."""
    s = sl.schedule(C)
    if tiled:
        io, jo, ii, ji = s[C].tile(*s[C].op.axis, ROWS, ROWS)
        ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=DEPTH)
        s[C].reorder(io, jo, ko, ii, ki, ji)
        if vectorized:
            s[C].vectorize(ji)
            s[C].parallel(io)
    return s


def blur(where: str) -> sl.Schedule:
    """Schedule the blur, with its first pass at one of four places."""
    s = sl.schedule(blurred)
    y = s[blurred].op.axis[0]
    if where == "inline":
        s[across].compute_inline()
    elif where == "strips":
        strip, y = s[blurred].split(y, factor=4)
        s[across].compute_at(s[blurred], strip)
    elif where == "sliding window":
        s[across].compute_at(s[blurred], y)
        s[across].store_root()
    return s


def on_gpu(along: str) -> sl.Schedule:
    """Compute one element per thread; the threads of a warp follow each other along an axis."""
    s = sl.schedule(C)
    i, j = s[C].op.axis
    if along == "columns":
        i, j = j, i
    bi, ti = s[C].split(i, factor=8)
    bj, tj = s[C].split(j, factor=32)
    s[C].reorder(bi, bj, ti, tj)
    for axis, name in zip((bi, bj, ti, tj), ("blockIdx.y", "blockIdx.x", "threadIdx.y",
                                             "threadIdx.x")):  # fmt: skip
        s[C].bind(axis, name)
    return s


def transposed(padding: bool) -> sl.Schedule:
    """Transpose through shared memory, whose rows may be padded by one element."""
    T = sl.compute((N, N), lambda i, j: A[j, i], name="T")
    s = sl.schedule(T)
    tile = s.cache_read(A, "shared", [T])
    bi, bj, i, j = s[T].tile(*s[T].op.axis, 32, 32)
    ty, i = s[T].split(i, nparts=8)
    s[T].reorder(bi, bj, ty, j, i)
    names = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    for axis, name in zip((bi, bj, ty, j), names):
        s[T].bind(axis, name)
    s[tile].compute_at(s[T], bj)
    row, column = s[tile].op.axis
    y, _ = s[tile].split(row, nparts=8)
    s[tile].bind(y, "threadIdx.y")
    s[tile].bind(column, "threadIdx.x")
    if padding:
        s[tile].storage_align(s[tile].op.axis[0], 32, 1)
    return s


def race() -> sl.plot.Picture:
    """Return the race of a kernel that reverses blocks of 32 elements without its barrier."""
    V = sl.placeholder((64,), name="V")
    R = sl.compute((64,), lambda i: V[63 - i], name="R")
    s = sl.schedule(R)
    tile = s.cache_read(V, "shared", [R])
    block, thread = s[R].split(R.op.axis[0], 32)
    s[R].bind(block, "blockIdx.x")
    s[R].bind(thread, "threadIdx.x")
    s[tile].compute_at(s[R], block)
    s[tile].bind(tile.op.axis[0], "threadIdx.x")
    kernel = sl.build(s, target="cuda-emulator", barriers=False)
    try:
        kernel.check(np.ones(64, "float32"))
    except RaceError as error:
        return sl.plot.race(error)
    raise AssertionError("without its barrier the kernel has a race")


def profile() -> sl.plot.Picture:
    """Return the times of a large blur, whose strips are shared out well or badly."""
    rows, columns = 1080, 1920
    picture = sl.placeholder((rows + 2, columns), name="picture")
    roots = sl.compute((rows + 2, columns), lambda y, x: sl.sqrt(picture[y, x]), name="roots")
    sums = sl.compute(
        (rows, columns), lambda y, x: roots[y, x] + roots[y + 1, x] + roots[y + 2, x], name="sums"
    )
    profiles = {}
    for strips in (3, 30):
        s = sl.schedule(sums)
        strip, _ = s[sums].split(sums.op.axis[0], nparts=strips)
        s[roots].compute_at(s[sums], strip)
        for tensor in (roots, sums):
            s[tensor].vectorize(s[tensor].split(tensor.op.axis[1], factor=16)[1])
        s[sums].parallel(strip)
        f = sl.build(s)
        ones = np.ones((rows + 2, columns), "float32")
        profiles[f"{strips} strips"] = f.profile(ones, repeat=200)
    return sl.plot.profile(profiles)


def pictures() -> dict[str, sl.plot.Picture]:
    """Return the pictures that need no measurement, by name."""
    ladder = {
        "three loops": product(), "tiled": product(True), "vectorized": product(True, True)
    }  # fmt: skip
    placements = {name: blur(name) for name in ("root", "inline", "strips", "sliding window")}
    strips = {name: placements[name] for name in ("root", "strips", "sliding window")}
    threads = {"along rows": on_gpu("rows"), "along columns": on_gpu("columns")}
    banks = {"plain": transposed(False), "padded": transposed(True)}
    return {
        "order-matmul": sl.plot.iteration_order(ladder),
        "order-operands": sl.plot.iteration_order(
            {name: ladder[name] for name in ("three loops", "tiled")}, [A, B, C]
        ),
        "order-blur": sl.plot.iteration_order(strips, [across, blurred], common=True),
        "placement": sl.plot.placement(placements),
        "memory": memory(),
        "stages": sl.plot.stages(placements["strips"]),
        "coalescing": sl.plot.coalescing(threads),
        "banks": sl.plot.banks(banks),
        "threads": sl.plot.threads(threads),
        "race": race(),
    }


def memory() -> sl.plot.Picture:
    """Return the accesses of a transpose, in rows and in tiles, with caches of 1 and 4 KiB."""
    M = sl.placeholder((48, 48), name="M")
    T = sl.compute((48, 48), lambda i, j: M[j, i], name="T")
    rows, tiles = sl.schedule(T), sl.schedule(T)
    tiles[T].tile(*T.op.axis, 8, 8)
    kernels = {"rows": sl.build(rows), "tiles of 8 by 8": sl.build(tiles)}
    caches = (Cache(1024, 4), Cache(4096, 8))
    return sl.plot.memory(kernels, np.ones((48, 48), "float32"), caches=caches)


def measured() -> dict[str, sl.plot.Picture]:
    """Return the profiles, the roofline of lesson 2's ladder, and a search for a schedule."""
    lesson = import_module("02_matmul_ladder")
    rng = np.random.default_rng(0)
    a, b = (rng.random((lesson.N, lesson.N), dtype=np.float32) for _ in range(2))
    steps = (lesson.naive, lesson.tiled, lesson.vectorized, lesson.packed, lesson.parallel)
    times = {step.__name__: sl.evaluate(sl.build(step()), a, b) for step in steps}
    search = sl.autotune(lesson.C, trials=48)
    return {
        "profile": profile(),
        "roofline": sl.plot.roofline(times),
        "search": sl.plot.search(search),
    }


def save(picture: Any, path: Path) -> None:
    """Write a picture; one with many edges gets a palette of 256 colours, for a small file."""
    from PIL import Image

    picture.save(path)
    if path.stat().st_size > 70_000:
        with Image.open(path) as full:
            small = full.convert("RGB").quantize(256, kmeans=1, dither=Image.Dither.NONE)
        small.save(path, optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", metavar="FOLDER", default=".", help="where the pictures go")
    parser.add_argument("--measure", action="store_true", help="time kernels, and search")
    options = parser.parse_args()
    folder = Path(options.to)
    folder.mkdir(parents=True, exist_ok=True)
    print(blur("strips"))
    drawn = pictures()
    if options.measure:
        drawn |= measured()
    try:
        for name, picture in drawn.items():
            save(picture, folder / f"pictures-{name}.png")
            print(f"\n{name}: {picture.caption}")
        drawn["order-operands"].save(folder / "pictures-order.gif")
        drawn["order-operands"].save(folder / "pictures-order.html")
    except MissingExtraError as error:
        raise SystemExit(str(error)) from None
    # what the pictures show, as numbers
    root, inline, strips, window = drawn["placement"].data
    assert root.computed == window.computed == strips.distinct == (HEIGHT + 2) * WIDTH
    assert strips.computed == 3 * 6 * WIDTH and inline.computed == 3 * HEIGHT * WIDTH
    print(f"\nThe pictures are in {folder.resolve()}; pictures-order.html plays in a browser.")


if __name__ == "__main__":
    main()

# Exercise: draw placement() for strips of 2 and of 6 lines. How many of the lines of across are
# computed twice? Then store the window at a strip instead of at root: what does it keep?
