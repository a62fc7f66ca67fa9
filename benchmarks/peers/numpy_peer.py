"""NumPy with OpenBLAS: every step writes a preallocated array, and convolutions are im2col."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.peers import Call
from benchmarks.works import Arrays, Work, aligned
from benchmarks.works.memory import EPSILON, GAUSS, KAPPA, LUMA

F = np.float32


def prepare(_: str, work: Work, arrays: Arrays, outs: Arrays) -> Call:
    make: Any = globals()[work.kind]
    call: Call = make(work.sizes, *arrays.values(), *outs.values())
    return call


def sgemm(sizes: Any, a: Any, b: Any, c: Any) -> Call:
    def call() -> None:
        np.matmul(a, b, out=c)

    return call


gemv = batched = sgemm


def conv2d(sizes: Any, x: Any, w: Any, y: Any) -> Call:
    k, stride, oc, out = sizes["k"], sizes["stride"], sizes["oc"], sizes["out"]
    weights, result = w.reshape(oc, -1), y.reshape(oc, out * out)
    if k == 1 and stride == 1:
        image = x.reshape(-1, out * out)
        return sgemm(sizes, weights, image, result)
    fill, view = _windows(sizes, x[0], 0.0)
    columns = aligned((sizes["ic"], k, k, out, out))

    def call() -> None:
        fill()
        np.copyto(columns, view)
        np.matmul(weights, columns.reshape(weights.shape[1], -1), out=result)

    return call


def _windows(sizes: Any, image: Any, value: float) -> tuple[Call, Any]:
    """Return a call that pads the image, and the padded image's ``[channel, i, j, y, x]`` view."""
    k, stride, pad = sizes["k"], sizes["stride"], sizes["pad"]
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad)), constant_values=value)
    middle = padded[:, pad : pad + image.shape[1], pad : pad + image.shape[2]]
    view = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))
    view = view[:, ::stride, ::stride].transpose(0, 3, 4, 1, 2)
    return (lambda: np.copyto(middle, image)), view


def depthwise(sizes: Any, x: Any, w: Any, y: Any) -> Call:
    fill, view = _windows(sizes, x[0], 0.0)
    result, part = y[0], aligned(y.shape[1:])
    taps = [(i, j) for i in range(sizes["k"]) for j in range(sizes["k"])]

    def call() -> None:
        fill()
        np.multiply(view[:, 0, 0], w[:, 0, 0, 0, None, None], out=result)
        for i, j in taps[1:]:
            np.multiply(view[:, i, j], w[:, 0, i, j, None, None], out=part)
            np.add(result, part, out=result)

    return call


def max_pool(sizes: Any, x: Any, y: Any) -> Call:
    fill, view = _windows(sizes, x[0], -np.inf)
    result = y[0]
    taps = [(i, j) for i in range(sizes["k"]) for j in range(sizes["k"])]

    def call() -> None:
        fill()
        np.maximum(view[:, 0, 0], view[:, 0, 1], out=result)
        for i, j in taps[2:]:
            np.maximum(result, view[:, i, j], out=result)

    return call


def softmax(sizes: Any, x: Any, y: Any) -> Call:
    rows = aligned((x.shape[0], 1))

    def call() -> None:
        np.max(x, axis=1, keepdims=True, out=rows)
        np.subtract(x, rows, out=y)
        np.exp(y, out=y)
        np.sum(y, axis=1, keepdims=True, out=rows)
        np.divide(y, rows, out=y)

    return call


def layer_norm(sizes: Any, x: Any, gain: Any, bias: Any, y: Any) -> Call:
    rows = aligned((x.shape[0], 1))

    def call() -> None:
        np.mean(x, axis=1, keepdims=True, out=rows)
        np.subtract(x, rows, out=y)
        square = np.einsum("ij,ij->i", y, y, out=rows[:, 0])
        np.multiply(square, F(1 / x.shape[1]), out=square)
        np.add(square, F(EPSILON), out=square)
        np.sqrt(square, out=square)
        np.divide(y, rows, out=y)
        np.multiply(y, gain, out=y)
        np.add(y, bias, out=y)

    return call


def row_sum(sizes: Any, x: Any, y: Any) -> Call:
    def call() -> None:
        np.sum(x, axis=1, out=y)

    return call


def box_blur(sizes: Any, x: Any, y: Any) -> Call:
    along = aligned((x.shape[0], y.shape[1]))

    def call() -> None:
        np.add(x[:, :-2], x[:, 1:-1], out=along)
        np.add(along, x[:, 2:], out=along)
        np.add(along[:-2], along[1:-1], out=y)
        np.add(y, along[2:], out=y)
        np.multiply(y, F(1 / 9), out=y)

    return call


def jacobi(sizes: Any, x: Any, y: Any) -> Call:
    def call() -> None:
        np.add(x[:-2, 1:-1], x[2:, 1:-1], out=y)
        np.add(y, x[1:-1, :-2], out=y)
        np.add(y, x[1:-1, 2:], out=y)
        np.add(y, x[1:-1, 1:-1], out=y)
        np.multiply(y, F(0.2), out=y)

    return call


def _gray(rgb: Any, out: Any, part: Any) -> None:
    np.multiply(rgb[0], F(LUMA[0]), out=out)
    for plane, weight in zip(rgb[1:], LUMA[1:]):
        np.multiply(plane, F(weight), out=part)
        np.add(out, part, out=out)


def unsharp(sizes: Any, rgb: Any, y: Any) -> Call:
    h, w = rgb.shape[1:]
    tall, wide = aligned((h + 6, w)), aligned((h, w + 6))
    gray, soft, part = tall[3:-3], aligned((h, w)), aligned((h, w))
    across = wide[:, 3:-3]

    def call() -> None:
        _gray(rgb, gray, part)
        tall[:3], tall[-3:] = gray[0], gray[-1]
        np.multiply(gray, F(GAUSS[0]), out=across)
        for d in (1, 2, 3):
            np.add(tall[3 - d : 3 - d + h], tall[3 + d : 3 + d + h], out=part)
            np.multiply(part, F(GAUSS[d]), out=part)
            np.add(across, part, out=across)
        wide[:, :3], wide[:, -3:] = wide[:, 3:4], wide[:, -4:-3]
        np.multiply(across, F(GAUSS[0]), out=soft)
        for d in (1, 2, 3):
            np.add(wide[:, 3 - d : 3 - d + w], wide[:, 3 + d : 3 + d + w], out=part)
            np.multiply(part, F(GAUSS[d]), out=part)
            np.add(soft, part, out=soft)
        # (2 gray - soft) / gray
        np.divide(soft, gray, out=soft)
        np.subtract(F(2), soft, out=soft)
        np.multiply(rgb, soft, out=y)

    return call


def harris(sizes: Any, rgb: Any, y: Any) -> Call:
    h, w = rgb.shape[1:]
    gray, part = aligned((h, w)), aligned((h, w))
    down, across = aligned((h - 2, w)), aligned((h, w - 2))
    ix, iy, product = (aligned((h - 2, w - 2)) for _ in range(3))
    rows = aligned((h - 4, w - 2))
    xx, yy, xy = (aligned((h - 4, w - 4)) for _ in range(3))

    def box(a: Any, b: Any, out: Any) -> None:
        np.multiply(a, b, out=product)
        np.add(product[:-2], product[1:-1], out=rows)
        np.add(rows, product[2:], out=rows)
        np.add(rows[:, :-2], rows[:, 1:-1], out=out)
        np.add(out, rows[:, 2:], out=out)

    def call() -> None:
        _gray(rgb, gray, part)
        np.multiply(gray, F(1 / 12), out=gray)
        np.subtract(gray[2:], gray[:-2], out=down)
        np.multiply(down[:, 1:-1], F(2), out=iy)
        np.add(iy, down[:, :-2], out=iy)
        np.add(iy, down[:, 2:], out=iy)
        np.subtract(gray[:, 2:], gray[:, :-2], out=across)
        np.multiply(across[1:-1], F(2), out=ix)
        np.add(ix, across[:-2], out=ix)
        np.add(ix, across[2:], out=ix)
        box(ix, ix, xx)
        box(iy, iy, yy)
        box(ix, iy, xy)
        np.multiply(xx, yy, out=y)
        np.multiply(xy, xy, out=xy)
        np.subtract(y, xy, out=y)
        np.add(xx, yy, out=xx)
        np.multiply(xx, xx, out=xx)
        np.multiply(xx, F(KAPPA), out=xx)
        np.subtract(y, xx, out=y)

    return call


def chain(sizes: Any, a: Any, b: Any, c: Any, y: Any) -> Call:
    # Work in pieces that fit a cache, since each ufunc passes over its whole array.
    step = 1 << 15
    part = aligned((step,))

    def call() -> None:
        for start in range(0, y.size, step):
            at = slice(start, min(start + step, y.size))
            t, out = part[: at.stop - start], y[at]
            np.multiply(a[at], b[at], out=out)
            np.add(out, c[at], out=out)
            np.maximum(out, F(0), out=out)
            np.negative(a[at], out=t)
            np.exp(t, out=t)
            np.add(t, F(1), out=t)
            np.divide(out, t, out=out)

    return call


def transpose(sizes: Any, x: Any, y: Any) -> Call:
    def call() -> None:
        np.copyto(y, x.T)

    return call


def _sigmoid(v: Any) -> None:
    np.negative(v, out=v)
    np.exp(v, out=v)
    np.add(v, F(1), out=v)
    np.reciprocal(v, out=v)


def lstm_cell(
    sizes: Any, x: Any, h: Any, c: Any, w_x: Any, w_h: Any, bias: Any, h_next: Any, c_next: Any
) -> Call:
    hidden = sizes["hidden"]
    gates, more = aligned((len(x), 4 * hidden)), aligned((len(x), 4 * hidden))
    i, f, g, o = (gates[:, n * hidden : (n + 1) * hidden] for n in range(4))
    part = aligned(c.shape)

    def call() -> None:
        np.matmul(x, w_x.T, out=gates)
        np.matmul(h, w_h.T, out=more)
        np.add(gates, more, out=gates)
        np.add(gates, bias, out=gates)
        np.tanh(g, out=g)
        for gate in (i, f, o):
            _sigmoid(gate)
        np.multiply(f, c, out=c_next)
        np.multiply(i, g, out=part)
        np.add(c_next, part, out=c_next)
        np.tanh(c_next, out=part)
        np.multiply(o, part, out=h_next)

    return call


def attention(sizes: Any, q: Any, k: Any, v: Any, out: Any) -> Call:
    length = sizes["length"]
    scores, rows = aligned((len(q), length, length)), aligned((len(q), length, 1))
    keys, scale = k.transpose(0, 2, 1), F(1 / np.sqrt(sizes["width"]))

    def call() -> None:
        np.matmul(q, keys, out=scores)
        np.multiply(scores, scale, out=scores)
        np.max(scores, axis=2, keepdims=True, out=rows)
        np.subtract(scores, rows, out=scores)
        np.exp(scores, out=scores)
        np.sum(scores, axis=2, keepdims=True, out=rows)
        np.matmul(scores, v, out=out)
        np.divide(out, rows, out=out)

    return call
