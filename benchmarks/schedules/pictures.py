"""Picture pipelines: one block at a time, whose intermediate rows stay in the caches."""

from __future__ import annotations

from collections.abc import Callable

import schedlang as sl
from benchmarks.schedules import Made, scheduled
from benchmarks.works import Work
from benchmarks.works.memory import GAUSS, KAPPA, LUMA

Pixels = sl.Tensor


def _gray(rgb: Pixels, height: int, width: int) -> Pixels:
    return sl.compute(
        (height, width), lambda y, x: sum(rgb[c, y, x] * f for c, f in enumerate(LUMA)), name="gray"
    )


def _by_rows(s: sl.Schedule, T: Pixels, lanes: int) -> None:
    """Vectorize the last dimension of a stage."""
    s[T].vectorize(s[T].split(T.op.axis[-1], factor=lanes)[1])


@scheduled("unsharp")
def unsharp(work: Work, target: sl.Target) -> Made:
    height, width = work.sizes["height"], work.sizes["width"]
    lanes = 2 * target.vector_width("float32")
    rgb = sl.placeholder((3, height, width), name="rgb")
    gray = _gray(rgb, height, width)

    def row(y: sl.Expr) -> sl.Expr:
        return sl.max(sl.min(y, height - 1), 0)

    down = sl.compute(
        (height, width),
        lambda y, x: sum(gray[row(y + d), x] * GAUSS[abs(d)] for d in range(-3, 4)), name="down",
    )  # fmt: skip
    wide = sl.pad(down, (0, 3), (0, 3), mode="edge", name="wide")
    ratio = sl.compute(
        (height, width),
        lambda y, x: 2 - sum(wide[y, x + 3 + d] * GAUSS[abs(d)] for d in range(-3, 4)) / gray[y, x],
        name="ratio",
    )
    Y = sl.compute(rgb.shape, lambda c, y, x: rgb[c, y, x] * ratio[y, x], name="Y")
    s = sl.schedule(Y)
    c, y, x = Y.op.axis
    block, y = s[Y].split(y, factor=16)
    s[Y].reorder(block, y, c, x)
    s[Y].parallel(block)
    s[gray].compute_at(s[Y], block)
    for T in (down, wide, ratio):
        s[T].compute_at(s[Y], y)
    for T in (gray, down, wide, ratio, Y):
        _by_rows(s, T, lanes)
    s[Y].pragma(block, "nontemporal")
    return s, [rgb, Y]


@scheduled("harris")
def harris(work: Work, target: sl.Target) -> Made:
    height, width = work.sizes["height"], work.sizes["width"]
    lanes = 2 * target.vector_width("float32")
    rgb = sl.placeholder((3, height, width), name="rgb")
    gray, inner, outer = _gray(rgb, height, width), (height - 2, width - 2), (height - 4, width - 2)

    def sobel(name: str, at: Callable[..., sl.Expr]) -> Pixels:
        return sl.compute(
            inner, lambda y, x: sum(
                (at(y, x, 2, k) - at(y, x, 0, k)) * (2 if k == 1 else 1) for k in range(3)
            ) * (1 / 12), name=name,
        )  # fmt: skip

    iy = sobel("iy", lambda y, x, far, k: gray[y + far, x + k])
    ix = sobel("ix", lambda y, x, far, k: gray[y + k, x + far])
    xx, yy, xy = (
        sl.compute(outer, lambda y, x, a=a, b=b: sum(a[y + k, x] * b[y + k, x] for k in range(3)),
                   name=name) for a, b, name in ((ix, ix, "xx"), (iy, iy, "yy"), (ix, iy, "xy"))
    )  # fmt: skip

    def response(y: sl.Expr, x: sl.Expr) -> sl.Expr:
        sxx, syy, sxy = (T[y, x] + T[y, x + 1] + T[y, x + 2] for T in (xx, yy, xy))
        return sxx * syy - sxy * sxy - KAPPA * (sxx + syy) * (sxx + syy)

    Y = sl.compute((height - 4, width - 4), response, name="Y")
    s = sl.schedule(Y)
    y, x = Y.op.axis
    block, across, y, x = s[Y].tile(y, x, 32, 256)
    s[Y].parallel(block)
    for T in (gray, iy, ix, xx, yy, xy):
        s[T].compute_at(s[Y], y)
    for T in (gray, iy, ix):
        s[T].store_at(s[Y], across)
    for T in (gray, iy, ix, xx, yy, xy):
        _by_rows(s, T, lanes)
    s[Y].vectorize(s[Y].split(x, factor=lanes)[1])
    s[Y].pragma(block, "nontemporal")
    return s, [rgb, Y]
