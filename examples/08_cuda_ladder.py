"""Lesson 8: optimize a matrix product for a GPU in nine steps, on a machine without a GPU.

The steps are naive, shared tiles, a register tile, 16-byte loads, double buffering, swizzled tiles,
asynchronous copies, and for float16 matrix units, whose loads the last step swizzles, too. The
lesson runs each schedule on an emulator, prints the code of a thread, and counts the memory
requests of all warps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import schedlang as sl

N = 64
TILE, ROWS, DEPTH = 32, 4, 8

A = sl.placeholder((N, N), name="A")
B = sl.placeholder((N, N), name="B")
k = sl.reduce_axis(N, name="k")
C = sl.compute((N, N), lambda i, j: sl.sum(A[i, k] * B[k, j], axis=k), name="C")

# The same product of float16 operands: matrix units multiply these, and add in float32.
X = sl.placeholder((N, N), "float16", name="X")
Y = sl.placeholder((N, N), "float16", name="Y")


def product(i: Any, j: Any) -> sl.Expr:
    return sl.sum(X[i, k].astype("float32") * Y[k, j].astype("float32"), axis=k)


Z = sl.compute((N, N), product, name="Z")


def naive() -> sl.Schedule:
    """Compute one element per thread, from a row of A and a column of B in global memory."""
    s = sl.schedule(C)
    by, bx, y, x = s[C].tile(*s[C].op.axis, 8, 32)
    bind(s, by, bx, y, x)
    return s


def shared_tiles() -> sl.Schedule:
    """Load a tile of A and of B into shared memory, with all threads of a block together."""
    s = sl.schedule(C)
    tiles = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    by, bx, y, x = s[C].tile(*s[C].op.axis, 8, 32)
    # Split k, and load the tiles for DEPTH of its iterations at a time.
    (depth,) = s[C].op.reduce_axis
    outer, inner = s[C].split(depth, DEPTH)
    s[C].reorder(by, bx, y, x, outer, inner)
    bind(s, by, bx, y, x)
    for tile in tiles:
        s[tile].compute_at(s[C], outer)
        fetch(s, tile, 8, 32)
    return s


def register_tile(lanes: int = 1, copies: int = 1, swizzled: bool = False) -> sl.Schedule:
    """Compute 4 by 4 elements per thread in registers: 8 shared loads serve 16 products."""
    s = sl.schedule(C)
    tiles = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    # Local buffers of a thread live in its registers: its sums, and the elements that they read.
    sums = s.cache_write(C, "local")
    rows, columns = (s.cache_read(tile, "local", [sums]) for tile in tiles)
    by, bx, y, x = s[C].tile(*s[C].op.axis, TILE, TILE)
    ty, y = s[C].split(y, ROWS)
    tx, x = s[C].split(x, ROWS)
    s[C].reorder(by, bx, ty, tx, y, x)
    bind(s, by, bx, ty, tx)
    if lanes > 1:
        s[C].vectorize(x)
    # Sum over k inside each thread, DEPTH iterations per shared tile, with the 4 by 4 unrolled.
    s[sums].compute_at(s[C], tx)
    i, j = s[sums].op.axis
    outer, inner = s[sums].split(s[sums].op.reduce_axis[0], DEPTH)
    s[sums].reorder(outer, inner, i, j)
    s[sums].unroll(i)
    s[sums].unroll(j)
    for part in (rows, columns):
        s[part].compute_at(s[sums], inner)
    if lanes > 1:
        # Transpose the tile of A in shared memory, so that a thread loads 4 of its rows at once.
        if swizzled:
            # Eight columns of four rows each: the exclusive or with k sends them to other banks.
            s[tiles[0]].transform_layout(lambda i, k: (k, i // 32, i // 4 % 8 ^ k % 8, i % 4))
        else:
            s[tiles[0]].transform_layout(lambda i, k: (k, i))
        s[rows].vectorize(s[rows].op.axis[0])
        s[columns].vectorize(s[columns].op.axis[1])
    for tile in tiles:
        s[tile].compute_at(s[sums], outer)
        # An asynchronous copy keeps what is adjacent: the transposed tile gets element by element.
        adjacent = copies <= 2 or tile is not tiles[0]
        fetch(s, tile, TILE // ROWS, TILE // ROWS, lanes if adjacent else 1)
        if copies > 2:
            s[tile].pipeline(copies)
        elif copies > 1:
            s[tile].double_buffer()
    return s


def vector_loads() -> sl.Schedule:
    """Access 16 bytes at a time wherever a thread reads or writes 4 contiguous elements."""
    return register_tile(lanes=4)


def double_buffer() -> sl.Schedule:
    """Load the next tile while this one is used: one barrier per tile instead of two."""
    return register_tile(lanes=4, copies=2)


def swizzle() -> sl.Schedule:
    """Move the elements of the transposed tile to other banks: threads that write meet fewer."""
    return register_tile(lanes=4, copies=2, swizzled=True)


def pipeline() -> sl.Schedule:
    """Let the GPU copy two tiles ahead by itself, past the registers (from sm_80 on)."""
    return register_tile(lanes=4, copies=3, swizzled=True)


def matrix_units(swizzled: bool = False) -> sl.Schedule:
    """Multiply 16 by 8 by 16 elements by one instruction of a warp, which holds the tiles."""
    s = sl.schedule(Z)
    sums = s.cache_write(Z, "fragment")
    tiles = [s.cache_read(T, "shared", [sums]) for T in (X, Y)]
    rows, columns = (s.cache_read(tile, "fragment", [sums]) for tile in tiles)
    # A block of two warps computes 32 by 32 elements, and each warp 16 of the rows.
    by, bx, y, x = s[Z].tile(*s[Z].op.axis, TILE, TILE)
    warp, y = s[Z].split(y, 16)
    s[Z].reorder(by, bx, warp, y, x)
    for axis, name in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (warp, "threadIdx.y")):
        s[Z].bind(axis, name)
    s[sums].compute_at(s[Z], warp)
    outer, inner = s[sums].split(s[sums].op.reduce_axis[0], TILE)
    step, inner = s[sums].split(inner, 16)
    io, jo, i, j = s[sums].tile(*s[sums].op.axis, 16, 8)
    s[sums].reorder(outer, step, io, jo, i, j, inner)
    s[sums].unroll(jo)
    for tile in tiles:
        s[tile].compute_at(s[sums], outer)
        # The 32 threads of threadIdx.x are the warp, and each copies 8 elements of 16 bits.
        fetch(s, tile, 2, 32, lanes=8)
        if swizzled:
            s[tile].transform_layout(lambda i, j: (i, j // 32, j // 8 % 4 ^ i // 2 % 4, j % 8))
        s[tile].pipeline(3)
    for part in (rows, columns):
        s[part].compute_at(s[sums], step)
    # One ldmatrix loads 16 by 16 elements from shared memory.
    s[rows].tensorize(s[rows].op.axis[0], sl.instructions.ldmatrix_x4_f16)
    _, _, line, _ = s[columns].tile(*s[columns].op.axis, 16, 16)
    s[columns].tensorize(line, sl.instructions.ldmatrix_x4_trans_f16)
    s[sums].tensorize(i, sl.instructions.mma_f16)
    return s


def swizzled_units() -> sl.Schedule:
    """Move pieces of 16 bytes, so that the 8 rows that ldmatrix loads at once have all banks."""
    return matrix_units(swizzled=True)


def bind(s: sl.Schedule, by: Any, bx: Any, ty: Any, tx: Any) -> None:
    """Bind the axes of ``C`` to the blocks of the grid and the threads of a block."""
    names = ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    for axis, name in zip((by, bx, ty, tx), names):
        s[C].bind(axis, name)


def fetch(s: sl.Schedule, tile: Any, height: int, width: int, lanes: int = 1) -> None:
    """Divide the elements of a tile among ``height`` by ``width`` threads."""
    element = s[tile].fuse(*s[tile].op.axis)
    if lanes > 1:
        element, lane = s[tile].split(element, lanes)
        s[tile].vectorize(lane)
    element, x = s[tile].split(element, width)
    element, y = s[tile].split(element, height)
    s[tile].bind(y, "threadIdx.y")
    s[tile].bind(x, "threadIdx.x")


def main() -> None:
    rng = np.random.default_rng(0)
    floats = [rng.random((N, N), dtype="float32") for _ in range(2)]
    halves = [x.astype("float16") for x in floats]
    variants = [naive, shared_tiles, register_tile, vector_loads, double_buffer]
    variants += [swizzle, pipeline, matrix_units, swizzled_units]
    lines = []
    for variant in variants:
        s = variant()
        by_units = variant in (matrix_units, swizzled_units)
        args, (a, b) = ([X, Y, Z], halves) if by_units else ([A, B, C], floats)
        f = sl.build(s, args, target="cuda-emulator")
        expected = a.astype("float32") @ b.astype("float32")
        np.testing.assert_allclose(f(a, b), expected, rtol=1e-5)
        np.testing.assert_allclose(f.check(a, b), expected, rtol=1e-5)
        counters = f.counters(a, b)[args[2].name]
        print(f"\n{variant.__name__}: {variant.__doc__}\n\n{s}\n\n{f.program}")
        lines.append(
            f"{variant.__name__:15s}{counters.global_loads:9,}{counters.global_bytes / 1024:9,.0f}"
            f"{counters.shared_loads + counters.shared_stores:9,}{counters.bank_conflicts:10,}"
            f"{counters.barriers:10,}{counters.matrix_products:10,}"
        )
    print("\nThe CUDA source of the last schedule:\n")
    print(sl.build(s, args, target="cuda").source)
    print("schedule         global      KiB   shared      bank  barriers  products")
    print("                  loads    moved requests conflicts            of tiles")
    print("\n".join(lines))


if __name__ == "__main__":
    main()

# Exercise: storage_align(axis, 32, 1) pads the rows of a shared tile; storage_align(axis, 32, 4)
# pads them so that each row still starts at 16 bytes. Which schedules have bank conflicts that one
# of the two removes? On which axis of which tile?
