"""Convolutions of one to three dimensions as calls of topi, for models of any library."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang import topi
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Tensor
from schedlang.tvm.topi.nn.transposed import transposed_convolution

# by the number of spatial dimensions
LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def convolve(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    dtype: str,
) -> Tensor:
    """Return a convolution with sums of ``dtype``; ``padding`` is at both ends of dimensions."""
    layout = LAYOUTS[weight.ndim - 2]
    operands = (x, weight, stride, padding, dilation)
    by_channel = weight.shape[1] == 1 and 1 < groups == x.shape[1] == weight.shape[0]
    if by_channel and layout == "NCHW":
        return topi.nn.depthwise_conv2d_nchw(*operands, dtype)
    return topi.nn.conv(*operands, groups, layout, f"OI{layout[2:]}", dtype)


def convolve_transposed(
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    extra: Sequence[int],
    groups: int,
    dtype: str,
) -> Tensor:
    """Return a transposed convolution with sums of ``dtype`` and output padding ``extra``."""
    count = weight.ndim - 2
    return transposed_convolution(x, weight, stride, padding, dtype, extra, groups, count)


def as_column(bias: Tensor | None, count: int) -> Tensor | None:
    """Return a bias of each channel as it broadcasts to images of ``count`` dimensions."""
    return None if bias is None else reshape(bias, (bias.shape[0], *[1] * count))
