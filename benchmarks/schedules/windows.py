"""Windows over single channels: depthwise convolution and max pooling."""

from __future__ import annotations

from functools import reduce

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work


@scheduled("depthwise")
def depthwise(work: Work, target: sl.Target) -> Made:
    """Compute a channel per thread, read in place. Short rows are unrolled."""
    size, C, K, stride, pad, out = (
        work.sizes[n] for n in ("size", "channels", "k", "stride", "pad", "out")
    )
    X, W = sl.placeholder((1, C, size, size), name="X"), sl.placeholder((C, 1, K, K), name="W")
    XP = sl.pad(X, (0, 0, pad, pad), (0, 0, pad, pad), name="XP")
    v, u = sl.reduce_axis(K, name="v"), sl.reduce_axis(K, name="u")
    Y = sl.compute(
        (1, C, out, out),
        lambda n, c, y, x: sl.sum(
            XP[n, c, y * stride + v, x * stride + u] * W[c, 0, v, u], axis=(v, u)
        ), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    YL = s.cache_write(Y, "local")
    s[XP].compute_inline()
    _, c, y, x = s[Y].op.axis
    s[Y].parallel(c)
    s[Y].vectorize(x)
    if out < 8:
        # An unrolled row is a constant, so that its window needs no bounds test.
        s[Y].unroll(y)
    s[YL].compute_at(s[Y], y)
    v, u = s[YL].op.reduce_axis
    _, _, _, x = s[YL].op.axis
    s[YL].reorder(v, u, x)
    s[YL].unroll(v)
    s[YL].unroll(u)
    s[YL].vectorize(x)
    return s, [X, W, Y]


@scheduled("depthwise D7 14^2x512/1")
def whole_vectors(work: Work, target: sl.Target) -> Made:
    """Compute a channel as one line: a row of 14 with its border is 16 wide: whole vectors.

    The copy to the output drops the elements between rows.
    """
    size, C, K = (work.sizes[n] for n in ("size", "channels", "k"))
    wide = size + 2
    X, W = sl.placeholder((1, C, size, size), name="X"), sl.placeholder((C, 1, K, K), name="W")
    inside = sl.pad(X, (0, 0, 1, 1), (0, 0, 2, 1), name="XP")
    line = sl.compute(
        (C, wide * wide + 2), lambda c, p: inside[0, c, p // wide, p % wide], name="L"
    )
    v, u = sl.reduce_axis(K, name="v"), sl.reduce_axis(K, name="u")
    Z = sl.compute(
        (C, size * wide),
        lambda c, p: sl.sum(line[c, p + v * wide + u] * W[c, 0, v, u], axis=(v, u)), name="Z",
    )  # fmt: skip
    Y = sl.compute((1, C, size, size), lambda n, c, y, x: Z[c, y * wide + x], name="Y")
    s = sl.schedule(Y)
    s[inside].compute_inline()
    _, c, y, x = s[Y].op.axis
    s[Y].parallel(c)
    s[Y].vectorize(x)
    for stage in (line, Z):
        s[stage].compute_at(s[Y], c)
        s[stage].set_scope("local")
    s[line].vectorize(s[line].split(s[line].op.axis[1], factor=wide)[1])
    row, lane = s[Z].split(s[Z].op.axis[1], factor=wide)
    s[Z].reorder(v, u, row, lane)
    for axis in (v, u, row):
        s[Z].unroll(axis)
    s[Z].vectorize(lane)
    return s, [X, W, Y]


@scheduled("max_pool")
def max_pool(work: Work, target: sl.Target) -> Made:
    """Take the maximum along rows, then along columns, for a block of rows at a time."""
    size, C, K, stride, pad, out = (
        work.sizes[n] for n in ("size", "channels", "k", "stride", "pad", "out")
    )
    X = sl.placeholder((1, C, size, size), name="X")
    XP = sl.pad(X, (0, 0, pad, pad), (0, 0, pad, pad), value=-float("inf"), name="XP")
    H = sl.compute(
        (1, C, size + 2 * pad, out),
        lambda n, c, y, x: reduce(sl.max, (XP[n, c, y, x * stride + u] for u in range(K))),
        name="H",
    )
    Y = sl.compute(
        (1, C, out, out),
        lambda n, c, y, x: reduce(sl.max, (H[n, c, y * stride + v, x] for v in range(K))),
        name="Y",
    )
    s = sl.schedule(Y)
    s[XP].compute_inline()
    _, c, y, x = Y.op.axis
    block, y = s[Y].split(y, factor=14)
    s[Y].parallel(c)
    s[Y].vectorize(x)
    s[H].compute_at(s[Y], block)
    s[H].vectorize(H.op.axis[3])
    return s, [X, Y]
