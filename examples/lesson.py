"""Helpers that the lessons share: a timer, a photograph, pictures of digits."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from schedlang.errors import missing_extra


def milliseconds(call: Callable[..., Any], *arrays: Any, seconds: float = 0.5) -> float:
    """Return the median time of ``call(*arrays)`` in milliseconds, after one untimed call."""
    call(*arrays)
    times: list[float] = []
    end = perf_counter() + seconds
    while len(times) < 3 or perf_counter() < end:
        start = perf_counter()
        call(*arrays)
        times.append(perf_counter() - start)
    return float(np.median(times)) * 1e3


def photograph(name: str) -> np.ndarray:
    """Load one of scikit-learn's two photographs: uint8, of shape (427, 640, 3)."""
    try:
        from sklearn.datasets import load_sample_image

        return np.ascontiguousarray(load_sample_image(name))
    except ImportError:
        raise SystemExit(
            missing_extra("scikit-learn and pillow", "examples", "This lesson")
        ) from None


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the training pictures and labels, then the held-out pictures and labels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise SystemExit(missing_extra("scikit-learn", "examples", "This lesson")) from None
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, y = (x[order] / 16).astype(np.float32), y[order]
    return x[:1400], y[:1400], x[1400:], y[1400:]
