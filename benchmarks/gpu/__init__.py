"""Schedules for GPUs, functions of sizes that return a schedule and its tensors in calling order.

``SMALL`` are sizes that the emulator checks, ``LARGE`` those that ``benchmarks/cuda.py`` compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import schedlang as sl
from benchmarks.gpu import convolution, memory, products, rows, windows

Made = tuple[sl.Schedule, Sequence[sl.Tensor]]


@dataclass(frozen=True)
class GpuWork:
    """One kernel: its schedule, and what NumPy says of its inputs."""

    name: str
    make: Callable[..., Made]
    oracle: Callable[..., np.ndarray]
    small: tuple[int, ...]
    large: tuple[int, ...]

    def inputs(self, sizes: Sequence[int]) -> list[np.ndarray]:
        """Random arrays for the schedule at ``sizes``."""
        *tensors, _ = self.make(*sizes)[1]
        rng = np.random.default_rng(0)
        return [rng.random(t.shape, dtype="float32") - np.float32(0.5) for t in tensors]


def padded(x: np.ndarray, by: int) -> np.ndarray:
    return np.pad(x, ((0, 0), (0, 0), (by, by), (by, by)))


def convolved(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    views: Any = np.lib.stride_tricks.sliding_window_view
    found: np.ndarray = np.einsum(
        "nchwyx,ocyx->nohw",
        views(padded(x, w.shape[2] // 2), w.shape[2:], (2, 3))[:, :, ::stride, ::stride], w,
        optimize=True,
    )  # fmt: skip
    return found


def softmaxed(x: np.ndarray) -> np.ndarray:
    grown = np.exp(x - x.max(-1, keepdims=True))
    found: np.ndarray = grown / grown.sum(-1, keepdims=True)
    return found


def normed(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    spread = np.sqrt(x.var(1, keepdims=True) + 1e-5)
    found: np.ndarray = (x - x.mean(1, keepdims=True)) / spread * scale + shift
    return found


def blurred(x: np.ndarray) -> np.ndarray:
    across = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
    found: np.ndarray = (across[:-2] + across[1:-1] + across[2:]) / 9
    return found


def five_points(x: np.ndarray) -> np.ndarray:
    sides = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    found: np.ndarray = (x[1:-1, 1:-1] + sides) / 5
    return found


def gated(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return np.maximum(a * b + c, 0) / (1 + np.exp(-a))


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
    found: np.ndarray = softmaxed(scores) @ v
    return found


def depthwise(x: np.ndarray, w: np.ndarray, stride: int) -> np.ndarray:
    return np.stack([convolved(x[:, c : c + 1], w[c : c + 1], stride)[:, 0]
                     for c in range(x.shape[1])], 1)  # fmt: skip


WORKS = [
    GpuWork("sgemm", products.sgemm, np.matmul, (130, 140, 33), (4096, 4096, 4096)),
    GpuWork("sgemm 1000x1003x997", products.sgemm, np.matmul, (130, 131, 29), (1000, 1003, 997)),
    GpuWork("softmax", rows.softmax, softmaxed, (5, 300), (65536, 1024)),
    GpuWork("layer norm", rows.layer_norm, normed, (5, 300), (65536, 1024)),
    GpuWork("row sum", rows.row_sum, lambda x: x.sum(1), (5, 3000), (8192, 8192)),
    GpuWork("column sum", rows.column_sum, lambda x: x.sum(0), (100, 70), (8192, 8192)),
    GpuWork("transpose", memory.transpose, np.transpose, (70, 65), (8192, 8192)),
    GpuWork("relu(ab+c)sigmoid(a)", memory.chain, gated, (5000,), (1 << 26,)),
    GpuWork("box blur", windows.blur, blurred, (40, 75), (8194, 8194)),
    GpuWork("Jacobi", windows.jacobi, five_points, (40, 75), (8194, 8194)),
    GpuWork("conv C2 56^2x64>64 3x3", convolution.conv2d,
            lambda x, w: convolved(x, w, 1), (1, 9, 40, 9, 10, 3, 1), (1, 64, 64, 56, 56, 3, 1)),
    GpuWork("conv C9 14^2x256>256 3x3", convolution.conv2d,
            lambda x, w: convolved(x, w, 1), (2, 8, 32, 5, 9, 3, 1), (1, 256, 256, 14, 14, 3, 1)),
    GpuWork("conv C8 28^2x128>256 1x1/2", convolution.conv2d,
            lambda x, w: convolved(x, w, 2), (1, 9, 33, 17, 18, 1, 2), (1, 128, 256, 28, 28, 1, 2)),
    GpuWork("depthwise D3 56^2x128", convolution.depthwise,
            lambda x, w: depthwise(x, w, 1), (1, 3, 10, 9, 1), (1, 128, 56, 56, 1)),
    GpuWork("depthwise D4 56^2x128/2", convolution.depthwise,
            lambda x, w: depthwise(x, w, 2), (2, 3, 11, 9, 2), (1, 128, 56, 56, 2)),
    GpuWork("attention", products.attention, attended, (2, 70, 33), (8, 512, 64)),
]  # fmt: skip
