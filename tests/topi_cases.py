"""Helpers of the tests of topi: inputs by name, and results of the oracle and of a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

import schedlang as sl
from schedlang.compute.graph import placeholders


def given(**shapes: tuple[Any, ...]) -> list[sl.Tensor]:
    """Return float32 inputs of these names and shapes."""
    return [sl.placeholder(shape, name=name) for name, shape in shapes.items()]


def values(*tensors: Any, seed: int = 0) -> dict[str, np.ndarray]:
    """Return random arrays for inputs, by name."""
    rng = np.random.default_rng(seed)
    return {t.name: rng.standard_normal(t.shape).astype(t.dtype) for t in tensors}


def inputs_of(result: Any) -> dict[str, np.ndarray]:
    """Return random arrays for the inputs of a tensor, by name."""
    return values(*placeholders([result]))


def check(result: Any, expected: Any, tolerance: float = 1e-5, **arrays: np.ndarray) -> None:
    """Compare the oracle, and the default schedule run as Python, with what is expected."""
    wanted = np.asarray(expected)
    f = sl.build(sl.schedule(result), target="python")
    assert not f.unproven
    for got in (sl.reference(result)(**arrays), np.asarray(f(**arrays))):
        assert got.dtype == result.dtype
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)
