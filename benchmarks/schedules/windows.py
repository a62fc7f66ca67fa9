"""Windows over single channels: depthwise convolution and pooling."""

from __future__ import annotations

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work


def _rows(s: sl.Schedule, X: sl.Tensor, Y: sl.Tensor, stride: int) -> None:
    """A padded channel at a time; a row of results in vectors, the window written out."""
    YL = s.cache_write(Y, "local")
    _, c, y, x = s[Y].op.axis
    block, y = s[Y].split(y, factor=14)
    s[Y].parallel(c)
    s[Y].vectorize(x)
    s[X].compute_at(s[Y], block)
    along = X.op.axis[3]
    if stride > 1:
        # what neighbouring results read lies side by side then
        s[X].transform_layout(lambda n, c, y, x: (n, c, y, x % stride, x // stride))
        along, phase = s[X].split(along, factor=stride)
        s[X].reorder(phase, along)
        s[X].unroll(phase)
    s[X].vectorize(along)
    s[YL].compute_at(s[Y], y)
    v, u = s[YL].op.reduce_axis
    s[YL].reorder(v, u, s[YL].op.axis[3])
    s[YL].unroll(v)
    s[YL].unroll(u)
    s[YL].vectorize(s[YL].op.axis[3])


@scheduled("depthwise")
def depthwise(work: Work, target: sl.Target) -> Made:
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
    _rows(s, XP, Y, stride)
    return s, [X, W, Y]


@scheduled("max_pool")
def max_pool(work: Work, target: sl.Target) -> Made:
    size, C, K, stride, pad, out = (
        work.sizes[n] for n in ("size", "channels", "k", "stride", "pad", "out")
    )
    X = sl.placeholder((1, C, size, size), name="X")
    XP = sl.pad(X, (0, 0, pad, pad), (0, 0, pad, pad), value=-float("inf"), name="XP")
    v, u = sl.reduce_axis(K, name="v"), sl.reduce_axis(K, name="u")
    Y = sl.compute(
        (1, C, out, out),
        lambda n, c, y, x: sl.max(XP[n, c, y * stride + v, x * stride + u], axis=(v, u)),
        name="Y",
    )
    s = sl.schedule(Y)
    _rows(s, XP, Y, stride)
    return s, [X, Y]
