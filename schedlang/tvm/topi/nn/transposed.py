"""Transposed convolutions, by the windows of the input that each output element meets."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute.math import all as every
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.construct import as_expr, cast
from schedlang.signatures import public
from schedlang.tvm.topi.checks import (
    MEANINGS,
    SPATIAL,
    check_divides,
    check_numbers,
    check_same,
    check_whole,
    laid_out,
)
from schedlang.tvm.topi.nn.convolution import OUTPUT_AXES, REDUCE_AXES
from schedlang.tvm.topi.stages import compute, result_dtype
from schedlang.tvm.topi.windows import pad_windows, paddings


@public
def conv1d_transpose_ncw(
    data: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    out_dtype: Any = None,
    output_padding: Any = 0,
) -> Tensor:
    """Return the transposed convolution of ``data[n, c, w]`` with ``kernel[c, o, w]``.

    See :func:`conv2d_transpose_nchw`.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 3, 8), name="A"), sl.placeholder((3, 5, 4), name="W")
    >>> conv1d_transpose_ncw(A, W, 2, 1)
    Tensor(conv1d_transpose_ncw: float32[1, 5, 16])
    """
    return transposed_convolution(data, kernel, stride, padding, out_dtype, output_padding, 1, 1)


@public
def group_conv1d_transpose_ncw(
    data: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    out_dtype: Any = None,
    output_padding: Any = 0,
    groups: int = 1,
) -> Tensor:
    """Return the transposed convolution with ``kernel[c, o // groups, w]``.

    See :func:`conv2d_transpose_nchw`.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 4, 8), name="A"), sl.placeholder((4, 3, 4), name="W")
    >>> group_conv1d_transpose_ncw(A, W, 2, 1, groups=2)
    Tensor(group_conv1d_transpose_ncw: float32[1, 6, 16])
    """
    return transposed_convolution(
        data, kernel, stride, padding, out_dtype, output_padding, groups, 1
    )


@public
def conv2d_transpose_nchw(
    Input: Any,
    Filter: Any,
    strides: Any,
    padding: Any,
    out_dtype: Any = None,
    output_padding: Any = 0,
) -> Tensor:
    """Return the transposed convolution of ``Input[n, c, h, w]`` with ``Filter[c, o, h, w]``.

    It is the gradient of a convolution by its input: ``Input[n, c, q, ...]`` times
    ``Filter[c, f, ry, ...]`` is added to the element ``q*stride - top + ry`` of the result. The
    height of the result is ``(h - 1)*stride - top - bottom + (kernel height) + output_padding``.
    Elements between strides cost nothing: the sum is only over ``ry`` that meet an element of the
    input.

    ``output_padding`` must be smaller than the stride. See :func:`~schedlang.tvm.topi.nn.conv` for
    strides, padding and dtypes.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 3, 8, 8), name="A"), sl.placeholder((3, 5, 3, 3), name="W")
    >>> conv2d_transpose_nchw(A, W, (2, 2), (1, 1), "float32", (1, 1))
    Tensor(conv2d_transpose_nchw: float32[1, 5, 16, 16])
    """
    return transposed_convolution(Input, Filter, strides, padding, out_dtype, output_padding, 1, 2)


@public
def group_conv2d_transpose_nchw(
    data: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    out_dtype: Any = None,
    output_padding: Any = 0,
    groups: int = 1,
) -> Tensor:
    """Return the transposed convolution with ``kernel[c, o // groups, h, w]``.

    See :func:`conv2d_transpose_nchw`.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 4, 8, 8), name="A"), sl.placeholder((4, 3, 2, 2), name="W")
    >>> group_conv2d_transpose_nchw(A, W, 2, 0, groups=2)
    Tensor(group_conv2d_transpose_nchw: float32[1, 6, 16, 16])
    """
    return transposed_convolution(
        data, kernel, stride, padding, out_dtype, output_padding, groups, 2
    )


@public
def conv3d_transpose_ncdhw(
    Input: Any,
    Filter: Any,
    strides: Any,
    padding: Any,
    out_dtype: Any = None,
    output_padding: Any = 0,
) -> Tensor:
    """Return the transposed convolution of ``Input[n, c, d, h, w]`` with ``Filter[c, o, d, h, w]``.

    See :func:`conv2d_transpose_nchw`.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 3, 2, 4, 4), name="A")
    >>> W = sl.placeholder((3, 5, 2, 2, 2), name="W")
    >>> conv3d_transpose_ncdhw(A, W, 2, 0)
    Tensor(conv3d_transpose_ncdhw: float32[1, 5, 4, 8, 8])
    """
    return transposed_convolution(Input, Filter, strides, padding, out_dtype, output_padding, 1, 3)


def transposed_convolution(
    data: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    out_dtype: Any,
    output_padding: Any,
    groups: Any,
    count: int,
) -> Tensor:
    letters = SPATIAL[-count:]
    layout = f"NC{letters}"
    name = f"{'group_' * (groups != 1)}conv{count}d_transpose_{layout.lower()}"
    asked = f"topi.nn.{name}"
    laid_out(asked, data, "data", layout)
    laid_out(asked, kernel, "kernel", f"IO{letters}")
    (groups,) = check_numbers(asked, groups, "groups", (1,), 1)
    batch, channels = data.shape[:2]
    inputs, outputs = kernel.shape[:2]
    check_same(
        asked,
        channels,
        f"the number of channels of data {data.name}",
        inputs,
        f"the number of input channels of kernel {kernel.name}",
    )
    check_divides(
        f"{asked} with groups={groups}",
        channels,
        groups,
        f"the number of channels of data {data.name}",
        f"{groups} equal groups",
    )
    strides = check_numbers(asked, stride, "stride", (count,), 1)
    extra = check_numbers(asked, output_padding, "output_padding", (count,), 0)
    kernels = [
        check_whole(asked, e, f"dimension {c} of {kernel.name}")
        for c, e in zip(letters, kernel.shape[2:])
    ]
    check_numbers(asked, kernels, "kernel", (count,), 1)
    widths = paddings(asked, padding, kernels)
    shape, along = [batch, extent(as_expr(outputs) * groups)], {}
    for c, size, k, s, more, (before, after) in zip(
        letters, data.shape[2:], kernels, strides, extra, widths
    ):
        if more >= s:
            raise ComputeError(
                f"{asked}: output_padding={more} must be smaller than the stride {s}, since it "
                "chooses one of the sizes that a strided convolution makes equal"
            )
        size_of_result = extent((as_expr(size) - 1) * s + (k + more - before - after))
        if isinstance(size_of_result, int) and size_of_result < 1:
            raise ComputeError(
                explain(
                    f"{asked} of {data.name}",
                    f"the {MEANINGS[c]} of the result would be {size_of_result}",
                    "Use less padding.",
                )
            )
        shape.append(size_of_result)
        # an output at the edge meets inputs before the first and after the last one, which are 0
        along[c] = (max(0, -(-k // s) - 1 - before // s), max(0, (k + more - 1 - after) // s))
    source = pad_windows(data, layout, along)
    dtype = result_dtype(out_dtype, data, kernel)
    per_group = extent(as_expr(channels) // groups) if groups > 1 else channels
    rc = reduce_axis(per_group, "rc")
    taps = [reduce_axis(-(-k // s), REDUCE_AXES[c]) for c, k, s in zip(letters, kernels, strides)]

    def element(n: Axis, f: Axis, *out: Axis) -> Reduction:
        channel: Expr = rc if groups == 1 else f // outputs * per_group + rc
        weight, read, conditions = [], [], []
        for c, y, tap, k, s, (before, _) in zip(letters, out, taps, kernels, strides, widths):
            place = y + before if before else y
            ry = tap if s == 1 else place % s + tap * s
            weight.append(ry)
            read.append((place if s == 1 else place // s) - tap + along[c][0])
            if k % s:
                conditions.append(ry < k)
        value = cast(source.element((n, channel, *read)), dtype)
        output = f if groups == 1 else f % outputs
        product = value * cast(kernel.element((channel, output, *weight)), dtype)
        return total(product, [rc, *taps], every(*conditions) if conditions else None)

    return compute(name, tuple(shape), element, [OUTPUT_AXES[c] for c in layout])
