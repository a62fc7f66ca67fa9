"""Rank correlation: how well one order predicts another, whatever the scales."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# the fewest pairs with a correlation: fewer are often in the same order by chance
LEAST = 3


def ranks(values: Sequence[float]) -> np.ndarray:
    """Return the rank of each value, from 1 up; equal values share the mean of their ranks.

    >>> ranks([30.0, 10.0, 20.0, 20.0]).tolist()
    [4.0, 1.0, 2.5, 2.5]
    """
    _, inverse, counts = np.unique(
        np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True
    )
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse.reshape(-1)]


def spearman(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation of pairs: 1 for the same order, -1 for the opposite one.

    Return ``None`` for fewer than three pairs, or if one side is constant. Pairs with a NaN are
    left out.

    C. Spearman, The Proof and Measurement of Association between Two Things, American Journal of
    Psychology 15 (1904), 72-101; with ties it is Pearson's correlation of the mean ranks.

    >>> spearman([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    >>> spearman([1, 2], [1, 2]) is None, spearman([1, 1, 1], [1, 2, 3]) is None
    (True, True)
    """
    pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if x == x and y == y]
    if len(pairs) < LEAST:
        return None
    left, right = (ranks(side) for side in zip(*pairs))
    left, right = left - left.mean(), right - right.mean()
    scale = float(left @ left) * float(right @ right)
    if scale == 0:
        return None
    # rounding may take a perfect order past 1
    return round(max(-1.0, min(1.0, float(left @ right) / scale**0.5)), 12)
