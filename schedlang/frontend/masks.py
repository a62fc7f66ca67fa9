"""Masks of attention, as ONNX and PyTorch mean them."""

from __future__ import annotations

from schedlang import topi
from schedlang.compute.tensor import Tensor


def zero_unseen(attended: Tensor, bias: Tensor) -> Tensor:
    """Return attention ``made[batch, heads, rows, columns]`` with 0 for rows that see nothing.

    ``bias[batch, heads, rows, keys]``, with 1 for dimensions that broadcast, masks each key of such
    a row with minus infinity. ``topi.nn.attention`` makes these rows NaN, like a softmax.
    """
    is_visible = topi.any(topi.not_equal(bias, float("-inf")), -1, True)
    return topi.where(is_visible, attended, 0.0)
