"""The loops that a numba user writes: ``njit(parallel=True, fastmath=True)`` and ``prange``."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numba import njit, prange

from benchmarks.peers import Call
from benchmarks.works import Arrays, Work
from benchmarks.works.memory import EPSILON, GAUSS, KAPPA, LUMA

F = np.float32
EPS, KAP, THIRD, FIFTH = F(EPSILON), F(KAPPA), F(1 / 3), F(0.2)
TWELFTH = F(1 / 12)
RED, GREEN, BLUE = (F(v) for v in LUMA)
G0, G1, G2, G3 = (F(v) for v in GAUSS)
ZERO, ONE, TWO = F(0), F(1), F(2)
loops: Any = njit(parallel=True, fastmath=True, cache=True)
inline: Any = njit(fastmath=True, inline="always")


def prepare(_: str, work: Work, arrays: Arrays, outs: Arrays) -> Call:
    family = work.kind.startswith("family_")
    module = import_module("benchmarks.peers.family_loops" if family else __name__)
    make = getattr(module, work.kind)
    given = (*arrays.values(), *outs.values())
    numbers = [work.sizes[n] for n in ("stride", "pad", "dilation", "groups") if n in work.sizes]

    def call() -> None:
        make(*given, *numbers)

    return call


@loops
def sgemm(a, b, c):
    for i in prange(c.shape[0]):
        c[i, :] = 0
        for k in range(a.shape[1]):
            for j in range(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@loops
def gemv(a, x, y):
    for i in prange(y.shape[0]):
        total = ZERO
        for k in range(x.shape[0]):
            total += a[i, k] * x[k]
        y[i] = total


@loops
def batched(a, b, c):
    for n in prange(c.shape[0]):
        for i in range(c.shape[1]):
            c[n, i, :] = 0
            for k in range(a.shape[2]):
                for j in range(c.shape[2]):
                    c[n, i, j] += a[n, i, k] * b[n, k, j]


@loops
def conv2d(x, w, y, stride, pad):
    ic, h, wide = x.shape[1:]
    padded = np.zeros((ic, h + 2 * pad, wide + 2 * pad), F)
    for c in prange(ic):
        padded[c, pad : pad + h, pad : pad + wide] = x[0, c]
    for o in prange(y.shape[1]):
        for p in range(y.shape[2]):
            y[0, o, p, :] = 0
            for c in range(ic):
                for i in range(w.shape[2]):
                    for j in range(w.shape[3]):
                        for q in range(y.shape[3]):
                            seen = padded[c, p * stride + i, q * stride + j]
                            y[0, o, p, q] += seen * w[o, c, i, j]


@loops
def depthwise(x, w, y, stride, pad):
    h, wide = x.shape[2:]
    for c in prange(y.shape[1]):
        padded = np.zeros((h + 2 * pad, wide + 2 * pad), F)
        padded[pad : pad + h, pad : pad + wide] = x[0, c]
        for p in range(y.shape[2]):
            for q in range(y.shape[3]):
                total = ZERO
                for i in range(3):
                    for j in range(3):
                        total += padded[p * stride + i, q * stride + j] * w[c, 0, i, j]
                y[0, c, p, q] = total


@loops
def max_pool(x, y, stride, pad):
    h, wide = x.shape[2:]
    for c in prange(y.shape[1]):
        padded = np.full((h + 2 * pad, wide + 2 * pad), F(-3e38))
        padded[pad : pad + h, pad : pad + wide] = x[0, c]
        for p in range(y.shape[2]):
            for q in range(y.shape[3]):
                best = padded[p * stride, q * stride]
                for i in range(3):
                    for j in range(3):
                        best = max(best, padded[p * stride + i, q * stride + j])
                y[0, c, p, q] = best


@loops
def softmax(x, y):
    for i in prange(x.shape[0]):
        top = x[i, 0]
        for j in range(x.shape[1]):
            top = max(top, x[i, j])
        total = ZERO
        for j in range(x.shape[1]):
            e = np.exp(x[i, j] - top)
            y[i, j] = e
            total += e
        scale = ONE / total
        for j in range(x.shape[1]):
            y[i, j] *= scale


@loops
def layer_norm(x, gain, bias, y):
    n = F(x.shape[1])
    for i in prange(x.shape[0]):
        total = ZERO
        for j in range(x.shape[1]):
            total += x[i, j]
        mean = total / n
        square = ZERO
        for j in range(x.shape[1]):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        scale = ONE / np.sqrt(square / n + EPS)
        for j in range(x.shape[1]):
            y[i, j] = (x[i, j] - mean) * scale * gain[j] + bias[j]


@loops
def row_sum(x, y):
    for i in prange(x.shape[0]):
        total = ZERO
        for j in range(x.shape[1]):
            total += x[i, j]
        y[i] = total


@loops
def box_blur(x, y):
    along = np.empty((x.shape[0], y.shape[1]), F)
    for i in prange(x.shape[0]):
        for j in range(y.shape[1]):
            along[i, j] = (x[i, j] + x[i, j + 1] + x[i, j + 2]) * THIRD
    for i in prange(y.shape[0]):
        for j in range(y.shape[1]):
            y[i, j] = (along[i, j] + along[i + 1, j] + along[i + 2, j]) * THIRD


@loops
def jacobi(x, y):
    for i in prange(y.shape[0]):
        for j in range(y.shape[1]):
            sides = x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]
            y[i, j] = (x[i + 1, j + 1] + sides) * FIFTH


@loops
def unsharp(rgb, y):
    h, w = rgb.shape[1:]
    gray = np.empty((h, w), F)
    for i in prange(h):
        for j in range(w):
            gray[i, j] = RED * rgb[0, i, j] + GREEN * rgb[1, i, j] + BLUE * rgb[2, i, j]
    for i in prange(h):
        row = np.empty(w + 6, F)
        i1, i2, i3 = max(i - 1, 0), max(i - 2, 0), max(i - 3, 0)
        k1, k2, k3 = min(i + 1, h - 1), min(i + 2, h - 1), min(i + 3, h - 1)
        for j in range(w):
            row[j + 3] = (
                G0 * gray[i, j] + G1 * (gray[i1, j] + gray[k1, j])
                + G2 * (gray[i2, j] + gray[k2, j]) + G3 * (gray[i3, j] + gray[k3, j])
            )  # fmt: skip
        row[:3] = row[3]
        row[w + 3 :] = row[w + 2]
        for j in range(w):
            soft = (
                G0 * row[j + 3] + G1 * (row[j + 2] + row[j + 4])
                + G2 * (row[j + 1] + row[j + 5]) + G3 * (row[j] + row[j + 6])
            )  # fmt: skip
            ratio = (TWO * gray[i, j] - soft) / gray[i, j]
            for c in range(3):
                y[c, i, j] = ratio * rgb[c, i, j]


@loops
def harris(rgb, y):
    h, w = rgb.shape[1:]
    gray = np.empty((h, w), F)
    for i in prange(h):
        for j in range(w):
            gray[i, j] = RED * rgb[0, i, j] + GREEN * rgb[1, i, j] + BLUE * rgb[2, i, j]
    ix, iy = np.empty((h - 2, w - 2), F), np.empty((h - 2, w - 2), F)
    for i in prange(h - 2):
        for j in range(w - 2):
            a, b, c = gray[i, j], gray[i, j + 1], gray[i, j + 2]
            d, f = gray[i + 1, j], gray[i + 1, j + 2]
            g, e, k = gray[i + 2, j], gray[i + 2, j + 1], gray[i + 2, j + 2]
            ix[i, j] = (c + TWO * f + k - a - TWO * d - g) * TWELFTH
            iy[i, j] = (g + TWO * e + k - a - TWO * b - c) * TWELFTH
    for i in prange(h - 4):
        for j in range(w - 4):
            xx, yy, xy = ZERO, ZERO, ZERO
            for di in range(3):
                for dj in range(3):
                    u, v = ix[i + di, j + dj], iy[i + di, j + dj]
                    xx += u * u
                    yy += v * v
                    xy += u * v
            y[i, j] = xx * yy - xy * xy - KAP * (xx + yy) * (xx + yy)


@loops
def chain(a, b, c, y):
    for i in prange(y.shape[0]):
        y[i] = max(a[i] * b[i] + c[i], ZERO) * (ONE / (ONE + np.exp(-a[i])))


@loops
def transpose(x, y):
    # Without blocks, every store would miss the cache.
    block = 32
    rows, columns = y.shape
    for bi in prange((rows + block - 1) // block):
        for bj in range((columns + block - 1) // block):
            for i in range(bi * block, min(rows, bi * block + block)):
                for j in range(bj * block, min(columns, bj * block + block)):
                    y[i, j] = x[j, i]


@inline
def _sigmoid(v):
    return ONE / (ONE + np.exp(-v))


@loops
def lstm_cell(x, h, c, w_x, w_h, bias, h_next, c_next):
    batch, hidden = c.shape
    gates = np.empty((batch, 4 * hidden), F)
    for n in prange(4 * hidden):
        for b in range(batch):
            total = bias[n]
            for k in range(hidden):
                total += x[b, k] * w_x[n, k] + h[b, k] * w_h[n, k]
            gates[b, n] = total
    for b in prange(batch):
        for n in range(hidden):
            i, f = _sigmoid(gates[b, n]), _sigmoid(gates[b, n + hidden])
            g, o = np.tanh(gates[b, n + 2 * hidden]), _sigmoid(gates[b, n + 3 * hidden])
            state = f * c[b, n] + i * g
            c_next[b, n] = state
            h_next[b, n] = o * np.tanh(state)


@loops
def attention(q, k, v, out):
    heads, length, width = q.shape
    scale = F(1 / np.sqrt(width))
    for row in prange(heads * length):
        head, i = row // length, row % length
        scores = np.empty(length, F)
        top = F(-3e38)
        for j in range(length):
            total = ZERO
            for d in range(width):
                total += q[head, i, d] * k[head, j, d]
            scores[j] = total * scale
            top = max(top, scores[j])
        sums = np.zeros(width, F)
        norm = ZERO
        for j in range(length):
            e = np.exp(scores[j] - top)
            norm += e
            for d in range(width):
                sums[d] += e * v[head, j, d]
        out[head, i] = sums / norm
