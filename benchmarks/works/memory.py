"""Memory-bound works: rows, stencils, pictures, chains of elementwise operations."""

from __future__ import annotations

from math import exp, pi, sqrt
from typing import Any

import numpy as np

from benchmarks.works.work import Work

EPSILON = 1e-5
KAPPA = 0.04
LUMA = (0.299, 0.587, 0.114)
# a Gaussian with sigma 1.5, from the middle outwards
GAUSS = tuple(exp(-d * d / (2 * 1.5**2)) / (sqrt(2 * pi) * 1.5) for d in range(4))


def softmax(rows: int, width: int) -> Work:
    def oracle(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    return _rows("softmax", rows, width, {"x": (rows, width)}, (rows, width), oracle, atol=1e-7)


def layer_norm(rows: int, width: int) -> Work:
    def oracle(x: Any, gain: Any, bias: Any) -> Any:
        apart = x - x.mean(axis=1, keepdims=True)
        return apart / np.sqrt((apart**2).mean(axis=1, keepdims=True) + EPSILON) * gain + bias

    inputs = {"x": (rows, width), "gain": (width,), "bias": (width,)}
    return _rows("layer norm", rows, width, inputs, (rows, width), oracle)


def row_sum(rows: int, width: int) -> Work:
    inputs = {"x": (rows, width)}
    return _rows(
        "row sum", rows, width, inputs, (rows,), lambda x: x.sum(axis=1), atol=1e-7 * width
    )


def column_sum(rows: int, width: int) -> Work:
    return Work(
        f"column sum {rows}x{width}", "column_sum", {"rows": rows, "width": width},
        {"x": (rows, width)}, {"y": (width,)}, lambda x: x.sum(axis=0), "copy", atol=1e-7 * rows,
    )  # fmt: skip


def _rows(
    title: str, rows: int, width: int, inputs: Any, output: Any, oracle: Any, atol: float = 1e-5
) -> Work:
    return Work(
        f"{title} {rows}x{width}", title.replace(" ", "_"), {"rows": rows, "width": width},
        inputs, {"y": output}, oracle, "copy", atol=atol,
    )  # fmt: skip


def box_blur(size: int) -> Work:
    """Return a 3x3 box blur along rows, then columns. The input has a border of one point."""

    def oracle(x: Any) -> Any:
        along = (x[:, :-2] + x[:, 1:-1] + x[:, 2:]) / 3
        return (along[:-2] + along[1:-1] + along[2:]) / 3

    return _stencil("box blur", size, oracle)


def jacobi(size: int) -> Work:
    """Return a five-point stencil. The input has a border of one point."""

    def oracle(x: Any) -> Any:
        sides = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        return 0.2 * (x[1:-1, 1:-1] + sides)

    return _stencil("Jacobi", size, oracle)


def _stencil(title: str, size: int, oracle: Any) -> Work:
    return Work(
        f"{title} {size}^2", title.lower().replace(" ", "_"), {"size": size},
        {"x": (size + 2, size + 2)}, {"y": (size, size)}, oracle, "copy",
    )  # fmt: skip


def unsharp(height: int, width: int) -> Work:
    """Return Halide's unsharp mask, with a 7-point Gaussian along both axes and repeated edges."""

    def smoothed(v: Any) -> Any:
        p = np.pad(v, ((3, 3), (0, 0)), mode="edge")
        parts = [p[3 + d : 3 + d + len(v)] * GAUSS[abs(d)] for d in range(-3, 4)]
        return np.add.reduce(parts)

    def oracle(rgb: Any) -> Any:
        gray = np.einsum("c,cyx->yx", LUMA, rgb)
        soft = smoothed(smoothed(gray).T).T
        return rgb * ((2 * gray - soft) / gray)

    # Colours start at 0.1, since the mask divides by gray.
    return Work(
        f"unsharp mask {height}x{width}", "unsharp", {"height": height, "width": width},
        {"rgb": (3, height, width)}, {"y": (3, height, width)}, oracle, "copy", low=0.1,
    )  # fmt: skip


def harris(height: int, width: int) -> Work:
    """Return Halide's Harris corner response, two points smaller on every side."""

    def box(v: Any) -> Any:
        rows = v[:-2] + v[1:-1] + v[2:]
        return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]

    def oracle(rgb: Any) -> Any:
        gray = np.einsum("c,cyx->yx", LUMA, rgb)
        down, across = gray[2:] - gray[:-2], gray[:, 2:] - gray[:, :-2]
        iy = (down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]) / 12
        ix = (across[:-2] + 2 * across[1:-1] + across[2:]) / 12
        xx, yy, xy = box(ix * ix), box(iy * iy), box(ix * iy)
        return xx * yy - xy * xy - KAPPA * (xx + yy) ** 2

    return Work(
        f"Harris {height}x{width}", "harris", {"height": height, "width": width},
        {"rgb": (3, height, width)}, {"y": (height - 4, width - 4)}, oracle, "copy",
        low=0.1, atol=1e-8,
    )  # fmt: skip


def chain(count: int) -> Work:
    def oracle(a: Any, b: Any, c: Any) -> Any:
        return np.maximum(a * b + c, 0) / (1 + np.exp(-a))

    shape = (count,)
    return Work(
        f"relu(ab+c)sigmoid(a) {count >> 20}M", "chain", {"count": count},
        {"a": shape, "b": shape, "c": shape}, {"y": shape}, oracle, "copy",
    )  # fmt: skip


def transpose(size: int) -> Work:
    return Work(
        f"transpose {size}^2", "transpose", {"size": size}, {"x": (size, size)},
        {"y": (size, size)}, lambda x: x.T, "copy", rtol=0, atol=0,
    )  # fmt: skip


WORKS = (
    softmax(4096, 1024), layer_norm(4096, 1024), row_sum(4096, 4096), box_blur(2048),
    jacobi(2048), unsharp(1536, 2560), harris(1536, 2560), chain(16 << 20), transpose(4096),
)  # fmt: skip
