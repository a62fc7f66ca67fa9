"""te's ``tvm.testing``: the function by which te programs check results."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise :class:`AssertionError` unless shapes are equal and values close, as in te."""
    got, expected = np.asarray(actual), np.asarray(desired)
    assert got.shape == expected.shape, f"shapes differ: {got.shape} and {expected.shape}"
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol)


__all__ = ["assert_allclose"]
