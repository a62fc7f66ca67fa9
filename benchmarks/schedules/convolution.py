"""Convolutions: output channels are vector lanes, and a strip of a row stays in registers."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work
from schedlang.demo import tile_sizes


def layer(work: Work, lanes: int) -> tuple[sl.Tensor, ...]:
    """Declare the padded input, the weights in panels of ``lanes`` channels, and the result."""
    size, IC, OC, K, stride, pad, out = (
        work.sizes[n] for n in ("size", "ic", "oc", "k", "stride", "pad", "out")
    )
    X, W = sl.placeholder((1, IC, size, size), name="X"), sl.placeholder((OC, IC, K, K), name="W")
    c, v, u = (sl.reduce_axis(n, name=m) for n, m in ((IC, "c"), (K, "v"), (K, "u")))
    XP = sl.pad(X, (0, 0, pad, pad), (0, 0, pad, pad), name="XP")
    WP = sl.compute(
        (-(-OC // lanes), IC, K, K, lanes),
        lambda p, c, v, u, o: sl.if_then_else(
            p * lanes + o < OC, W[p * lanes + o, c, v, u], 0
        ), name="WP",
    )  # fmt: skip
    Y = sl.compute(
        (1, OC, out, out),
        lambda n, o, y, x: sl.sum(
            XP[n, c, y * stride + v, x * stride + u] * WP[o // lanes, c, v, u, o % lanes],
            axis=(c, v, u),
        ), name="Y",
    )  # fmt: skip
    return X, W, XP, WP, Y


def tile(s: sl.Schedule, Y: sl.Tensor, WP: sl.Tensor, target: sl.Target) -> tuple[sl.Axis, ...]:
    """Compute a strip of a row in registers and transpose it on the way out.

    Also transpose the weights into panels. With 16 registers a strip has 10 vectors of sums, which
    leave room for elements that the taps of a window share.
    """
    lanes = tile_sizes(target)[1]
    YL = s.cache_write(Y, "local")
    n, o, y, x = s[Y].op.axis
    panel, lane = s[Y].split(o, factor=lanes)
    if target.vector_registers >= 32:
        strip, column = s[Y].split(x, factor=next(f for f in (8, 7, 1) if x.extent % f == 0))
    else:
        strip, column = s[Y].split(x, factor=5, tail="cut")
    s[Y].reorder(n, panel, y, strip, lane, column)
    s[Y].unroll(lane)
    s[Y].vectorize(column)
    s[YL].compute_at(s[Y], strip)
    s[YL].transform_layout(lambda n, o, y, x: (n, y, x, o))
    _, o, _, x = s[YL].op.axis
    s[YL].reorder(*s[YL].op.reduce_axis, x, o)
    s[YL].unroll(x)
    s[YL].vectorize(o)
    _, c, v, u, o = s[WP].op.axis
    _, row = s[WP].split(s[WP].fuse(s[WP].fuse(c, v), u), factor=16, tail="cut")
    s[WP].unroll(row)
    s[WP].vectorize(o)
    return panel, y, strip, lane, column


@scheduled("conv2d")
def conv2d(work: Work, target: sl.Target) -> Made:
    """Compute a panel of channels per thread, which also packs the panel's weights."""
    lanes = tile_sizes(target)[1]
    X, W, XP, WP, Y = layer(work, lanes)
    s = sl.schedule(Y)
    panel, *_ = tile(s, Y, WP, target)
    s[Y].parallel(panel)
    s[WP].compute_at(s[Y], panel)
    if work.sizes["pad"]:
        s[XP].parallel(XP.op.axis[1])
        s[XP].vectorize(XP.op.axis[3])
    else:
        s[XP].compute_inline()
    return s, [X, W, Y]


@scheduled("conv C1 224^2x3>64 7x7/2", "conv C2 56^2x64>64 3x3/1", "conv C4 56^2x64>128 3x3/2")
def large_image(work: Work, target: sl.Target) -> Made:
    """Compute a block of rows per thread, which also pads them: more pixels than weights."""
    lanes = tile_sizes(target)[1]
    X, W, XP, WP, Y = layer(work, lanes)
    s = sl.schedule(Y)
    panel, y, strip, lane, column = tile(s, Y, WP, target)
    block, row = s[Y].split(y, factor=next((f for f in (14, 7, 4) if y.extent % (2 * f) == 0), 1))
    s[Y].reorder(block, panel, row, strip, lane, column)
    s[Y].parallel(block)
    s[WP].parallel(WP.op.axis[0])
    s[XP].compute_at(s[Y], block)
    s[XP].vectorize(XP.op.axis[3])
    return s, [X, W, Y]


@scheduled("conv C3 56^2x64>64 1x1/1")
def pointwise(work: Work, target: sl.Target) -> Made:
    """Compute a matrix product with pixels as lanes and channels as rows, all read in place."""
    size, IC, OC = (work.sizes[n] for n in ("size", "ic", "oc"))
    X = sl.placeholder((1, IC, size, size), name="X")
    W = sl.placeholder((OC, IC, 1, 1), name="W")
    c = sl.reduce_axis(IC, name="c")
    Y = sl.compute(
        (1, OC, size, size),
        lambda n, o, y, x: sl.sum(X[n, c, y, x] * W[o, c, 0, 0], axis=c), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    YL = s.cache_write(Y, "local")
    n, o, y, x = s[Y].op.axis
    block, row = s[Y].split(o, factor=4, tail="cut")
    s[Y].reorder(n, y, block, row, x)
    s[Y].parallel(y)
    s[Y].vectorize(x)
    s[YL].compute_at(s[Y], block)
    _, o, _, x = s[YL].op.axis
    s[YL].reorder(c, o, x)
    s[YL].unroll(o)
    s[YL].vectorize(x)
    return s, [X, W, Y]
