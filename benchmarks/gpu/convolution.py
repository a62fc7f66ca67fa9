"""NCHW convolutions: a tile of channels by positions per block, with operands in shared memory."""

from __future__ import annotations

import schedlang as sl

Made = tuple[sl.Schedule, list[sl.Tensor]]
# from this many outputs on, each multiprocessor of a large GPU gets several of the larger blocks
MANY = 1 << 21
# the multiprocessors of a large GPU, and the fewest input channels that are worth a block
FEW, LEAST = 132, 32


def conv2d(n: int, c: int, o: int, h: int, w: int, size: int, stride: int) -> Made:
    """Compute 4 channels of a position per thread, or 8 of 4 positions where outputs are many.

    A block has 8 threads for channels and 32 for positions. The zero padding is inlined. The tile
    of weights has its channels contiguous, so that a thread loads 4 at once. Where this gives too
    few blocks, each block sums a share of the input channels, and a second kernel adds the shares.
    """
    X = sl.placeholder((n, c, h, w), name="X")
    W = sl.placeholder((o, c, size, size), name="W")
    by = size // 2
    high, wide = -(-h // stride), -(-w // stride)
    P, step = sl.pad(X, (0, 0, by, by)) if by else X, stride
    if size == 1 and stride > 1:
        # Gather the positions that are read, so that shared memory holds no others.
        read = (n, c, high, wide)
        P, step = sl.compute(read, lambda b, r, y, x: X[b, r, y * stride, x * stride], name="R"), 1
    r, u, v = (sl.reduce_axis(e, name=x) for e, x in ((c, "c"), (size, "u"), (size, "v")))
    Y = sl.compute(
        (n, o, high, wide),
        lambda b, f, y, x: sl.sum(
            P[b, r, y * step + u, x * step + v] * W[f, r, u, v], axis=[r, u, v]
        ), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    if P is not X:
        s[P].compute_inline()
    channels, places = (8, 4) if n * o * high * wide >= MANY else (4, 1)
    each = min(8, -(-o // channels))
    blocks = n * -(-high // (4 * places)) * -(-wide // 8) * -(-o // (channels * each))
    shares = 1
    while blocks * shares < FEW and c % (2 * shares * LEAST) == 0:
        shares *= 2
    part = Y
    if shares > 1:
        share, r = s[Y].split(r, nparts=shares)
        part = s.rfactor(Y, share)
        _elementwise(s, Y)
    PS, WS = s.cache_read(P, "shared", [part]), s.cache_read(W, "shared", [part])
    YL = s.cache_write(part, "local")
    *images, f, y, x = s[part].op.axis
    bf, f = s[part].split(f, channels * each)
    tf, f = s[part].split(f, channels)
    by_, y = s[part].split(y, 4 * places)
    vy, y = s[part].split(y, 4)
    bx_, x = s[part].split(x, 8)
    s[part].reorder(*images, by_, bx_, bf, vy, tf, y, x, f)
    across = min(4, high) * min(8, wide)
    spot = s[part].fuse(*images, by_, bx_)
    thread = s[part].fuse(y, x)
    s[part].bind(spot, "blockIdx.x")
    s[part].bind(bf, "blockIdx.y")
    s[part].bind(vy, "vthread")
    s[part].bind(tf, "threadIdx.y")
    s[part].bind(thread, "threadIdx.x")
    s[part].unroll(f)
    s[YL].compute_at(s[part], thread)
    *_, f, y, x = s[YL].op.axis
    r, u, v = s[YL].op.reduce_axis
    depth = 4 if size > 1 else 16
    outer, inner = s[YL].split(r, depth)
    s[YL].reorder(outer, inner, u, v, f, y, x)
    for axis in (inner, u, v, f):
        s[YL].unroll(axis)
    s[WS].transform_layout(lambda f, c, u, v: (c, u, v, f))
    WL = s.cache_read(WS, "local", [YL])
    s[WL].compute_at(s[YL], v)
    s[WL].unroll(s[WL].op.axis[0])
    for tile in (PS, WS):
        s[tile].compute_at(s[YL], outer)
        element = s[tile].fuse(*s[tile].op.axis)
        element, tx = s[tile].split(element, across)
        _, ty = s[tile].split(element, each)
        s[tile].bind(ty, "threadIdx.y")
        s[tile].bind(tx, "threadIdx.x")
        if c // shares >= 2 * depth and (places == 1 or size == 1):
            # the next tiles of a large block would take too many registers
            s[tile].double_buffer()
    return s, [X, W, Y]


def _elementwise(s: sl.Schedule, Y: sl.Tensor) -> None:
    """Compute one element per thread, with its whole sum."""
    YL = s.cache_write(Y, "local")
    block, thread = s[Y].split(s[Y].fuse(*s[Y].op.axis), 256)
    s[Y].bind(block, "blockIdx.x")
    s[Y].bind(thread, "threadIdx.x")
    s[YL].compute_at(s[Y], thread)
    s[YL].unroll(s[YL].op.reduce_axis[0])


def depthwise(n: int, c: int, h: int, w: int, stride: int) -> Made:
    """Convolve each channel by 3 by 3 taps. The padding is inlined; the cache holds the windows."""
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
    # Only the x dimension of a grid has room for every channel of a batch.
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
