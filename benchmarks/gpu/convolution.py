"""Convolutions, NCHW: a tile of channels by positions a block, its operands in shared memory."""

from __future__ import annotations

import schedlang as sl

Made = tuple[sl.Schedule, list[sl.Tensor]]


def conv2d(n: int, c: int, o: int, h: int, w: int, size: int, stride: int) -> Made:
    """32 channels by 32 positions a block, 4 by 1 a thread; "same" borders, inlined."""
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
    across, each = min(4, high) * min(8, wide), min(8, -(-o // 4))
    bf, f = s[Y].split(f, 4 * each)
    tf, f = s[Y].split(f, 4)
    by_, y = s[Y].split(y, 4)
    bx_, x = s[Y].split(x, 8)
    s[Y].reorder(b, by_, bx_, bf, tf, y, x, f)
    spot = s[Y].fuse(b, by_, bx_)
    thread = s[Y].fuse(y, x)
    s[Y].bind(spot, "blockIdx.x")
    s[Y].bind(bf, "blockIdx.y")
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
    s[Y].bind(s[Y].fuse(b, f), "blockIdx.z")
    for axis, name in (
        (by, "blockIdx.y"),
        (bx, "blockIdx.x"),
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
