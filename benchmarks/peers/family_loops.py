"""numba loops for the operator families, with a pixel or a row per iteration of ``prange``.

Convolutions skip taps outside the input. They add one input channel to all output channels at
once, which is the loop that LLVM vectorizes.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from benchmarks.peers.numba_loops import ZERO, loops, softmax


@loops
def family_gmm(a, b, c):
    batch, rows, columns = c.shape
    for row in prange(batch * rows):
        n, i = row // rows, row % rows
        c[n, i, :] = 0
        for k in range(a.shape[2]):
            for j in range(columns):
                c[n, i, j] += a[n, i, k] * b[n, k, j]


@loops
def family_c1d(x, w, y, stride, pad):
    for p in prange(y.shape[1]):
        y[0, p, :] = 0
        for i in range(w.shape[0]):
            at = p * stride + i - pad
            if at >= 0 and at < x.shape[1]:
                for c in range(w.shape[1]):
                    for o in range(w.shape[2]):
                        y[0, p, o] += x[0, at, c] * w[i, c, o]


@loops
def family_c2d(x, w, y, stride, pad, dilation=1):
    high, wide = y.shape[1:3]
    for pixel in prange(high * wide):
        p, q = pixel // wide, pixel % wide
        y[0, p, q, :] = 0
        for i in range(w.shape[0]):
            row = p * stride + i * dilation - pad
            if row < 0 or row >= x.shape[1]:
                continue
            for j in range(w.shape[1]):
                column = q * stride + j * dilation - pad
                if column < 0 or column >= x.shape[2]:
                    continue
                for c in range(w.shape[2]):
                    for o in range(w.shape[3]):
                        y[0, p, q, o] += x[0, row, column, c] * w[i, j, c, o]


family_dil = family_c2d


@loops
def family_c3d(x, w, y, stride, pad):
    deep, high, wide = y.shape[1:4]
    for pixel in prange(deep * high * wide):
        d, p, q = pixel // (high * wide), pixel // wide % high, pixel % wide
        y[0, d, p, q, :] = 0
        for h in range(w.shape[0]):
            slab = d * stride + h - pad
            if slab < 0 or slab >= x.shape[1]:
                continue
            for i in range(w.shape[1]):
                row = p * stride + i - pad
                if row < 0 or row >= x.shape[2]:
                    continue
                for j in range(w.shape[2]):
                    column = q * stride + j - pad
                    if column < 0 or column >= x.shape[3]:
                        continue
                    for c in range(w.shape[3]):
                        for o in range(w.shape[4]):
                            y[0, d, p, q, o] += x[0, slab, row, column, c] * w[h, i, j, c, o]


@loops
def family_grp(x, w, y, stride, pad, groups):
    high, wide = y.shape[1:3]
    ic, oc = w.shape[2], w.shape[3] // groups
    for pixel in prange(high * wide):
        p, q = pixel // wide, pixel % wide
        y[0, p, q, :] = 0
        for i in range(w.shape[0]):
            row = p * stride + i - pad
            if row < 0 or row >= x.shape[1]:
                continue
            for j in range(w.shape[1]):
                column = q * stride + j - pad
                if column < 0 or column >= x.shape[2]:
                    continue
                for g in range(groups):
                    for c in range(ic):
                        for o in range(oc):
                            seen = x[0, row, column, g * ic + c]
                            y[0, p, q, g * oc + o] += seen * w[i, j, c, g * oc + o]


@loops
def family_dep(x, w, y, stride, pad):
    high, wide = y.shape[1:3]
    for pixel in prange(high * wide):
        p, q = pixel // wide, pixel % wide
        y[0, p, q, :] = 0
        for i in range(w.shape[1]):
            row = p * stride + i - pad
            if row < 0 or row >= x.shape[1]:
                continue
            for j in range(w.shape[2]):
                column = q * stride + j - pad
                if column < 0 or column >= x.shape[2]:
                    continue
                for c in range(y.shape[3]):
                    y[0, p, q, c] += x[0, row, column, c] * w[0, i, j, c]


@loops
def family_t2d(x, w, y, stride, pad):
    high, wide = y.shape[1:3]
    for pixel in prange(high * wide):
        p, q = pixel // wide, pixel % wide
        y[0, p, q, :] = 0
        for i in range(w.shape[0]):
            # Skip taps that meet a zero between inputs, or lie outside.
            row = (p + pad - i) // stride
            if (p + pad - i) % stride or row < 0 or row >= x.shape[1]:
                continue
            for j in range(w.shape[1]):
                column = (q + pad - j) // stride
                if (q + pad - j) % stride or column < 0 or column >= x.shape[2]:
                    continue
                for c in range(w.shape[2]):
                    for o in range(w.shape[3]):
                        y[0, p, q, o] += x[0, row, column, c] * w[i, j, c, o]


@loops
def family_cap(x, w, y, stride, pad):
    high, wide, side = y.shape[1:4]
    for pixel in prange(high * wide):
        p, q = pixel // wide, pixel % wide
        y[0, p, q, :, :, :] = 0
        for i in range(w.shape[0]):
            row = p * stride + i - pad
            if row < 0 or row >= x.shape[1]:
                continue
            for j in range(w.shape[1]):
                column = q * stride + j - pad
                if column < 0 or column >= x.shape[2]:
                    continue
                for u in range(side):
                    for k in range(side):
                        for v in range(side):
                            for c in range(w.shape[4]):
                                for o in range(w.shape[5]):
                                    seen = x[0, row, column, u, k, c]
                                    y[0, p, q, u, v, o] += seen * w[i, j, k, v, c, o]


@loops
def family_nrm(a, y):
    for n in range(a.shape[0]):
        total = ZERO
        for i in prange(a.shape[1]):
            part = ZERO
            for j in range(a.shape[2]):
                part += a[n, i, j] * a[n, i, j]
            total += part
        y[n] = np.sqrt(total)


family_sfm = softmax


@loops
def family_cbr(x, w, bias, scale, offset, y, stride, pad):
    high, wide = y.shape[1:3]
    for pixel in prange(high * wide):
        p, q = pixel // wide, pixel % wide
        y[0, p, q, :] = 0
        for i in range(w.shape[0]):
            row = p * stride + i - pad
            if row < 0 or row >= x.shape[1]:
                continue
            for j in range(w.shape[1]):
                column = q * stride + j - pad
                if column < 0 or column >= x.shape[2]:
                    continue
                for c in range(w.shape[2]):
                    for o in range(w.shape[3]):
                        y[0, p, q, o] += x[0, row, column, c] * w[i, j, c, o]
        for o in range(y.shape[3]):
            y[0, p, q, o] = max((y[0, p, q, o] + bias[o]) * scale[o] + offset[o], ZERO)


@loops
def family_tbg(query, value, out):
    batch, heads, length = out.shape[:3]
    for line in prange(batch * heads * length):
        b, h, i = line // (heads * length), line // length % heads, line % length
        for j in range(length):
            total = ZERO
            for k in range(query.shape[3]):
                total += query[b, i, h, k] * value[b, j, h, k]
            out[b, h, i, j] = total
