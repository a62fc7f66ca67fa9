"""Matrix products: shared tiles of both operands, and a register tile of sums in each thread."""

from __future__ import annotations

from typing import Any

import schedlang as sl

# the steps of the sum that a shared tile holds
DEPTH = 16
# blocks of the largest tile that keep every multiprocessor of a large GPU busy
ENOUGH = 128


def register_tile(
    s: sl.Schedule, C: sl.Tensor, A: sl.Tensor, B: sl.Tensor, tile: tuple[int, int],
    each: tuple[int, int] = (8, 8), blocks: tuple[Any, ...] = (), depth: int = DEPTH,
    ahead: bool = True,
) -> None:  # fmt: skip
    """Compute a ``tile`` of ``C`` per block, and ``each`` elements of it per thread.

    A thread has pieces of 4 by 4 elements. Shared memory holds ``depth`` steps of the sum, and
    with ``ahead`` the next ones are loaded while these are added up. ``C`` reads the rows of ``A``
    and the columns of ``B``. ``blocks`` are the axes of ``C`` outside its last two.
    """
    AS, BS = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    CL = s.cache_write(C, "local")
    AL, BL = s.cache_read(AS, "local", [CL]), s.cache_read(BS, "local", [CL])
    *_, y, x = s[C].op.axis
    by, bx, y, x = s[C].tile(y, x, *tile)
    vy, y = s[C].split(y, nparts=each[0] // 4)
    vx, x = s[C].split(x, nparts=each[1] // 4)
    ty, y = s[C].split(y, 4)
    tx, x = s[C].split(x, 4)
    s[C].reorder(*blocks, by, bx, vy, vx, ty, tx, y, x)
    thread = s[C].fuse(ty, tx)
    for axis, name in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (vy, "vthread"), (vx, "vthread"),
                       (thread, "threadIdx.x")):  # fmt: skip
        s[C].bind(axis, name)
    s[C].unroll(y)
    s[C].vectorize(x)
    s[CL].compute_at(s[C], thread)
    *_, y, x = s[CL].op.axis
    k, steps = s[CL].op.reduce_axis[0], A.shape[-1]
    outer, inner = s[CL].split(k, depth)
    s[CL].reorder(outer, inner, y, x)
    for axis in (inner, y, x):
        s[CL].unroll(axis)
    for part in (AL, BL):
        s[part].compute_at(s[CL], inner)
        for axis in s[part].op.axis:
            s[part].unroll(axis)
    for part in (AS, BS):
        s[part].compute_at(s[CL], outer)
        fetch(s, part, tile[0] // each[0] * (tile[1] // each[1]))
        if ahead and steps >= 2 * depth:
            s[part].double_buffer()


def fetch(s: sl.Schedule, tile: sl.Tensor, threads: int, lanes: int = 4) -> None:
    """Load a shared tile with ``threads`` threads, 16 bytes per access."""
    element, lane = s[tile].split(s[tile].fuse(*s[tile].op.axis), lanes)
    _, thread = s[tile].split(element, threads)
    s[tile].vectorize(lane)
    s[tile].bind(thread, "threadIdx.x")


def sgemm(m: int, n: int, k: int) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Compute 128 by 256 elements per block, or 64 by 64 where that gives a GPU few blocks."""
    if -(-m // 128) * -(-n // 256) >= ENOUGH:
        return tiled_sgemm(m, n, k, (128, 256), (8, 16))
    return tiled_sgemm(m, n, k, (64, 64), (8, 8))


def tiled_sgemm(
    m: int, n: int, k: int, tile: tuple[int, int], each: tuple[int, int], depth: int = DEPTH,
    ahead: bool = True,
) -> tuple[sl.Schedule, list[sl.Tensor]]:  # fmt: skip
    """Return a product with the tiles of :func:`register_tile`.

    The tile of A is transposed, so that a thread loads 4 of its rows at once.
    """
    A, B = sl.placeholder((m, k), name="A"), sl.placeholder((k, n), name="B")
    r = sl.reduce_axis(k, name="k")
    C = sl.compute((m, n), lambda i, j: sl.sum(A[i, r] * B[r, j], axis=r), name="C")
    s = sl.schedule(C)
    register_tile(s, C, A, B, tile, each, (), depth, ahead)
    s[s.tensor("A.shared")].transform_layout(lambda i, k: (k, i))
    return s, [A, B, C]


def attention(heads: int, length: int, width: int) -> tuple[sl.Schedule, list[sl.Tensor]]:
    """Compute attention in three kernels: the scores, their softmax, its product with V."""
    Q, K, V = (sl.placeholder((heads, length, width), name=name) for name in "QKV")
    d, e, f, g = (sl.reduce_axis(n, name=x) for n, x in
                  ((width, "d"), (length, "e"), (length, "f"), (length, "g")))  # fmt: skip
    square = (heads, length, length)
    S = sl.compute(square, lambda h, i, j: sl.sum(Q[h, i, d] * K[h, j, d], axis=d), name="S")
    M = sl.compute((heads, length), lambda h, i: sl.max(S[h, i, e], axis=e), name="M")
    scale = width**-0.5
    E = sl.compute(square, lambda h, i, j: sl.exp((S[h, i, j] - M[h, i]) * scale), name="E")
    T = sl.compute((heads, length), lambda h, i: sl.sum(E[h, i, f], axis=f), name="T")
    P = sl.compute(square, lambda h, i, j: E[h, i, j] / T[h, i], name="P")
    Y = sl.compute(
        (heads, length, width), lambda h, i, j: sl.sum(P[h, i, g] * V[h, g, j], axis=g), name="Y"
    )
    s = sl.schedule(Y)
    for product, a, b, tile, each in ((S, Q, K, 64, (8, 8)), (Y, P, V, 32, (4, 4))):
        head = s[product].op.axis[0]
        register_tile(s, product, a, b, (tile, tile), each, (head,))
        s[product].bind(head, "blockIdx.z")
    s[E].compute_inline()
    row = s[P].fuse(*s[P].op.axis[:2])
    s[P].bind(row, "blockIdx.x")
    _, thread = s[P].split(s[P].op.axis[2], 128)
    s[P].bind(thread, "threadIdx.x")
    for part in (T, M):
        s[part].compute_at(s[P], row)
        _, inner = s[part].split(s[part].op.reduce_axis[0], 128)
        s[part].bind(inner, "threadIdx.x")
    return s, [Q, K, V, Y]
