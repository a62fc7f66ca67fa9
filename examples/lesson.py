"""Helpers that the lessons share: a timer, a photograph, and an error for a missing library."""

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
