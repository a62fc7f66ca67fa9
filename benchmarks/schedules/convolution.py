"""Convolutions: output channels in vector lanes, a strip of a row of sums in registers."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.schedules.products import tile_of
from benchmarks.works import Work


@scheduled("conv2d")
def conv2d(work: Work, target: sl.Target) -> Made:
    """Weights packed into panels of channels; a pixel is one broadcast for a panel's lanes."""
    size, IC, OC, K, stride, pad, out = (
        work.sizes[n] for n in ("size", "ic", "oc", "k", "stride", "pad", "out")
    )
    lanes = tile_of(target)[1]
    strip = next(n for n in (14, 8, 7, 4, 1) if out % n == 0)
    X, W = sl.placeholder((1, IC, size, size), name="X"), sl.placeholder((OC, IC, K, K), name="W")
    c, v, u = (sl.reduce_axis(n, name=m) for n, m in ((IC, "c"), (K, "v"), (K, "u")))
    XP = sl.pad(X, (0, 0, pad, pad), (0, 0, pad, pad), name="XP")
    WP = sl.compute(
        (-(-OC // lanes), K, K, IC, lanes),
        lambda p, v, u, c, o: sl.if_then_else(
            p * lanes + o < OC, W[p * lanes + o, c, v, u], 0
        ), name="WP",
    )  # fmt: skip
    Y = sl.compute(
        (1, OC, out, out),
        lambda n, o, y, x: sl.sum(
            XP[n, c, y * stride + v, x * stride + u] * WP[o // lanes, v, u, c, o % lanes],
            axis=(c, v, u),
        ), name="Y",
    )  # fmt: skip
    s = sl.schedule(Y)
    YL = s.cache_write(Y, "local")
    n, o, y, x = s[Y].op.axis
    panel, lane = s[Y].split(o, factor=lanes)
    xo, xi = s[Y].split(x, factor=strip)
    s[Y].reorder(n, panel, y, xo, lane, xi)
    s[Y].parallel(s[Y].fuse(panel, y))
    s[YL].compute_at(s[Y], xo)
    s[YL].transform_layout(lambda n, o, y, x: (n, y, x, o))
    _, o, _, x = s[YL].op.axis
    s[YL].reorder(v, u, c, x, o)
    s[YL].unroll(x)
    s[YL].vectorize(o)
    if pad:
        s[XP].parallel(XP.op.axis[1])
        s[XP].vectorize(XP.op.axis[3])
    else:
        s[XP].compute_inline()
    s[WP].parallel(WP.op.axis[0])
    s[WP].vectorize(WP.op.axis[4])
    return s, [X, W, Y]


@scheduled("conv C3 56^2x64>64 1x1/1")
def pointwise(work: Work, target: sl.Target) -> Made:
    """A product of matrices: pixels in vector lanes, channels in rows, all read in place."""
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
