"""Convolutions, NCHW: a tile of channels by positions a block, its operands in shared memory."""

from __future__ import annotations

import schedlang as sl

Made = tuple[sl.Schedule, list[sl.Tensor]]
# outputs that give every multiprocessor of a large GPU several of the larger blocks
MANY = 1 << 21


def conv2d(n: int, c: int, o: int, h: int, w: int, size: int, stride: int) -> Made:
    """A thread has 4 channels of a position, or 8 of 4 positions where there are enough outputs.

    A block has 8 threads for channels and 32 for positions. "same" borders are inlined; the
    weights' tile lies with its channels side by side, so that a thread reads 4 at once.
    """
    X = sl.placeholder((n, c, h, w), name="X")
    W = sl.placeholder((o, c, size, size), name="W")
    by = size // 2
    high, wide = -(-h // stride), -(-w // stride)
    P = sl.pad(X, (0, 0, by, by)) if by else X
    r, u, v = (sl.reduce_axis(e, name=x) for e, x in ((c, "c"), (size, "u"), (size, "v")))
    Y = sl.compute(
        (n, o, high, wide),
        lambda b, f, y, x: sl.sum(
            P[b, r, y * stride + u, x * stride + v] * W[f, r, u, v], axis=[r, u, v]
        ), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    if by:
        s[P].compute_inline()
    PS, WS = s.cache_read(P, "shared", [Y]), s.cache_read(W, "shared", [Y])
    YL = s.cache_write(Y, "local")
    b, f, y, x = s[Y].op.axis
    channels, places = (8, 4) if n * o * high * wide >= MANY else (4, 1)
    each = min(8, -(-o // channels))
    bf, f = s[Y].split(f, channels * each)
    tf, f = s[Y].split(f, channels)
    by_, y = s[Y].split(y, 4 * places)
    vy, y = s[Y].split(y, 4)
    bx_, x = s[Y].split(x, 8)
    s[Y].reorder(b, by_, bx_, bf, vy, tf, y, x, f)
    across = min(4, high) * min(8, wide)
    spot = s[Y].fuse(b, by_, bx_)
    thread = s[Y].fuse(y, x)
    s[Y].bind(spot, "blockIdx.x")
    s[Y].bind(bf, "blockIdx.y")
    s[Y].bind(vy, "vthread")
    s[Y].bind(tf, "threadIdx.y")
    s[Y].bind(thread, "threadIdx.x")
    s[Y].unroll(f)
    s[YL].compute_at(s[Y], thread)
    _, f, y, x = s[YL].op.axis
    r, u, v = s[YL].op.reduce_axis
    outer, inner = s[YL].split(r, 4)
    s[YL].reorder(outer, inner, u, v, f, y, x)
    for axis in (inner, u, v, f):
        s[YL].unroll(axis)
    s[WS].transform_layout(lambda f, c, u, v: (c, u, v, f))
    WL = s.cache_read(WS, "local", [YL])
    s[WL].compute_at(s[YL], v)
    s[WL].unroll(s[WL].op.axis[0])
    for part in (PS, WS):
        s[part].compute_at(s[YL], outer)
        element = s[part].fuse(*s[part].op.axis)
        element, tx = s[part].split(element, across)
        _, ty = s[part].split(element, each)
        s[part].bind(ty, "threadIdx.y")
        s[part].bind(tx, "threadIdx.x")
    return s, [X, W, Y]


def depthwise(n: int, c: int, h: int, w: int, stride: int) -> Made:
    """3 by 3, a channel a block row; the border is inlined, and the cache serves the windows."""
    X = sl.placeholder((n, c, h, w), name="X")
    W = sl.placeholder((c, 1, 3, 3), name="W")
    P = sl.pad(X, (0, 0, 1, 1))
    u, v = sl.reduce_axis(3, name="u"), sl.reduce_axis(3, name="v")
    Y = sl.compute(
        (n, c, -(-h // stride), -(-w // stride)),
        lambda b, f, y, x: sl.sum(
            P[b, f, y * stride + u, x * stride + v] * W[f, 0, u, v], axis=[u, v]
        ), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    s[P].compute_inline()
    YL = s.cache_write(Y, "local")
    b, f, y, x = s[Y].op.axis
    y, rows = s[Y].split(y, 4)
    by, ty = s[Y].split(y, 4)
    bx, tx = s[Y].split(x, 32)
    s[Y].reorder(b, f, by, bx, ty, tx, rows)
    # of the three only x has room for every channel of a batch
    s[Y].bind(s[Y].fuse(b, f), "blockIdx.x")
    for axis, name in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.z"),
        (ty, "threadIdx.y"),
        (tx, "threadIdx.x"),
    ):
        s[Y].bind(axis, name)
    s[Y].unroll(rows)
    s[YL].compute_at(s[Y], tx)
    *_, y, x = s[YL].op.axis
    for axis in (*s[YL].op.reduce_axis, y):
        s[YL].unroll(axis)
    return s, [X, W, Y]


__all__ = ["conv2d", "depthwise"]
