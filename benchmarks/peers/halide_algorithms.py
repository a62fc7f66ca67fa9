"""Each kind of work as a Halide algorithm, without a schedule.

Halide's first dimension is the innermost one: an array of shape ``(rows, columns)`` is read as
``a[column, row]``. Dimensions of extent 1 are dropped, since Adams2019 would search for minutes
among their loops of one iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import halide as hl

from benchmarks.peers.halide_host import host_target
from benchmarks.works.memory import EPSILON, GAUSS, KAPPA, LUMA

F32 = hl.Float(32)
x, y, c, n = (hl.Var(name) for name in "xycn")


def f32(value: float) -> Any:
    return hl.f32(value)


def sgemm(sizes: Any, a: Any, b: Any) -> Any:
    k = hl.RDom([(0, sizes["k"])], "k")
    out = hl.Func("out")
    out[x, y] = f32(0)
    out[x, y] += a[k, y] * b[x, k]
    return out


def gemv(sizes: Any, a: Any, v: Any) -> Any:
    k = hl.RDom([(0, sizes["k"])], "k")
    out = hl.Func("out")
    out[x] = f32(0)
    out[x] += a[k, x] * v[k]
    return out


def batched(sizes: Any, a: Any, b: Any) -> Any:
    k = hl.RDom([(0, sizes["k"])], "k")
    out = hl.Func("out")
    out[x, y, n] = f32(0)
    out[x, y, n] += a[k, y, n] * b[x, k, n]
    return out


def _padded(sizes: Any, image: Any, value: float) -> Any:
    if not sizes["pad"]:
        return image
    size = sizes["size"]
    padded, last = hl.Func("padded"), size - 1
    inside = (x >= 0) & (x < size) & (y >= 0) & (y < size)
    near = image[hl.clamp(x, 0, last), hl.clamp(y, 0, last), c]
    padded[x, y, c] = hl.select(inside, near, f32(value))
    return padded


def conv2d(sizes: Any, image: Any, w: Any) -> Any:
    k, s, p, ic = sizes["k"], sizes["stride"], sizes["pad"], sizes["ic"]
    padded = _padded(sizes, image, 0)
    out = hl.Func("out")
    out[x, y, c] = f32(0)
    if k == 1:
        r = hl.RDom([(0, ic)], "r")
        out[x, y, c] += padded[x * s, y * s, r.x] * w[r.x, c]
    else:
        r = hl.RDom([(0, k), (0, k), (0, ic)], "r")
        out[x, y, c] += padded[x * s + r.x - p, y * s + r.y - p, r.z] * w[r.x, r.y, r.z, c]
    return out


def depthwise(sizes: Any, image: Any, w: Any) -> Any:
    k, s, p = sizes["k"], sizes["stride"], sizes["pad"]
    padded = _padded(sizes, image, 0)
    terms = [
        padded[x * s + i - p, y * s + j - p, c] * w[i, j, c] for j in range(k) for i in range(k)
    ]
    out = hl.Func("out")
    out[x, y, c] = sum(terms[1:], terms[0])
    return out


def max_pool(sizes: Any, image: Any) -> Any:
    k, s, p = sizes["k"], sizes["stride"], sizes["pad"]
    padded = _padded(sizes, image, -3e38)
    seen = [padded[x * s + i - p, y * s + j - p, c] for j in range(k) for i in range(k)]
    best = seen[0]
    for value in seen[1:]:
        best = hl.max(best, value)
    out = hl.Func("out")
    out[x, y, c] = best
    return out


def softmax(sizes: Any, a: Any) -> Any:
    r = hl.RDom([(0, sizes["width"])], "r")
    top, e, total, out = (hl.Func(name) for name in ("top", "e", "total", "out"))
    top[y] = f32(-3e38)
    top[y] = hl.max(top[y], a[r, y])
    e[x, y] = hl.fast_exp(a[x, y] - top[y])
    total[y] = f32(0)
    total[y] += e[r, y]
    out[x, y] = e[x, y] / total[y]
    return out


def layer_norm(sizes: Any, a: Any, gain: Any, bias: Any) -> Any:
    width = sizes["width"]
    r = hl.RDom([(0, width)], "r")
    total, square, mean, scale, out = (
        hl.Func(name) for name in ("total", "square", "mean", "scale", "out")
    )
    total[y] = f32(0)
    total[y] += a[r, y]
    mean[y] = total[y] / width
    square[y] = f32(0)
    square[y] += (a[r, y] - mean[y]) * (a[r, y] - mean[y])
    scale[y] = f32(1) / hl.sqrt(square[y] / width + f32(EPSILON))
    out[x, y] = (a[x, y] - mean[y]) * scale[y] * gain[x] + bias[x]
    return out


def row_sum(sizes: Any, a: Any) -> Any:
    r = hl.RDom([(0, sizes["width"])], "r")
    out = hl.Func("out")
    out[y] = f32(0)
    out[y] += a[r, y]
    return out


def box_blur(sizes: Any, a: Any) -> Any:
    return _box_blur(a)[0]


def _box_blur(a: Any) -> tuple[Any, Any]:
    along, out = hl.Func("along"), hl.Func("out")
    along[x, y] = (a[x, y] + a[x + 1, y] + a[x + 2, y]) * f32(1 / 3)
    out[x, y] = (along[x, y] + along[x, y + 1] + along[x, y + 2]) * f32(1 / 3)
    return out, along


def jacobi(sizes: Any, a: Any) -> Any:
    out = hl.Func("out")
    sides = a[x + 1, y] + a[x + 1, y + 2] + a[x, y + 1] + a[x + 2, y + 1]
    out[x, y] = (a[x + 1, y + 1] + sides) * f32(0.2)
    return out


def _gray(sizes: Any, rgb: Any) -> Any:
    """Declare the gray picture with repeated edges, since rounded tiles read beyond its border."""
    box = [(0, sizes["width"]), (0, sizes["height"]), (0, 3)]
    near = hl.BoundaryConditions.repeat_edge(rgb, box)
    gray = hl.Func("gray")
    gray[x, y] = sum((f32(v) * near[x, y, p] for p, v in enumerate(LUMA)), f32(0))
    return gray


def unsharp(sizes: Any, rgb: Any) -> Any:
    gray = _gray(sizes, rgb)
    along, soft, ratio, out = (hl.Func(name) for name in ("along", "soft", "ratio", "out"))
    g = [f32(v) for v in GAUSS]
    along[x, y] = g[0] * gray[x, y] + sum(
        (g[d] * (gray[x, y - d] + gray[x, y + d]) for d in (1, 2, 3)), f32(0)
    )
    soft[x, y] = g[0] * along[x, y] + sum(
        (g[d] * (along[x - d, y] + along[x + d, y]) for d in (1, 2, 3)), f32(0)
    )
    ratio[x, y] = (2 * gray[x, y] - soft[x, y]) / gray[x, y]
    out[x, y, c] = ratio[x, y] * rgb[x, y, c]
    return out


def harris(sizes: Any, rgb: Any) -> Any:
    gray = _gray(sizes, rgb)
    ix, iy, xx, yy, xy, out = (hl.Func(v) for v in ("ix", "iy", "xx", "yy", "xy", "out"))
    t = f32(1 / 12)
    ix[x, y] = t * (
        gray[x + 2, y] + 2 * gray[x + 2, y + 1] + gray[x + 2, y + 2]
        - gray[x, y] - 2 * gray[x, y + 1] - gray[x, y + 2]
    )  # fmt: skip
    iy[x, y] = t * (
        gray[x, y + 2] + 2 * gray[x + 1, y + 2] + gray[x + 2, y + 2]
        - gray[x, y] - 2 * gray[x + 1, y] - gray[x + 2, y]
    )  # fmt: skip
    xx[x, y], yy[x, y], xy[x, y] = (
        ix[x, y] * ix[x, y], iy[x, y] * iy[x, y], ix[x, y] * iy[x, y]
    )  # fmt: skip

    def box(f: Any) -> Any:
        return sum((f[x + i, y + j] for j in range(3) for i in range(3)), f32(0))

    trace = box(xx) + box(yy)
    out[x, y] = box(xx) * box(yy) - box(xy) * box(xy) - f32(KAPPA) * trace * trace
    return out


def chain(sizes: Any, a: Any, b: Any, d: Any) -> Any:
    out = hl.Func("out")
    relu = hl.max(a[x] * b[x] + d[x], f32(0))
    out[x] = relu / (f32(1) + hl.fast_exp(-a[x]))
    return out


def transpose(sizes: Any, a: Any) -> Any:
    out = hl.Func("out")
    out[x, y] = a[y, x]
    return out


def _sigmoid(v: Any) -> Any:
    return f32(1) / (f32(1) + hl.fast_exp(-v))


def _tanh(v: Any) -> Any:
    return 2 * _sigmoid(2 * v) - 1


def lstm_cell(sizes: Any, a: Any, h: Any, state: Any, w_x: Any, w_h: Any, bias: Any) -> Any:
    hidden = sizes["hidden"]
    k = hl.RDom([(0, hidden)], "k")
    gates, c_next, h_next = hl.Func("gates"), hl.Func("c_next"), hl.Func("h_next")
    gates[x, y] = bias[x]
    gates[x, y] += a[k, y] * w_x[k, x] + h[k, y] * w_h[k, x]
    i, f, g, o = (gates[x + part * hidden, y] for part in range(4))
    c_next[x, y] = _sigmoid(f) * state[x, y] + _sigmoid(i) * _tanh(g)
    h_next[x, y] = _sigmoid(o) * _tanh(c_next[x, y])
    return [h_next, c_next]


def attention(sizes: Any, q: Any, k: Any, v: Any) -> Any:
    d, j = hl.RDom([(0, sizes["width"])], "d"), hl.RDom([(0, sizes["length"])], "j")
    scores, top, e, total, sums, out = (
        hl.Func(name) for name in ("scores", "top", "e", "total", "sums", "out")
    )
    scale = f32(sizes["width"] ** -0.5)
    scores[x, y, n] = f32(0)
    scores[x, y, n] += q[d, y, n] * k[d, x, n]
    top[y, n] = f32(-3e38)
    top[y, n] = hl.max(top[y, n], scores[j, y, n])
    e[x, y, n] = hl.fast_exp((scores[x, y, n] - top[y, n]) * scale)
    total[y, n] = f32(0)
    total[y, n] += e[j, y, n]
    sums[x, y, n] = f32(0)
    sums[x, y, n] += e[j, y, n] * v[x, j, n]
    out[x, y, n] = sums[x, y, n] / total[y, n]
    return out


def box_blur_by_hand(sizes: Any, a: Any) -> Any:
    """Run strips of rows in parallel, and slide the first stage down each strip."""
    out, along = _box_blur(a)
    yi, lanes = hl.Var("yi"), _lanes()
    out.split(y, y, yi, 32).parallel(y).vectorize(x, lanes)
    along.store_at(out, y).compute_at(out, yi).vectorize(x, lanes)
    return out


def jacobi_by_hand(sizes: Any, a: Any) -> Any:
    out = jacobi(sizes, a)
    yi = hl.Var("yi")
    out.split(y, y, yi, 32).parallel(y).vectorize(x, _lanes())
    return out


def chain_by_hand(sizes: Any, a: Any, b: Any, d: Any) -> Any:
    out = chain(sizes, a, b, d)
    block = hl.Var("block")
    out.split(x, block, x, 1 << 16).parallel(block).vectorize(x, 2 * _lanes())
    return out


def _lanes() -> int:
    return int(host_target().natural_vector_size(F32))


ALGORITHMS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        sgemm, gemv, batched, conv2d, depthwise, max_pool, softmax, layer_norm, row_sum, box_blur,
        jacobi, unsharp, harris, chain, transpose, lstm_cell, attention,
        box_blur_by_hand, jacobi_by_hand, chain_by_hand,
    )
}  # fmt: skip
