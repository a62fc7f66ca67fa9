"""NCHW convolutions and pooling, with the same padding before and after, and batch 1 by default."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.works.linear import DRIFT
from benchmarks.works.work import Work


def conv2d(
    label: str, size: int, ic: int, oc: int, k: int, stride: int, pad: int, batch: int = 1
) -> Work:
    out = (size + 2 * pad - k) // stride + 1

    def oracle(x: Any, w: Any) -> Any:
        made = np.empty((batch, oc, out, out))
        for image, result in zip(x, made):
            columns = windows(image, k, stride, pad).transpose(1, 2, 0, 3, 4)
            product = columns.reshape(out * out, ic * k * k) @ w.reshape(oc, -1).T
            result[...] = product.T.reshape(oc, out, out)
        return made

    return Work(
        f"conv {label} {size}^2x{ic}>{oc} {k}x{k}/{stride}{_of(batch)}", "conv2d",
        {"size": size, "ic": ic, "oc": oc, "k": k, "stride": stride, "pad": pad, "out": out,
         "batch": batch},
        {"x": (batch, ic, size, size), "w": (oc, ic, k, k)}, {"y": (batch, oc, out, out)},
        oracle, "fma", flops=2.0 * batch * oc * out * out * ic * k * k, atol=DRIFT * ic * k * k,
    )  # fmt: skip


def _of(batch: int) -> str:
    return f" batch {batch}" if batch > 1 else ""


def depthwise(label: str, size: int, channels: int, stride: int, batch: int = 1) -> Work:
    """Return a 3x3 depthwise convolution with padding 1: PyTorch's SAME, also at stride 2."""
    k, pad = 3, 1
    out = (size + 2 * pad - k) // stride + 1

    def oracle(x: Any, w: Any) -> Any:
        seen = (windows(image, k, stride, pad) for image in x)
        return np.stack([np.einsum("cyxij,cij->cyx", image, w[:, 0]) for image in seen])

    return Work(
        f"depthwise {label} {size}^2x{channels}/{stride}{_of(batch)}", "depthwise",
        {"size": size, "channels": channels, "k": k, "stride": stride, "pad": pad, "out": out,
         "batch": batch},
        {"x": (batch, channels, size, size), "w": (channels, 1, k, k)},
        {"y": (batch, channels, out, out)},
        oracle, "copy", flops=2.0 * batch * channels * out * out * k * k,
    )  # fmt: skip


def max_pool(size: int, channels: int) -> Work:
    """Return ResNet's max pooling: 3x3, stride 2, padded by 1 with minus infinity."""
    k, stride, pad = 3, 2, 1
    out = (size + 2 * pad - k) // stride + 1

    def oracle(x: Any) -> Any:
        return windows(x[0], k, stride, pad, -np.inf).max(axis=(3, 4))[None]

    return Work(
        f"max pool 3x3/2 {channels}x{size}^2", "max_pool",
        {"size": size, "channels": channels, "k": k, "stride": stride, "pad": pad, "out": out},
        {"x": (1, channels, size, size)}, {"y": (1, channels, out, out)}, oracle, "copy",
    )  # fmt: skip


def windows(x: Any, k: int, stride: int, pad: int, value: float = 0.0) -> Any:
    """Return the view ``[channel, y, x, i, j]``: the window of each output point."""
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad)), constant_values=value)
    return np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))[:, ::stride, ::stride]


# Table 2 of the TVM paper: ResNet-18's layers, then MobileNet's
CONV = (
    (224, 3, 64, 7, 2, 3), (56, 64, 64, 3, 1, 1), (56, 64, 64, 1, 1, 0), (56, 64, 128, 3, 2, 1),
    (56, 64, 128, 1, 2, 0), (28, 128, 128, 3, 1, 1), (28, 128, 256, 3, 2, 1),
    (28, 128, 256, 1, 2, 0), (14, 256, 256, 3, 1, 1), (14, 256, 512, 3, 2, 1),
    (14, 256, 512, 1, 2, 0), (7, 512, 512, 3, 1, 1),
)  # fmt: skip
DEPTHWISE = (
    (112, 32, 1), (112, 64, 2), (56, 128, 1), (56, 128, 2), (28, 256, 1), (28, 256, 2),
    (14, 512, 1), (14, 512, 2), (7, 1024, 1),
)  # fmt: skip

WORKS = (
    *(conv2d(f"C{n}", *layer) for n, layer in enumerate(CONV, 1)),
    *(depthwise(f"D{n}", *layer) for n, layer in enumerate(DEPTHWISE, 1)),
)
LAYERS = (max_pool(112, 64),)
