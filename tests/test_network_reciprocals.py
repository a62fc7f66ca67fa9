"""Quotients by values that are known ahead, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl
from schedlang.compute.tensor import ComputeOp
from schedlang.networks.reciprocals import with_reciprocals
from tests.onnx_cases import f32

TINY = float(np.finfo("float32").tiny)


def quotient(dtype: str = "float32") -> tuple[sl.Tensor, sl.Tensor]:
    """Return rows divided by a value each, and these values."""
    x, s = sl.placeholder((5, 7), dtype, name="x"), sl.placeholder((5,), dtype, name="s")
    y = sl.compute((5, 7), lambda i, j: x[i, j] / s[i] / s[0], name="y")
    return y, s


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_with_the_reciprocal_is_the_quotient(dtype: str) -> None:
    y, s = quotient(dtype)
    scales = np.abs(f32(5)).astype(dtype) + 0.25
    (result,) = with_reciprocals([y], {s: scales})
    assert isinstance(result.op, ComputeOp) and "/" not in str(result.op.body[0])
    x = f32(5, 7).astype(dtype)
    expected = x / scales[:, None] / scales[0]
    np.testing.assert_allclose(sl.reference(result)(x, scales), expected, 8 * np.finfo(dtype).eps)


@pytest.mark.parametrize("scale", [0.0, TINY / 2, np.inf, np.nan, 2 / TINY])
def test_a_quotient_without_a_normal_reciprocal_stays(scale: float) -> None:
    y, s = quotient()
    scales = np.array([1, 2, 3, scale, 5], "float32")
    assert with_reciprocals([y], {s: scales}) == (y,)


def test_a_quotient_by_an_input_stays() -> None:
    y, _ = quotient()
    assert with_reciprocals([y], {}) == (y,)


def test_fold_false_keeps_quotients() -> None:
    y, s = quotient()
    scales, x = f32(5) + 3, f32(5, 7)
    for fold in (True, False):
        net = sl.network(y, {s: scales}, fold=fold, database=None)
        assert ("s_reciprocal" in net.source) is fold
        np.testing.assert_allclose(net(x), x / scales[:, None] / scales[0], 1e-6)
