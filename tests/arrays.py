"""Comparison of array expressions on tensors with NumPy's on arrays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import schedlang as sl

NAMES = "ABCDEFG"


def tensors(*arrays: np.ndarray) -> list[sl.Tensor]:
    """Return a placeholder for each array."""
    return [sl.placeholder(a.shape, a.dtype, name=n) for n, a in zip(NAMES, arrays)]


def agree(
    function: Callable[..., Any], *arrays: np.ndarray, rtol: float = 1e-6, atol: float = 1e-6,
    target: str | None = None,
) -> None:  # fmt: skip
    """Assert that ``function`` of tensors computes what it returns for arrays, in the same dtype.

    It is evaluated by the oracle, or by a kernel for ``target``.
    """
    given = tensors(*arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = as_list(function(*arrays))
    made = as_list(function(*given))
    assert len(made) == len(wanted)
    for tensor, want in zip(made, wanted):
        got = computed(tensor, given, arrays, target)
        assert got.dtype == np.asarray(want).dtype, f"{got.dtype}, not {np.asarray(want).dtype}"
        assert got.shape == np.shape(want), f"{got.shape}, not {np.shape(want)}"
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def computed(
    value: Any, given: Sequence[sl.Tensor], arrays: Sequence[np.ndarray], target: str | None = None
) -> np.ndarray:
    """Return the array that ``value``, a tensor or an expression, stands for."""
    made = value if isinstance(value, sl.Tensor) else sl.named("result", value)
    oracle = sl.reference(made)
    ordered = [arrays[list(given).index(t)] for t in oracle.inputs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if target is None or made in given:
            return np.asarray(oracle(*ordered))
        return np.asarray(sl.build(sl.schedule(made), target=target)(*ordered))
