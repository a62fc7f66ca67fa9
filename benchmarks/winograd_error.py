"""Rounding errors of Winograd convolutions: ``python -m benchmarks.winograd_error``.

Each row is a 3 by 3 layer of ResNet-50, with inputs like those after relu and weights of its usual
initialization. Errors are the largest difference from the convolution in float64, relative to the
largest output; the NumPy oracle computes all sums.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

import schedlang as sl
from schedlang import topi

LAYERS = ((64, 56), (128, 28), (256, 14), (512, 7))


def exact(x: np.ndarray, w: np.ndarray) -> Any:
    """Return the convolution in float64 of NCHW ``x`` and OIHW ``w``, padded by 1."""
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.tensordot(views, w.astype("float64"), ([1, 4, 5], [1, 2, 3])).transpose(0, 3, 1, 2)


def errors(channels: int, size: int, seed: int = 0) -> dict[str, float]:
    """Return the error of the direct convolution, of F(2x2, 3x3) and of F(4x4, 3x3)."""
    rng = np.random.default_rng(seed)
    x = np.maximum(rng.standard_normal((1, channels, size, size)), 0).astype("float32")
    scale = np.sqrt(2 / (9 * channels))
    w = (rng.standard_normal((channels, channels, 3, 3)) * scale).astype("float32")
    A, W = sl.placeholder(x.shape, name="A"), sl.placeholder(w.shape, name="W")
    expected = exact(x, w)
    made = {
        "direct": topi.nn.conv2d_nchw(A, W, 1, 1, 1),
        "F(2x2, 3x3)": topi.nn.conv2d_winograd_nchw(A, W, 1, 1, 1, tile_size=2),
        "F(4x4, 3x3)": topi.nn.conv2d_winograd_nchw(A, W, 1, 1, 1, tile_size=4),
    }
    largest = np.abs(expected).max()
    return {
        name: float(np.abs(sl.reference(tensor)(x, w) - expected).max() / largest)
        for name, tensor in made.items()
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table of errors, each the largest of ``--seeds`` runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(parser.parse_args(arguments).seeds)
    print("| layer | direct | F(2x2, 3x3) | F(4x4, 3x3) |\n|---|---|---|---|")
    for channels, size in LAYERS:
        runs = [errors(channels, size, seed) for seed in seeds]
        cells = (f"{max(run[name] for run in runs):.1e}" for name in runs[0])
        print(f"| {channels} channels, {size}² | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
