"""Masks of attention, as ONNX and PyTorch mean them."""

from __future__ import annotations

from schedlang import topi
from schedlang.compute.tensor import Tensor


def zero_unseen(made: Tensor, bias: Tensor) -> Tensor:
    """Return attention ``made[batch, heads, rows, columns]`` with 0 for rows that see nothing.

    ``bias[batch, heads, rows, keys]``, with 1 for dimensions that broadcast, masks each key of
    such a row with minus infinity. ``topi.nn.attention`` makes these rows NaN, as a softmax is.
    """
    seen = topi.any(topi.not_equal(bias, float("-inf")), -1, True)
    return topi.where(seen, made, 0.0)
