"""Convolutions of ATen, of one to three dimensions, also transposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang import topi
from schedlang.arrays.shaping import expand_dims, squeeze
from schedlang.compute.tensor import Tensor
from schedlang.frontend.convolutions import LAYOUTS, as_column, convolve, convolve_transposed
from schedlang.frontend.torch.calls import Call, Operator


def convolution(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    count = weight.ndim - 2
    single = x.ndim == count + 1
    data = expand_dims(x, 0) if single else x
    steps, spread, extra = (each(v, count) for v in (stride, dilation, output_padding))
    widths = padding if isinstance(padding, list) and len(padding) == 2 * count else None
    widths = widths or [*each(padding, count)] * 2
    if transposed:
        convolved = _transposed(call, data, weight, steps, widths[:count], spread, extra, groups)
    else:
        convolved = convolve(data, weight, steps, widths, spread, groups, call.wide)
    convolved = call.biased(convolved, as_column(bias, count))
    return squeeze(convolved, 0) if single else convolved


def _transposed(
    call: Call,
    data: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    extra: Sequence[int],
    groups: int,
) -> Tensor:
    # a dilated convolution has zeros between its weights
    weights = topi.nn.dilate(weight, (1, 1, *dilation)) if max(dilation) > 1 else weight
    return convolve_transposed(data, weights, stride, padding, extra, groups, call.wide)


def each(given: Any, count: int) -> tuple[Any, ...]:
    """Return a number for each of ``count`` dimensions, where one number stands for all."""
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    return tuple(items * count if len(items) == 1 else items)


def conv(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Tensor:
    return convolution(call, x, weight, bias, stride, padding, dilation, False, 0, groups)


def conv_named(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: str,
    dilation: Any,
    groups: int,
) -> Tensor:
    """A convolution with ``padding="valid"``, or ``"same"``, whose odd element is at the end."""
    count = weight.ndim - 2
    spans = [d * (k - 1) for d, k in zip(each(dilation, count), weight.shape[2:])]
    if padding == "valid":
        spans = [0] * count
    widths = [s // 2 for s in spans] + [s - s // 2 for s in spans]
    return convolution(call, x, weight, bias, stride, widths, dilation, False, 0, groups)


def conv_transpose(
    call: Call,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    return convolution(
        call, x, weight, bias, stride, padding, dilation, True, output_padding, groups
    )


OPERATORS: dict[str, Operator] = {
    "convolution.default": convolution,
    **{f"conv{n}d.default": conv for n in LAYOUTS},
    **{f"conv{n}d.padding": conv_named for n in LAYOUTS},
    "conv_transpose1d.default": conv_transpose,
    "conv_transpose2d.input": conv_transpose,
    "conv_transpose3d.input": conv_transpose,
}
