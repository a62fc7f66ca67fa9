"""Convolutions of blocked layouts such as NCHW16c, where a vector of channels is contiguous."""

from __future__ import annotations

import re
from typing import Any

from schedlang.arrays.shapes import same
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Extent, Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Axis
from schedlang.language.construct import cast
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_same, laid_out
from schedlang.tvm.topi.nn.convolution import REDUCE_AXES
from schedlang.tvm.topi.stages import compute, result_dtype
from schedlang.tvm.topi.windows import slide

# names of the axes of a result
OUTPUTS = ("n", "fo", "y", "x", "fi")


@public
def conv2d_NCHWc(
    data: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``data`` in blocks of channels, in a layout such as ``"NCHW16c"``.

    ``data`` is ``[n, c/16, h, w, 16]``. ``kernel`` is ``[o/8, i/16, h, w, 16, 8]`` for
    ``out_layout="NCHW8c"``, in which the result is ``[n, o/8, h, w, 8]``.
    ``topi.layout_transform`` converts from and to ``NCHW``. See
    :func:`~schedlang.tvm.topi.nn.conv` for the rest.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 2, 8, 8, 16), name="A")
    >>> W = sl.placeholder((3, 2, 3, 3, 16, 8), name="W")
    >>> conv2d_NCHWc(A, W, 1, 1, 1, "NCHW16c", "NCHW8c")
    Tensor(conv2d_NCHWc: float32[1, 3, 8, 8, 8])
    """
    asked = "topi.nn.conv2d_NCHWc"
    laid_out(asked, data, "data", "NCHWc")
    laid_out(asked, kernel, "kernel", "OIHWio")
    n, blocks, _, _, block = data.shape
    out_blocks, in_blocks, _, _, in_block, out_block = kernel.shape
    check_block(asked, layout, "layout", block, data)
    check_block(asked, out_layout, "out_layout", out_block, kernel)
    channels = "the number of {} of {}".format
    check_same(
        asked,
        blocks,
        channels("blocks of channels", data.name),
        in_blocks,
        channels("blocks of input channels", kernel.name),
    )
    check_same(
        asked,
        block,
        channels("channels in a block", data.name),
        in_block,
        channels("input channels in a block", kernel.name),
    )
    slid, counts, source = slide(asked, data, "NCHWc", kernel, "OIHWio", stride, padding, dilation)
    dtype = result_dtype(out_dtype, data, kernel)
    rco, rci = reduce_axis(in_blocks, "rco"), reduce_axis(in_block, "rci")
    ry, rx = (reduce_axis(slid[c].kernel, REDUCE_AXES[c]) for c in "HW")

    def element(n: Axis, fo: Axis, y: Axis, x: Axis, fi: Axis) -> Reduction:
        value = cast(source[n, rco, slid["H"].at(y, ry), slid["W"].at(x, rx), rci], dtype)
        weight = cast(kernel[fo, rco, ry, rx, rci, fi], dtype)
        return total(value * weight, axis=[rco, ry, rx, rci])

    return compute("conv2d_NCHWc", (n, out_blocks, *counts.values(), out_block), element, OUTPUTS)


@public
def depthwise_conv2d_NCHWc(
    Input: Any,
    Filter: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    layout: str,
    out_layout: str,
    out_dtype: Any = None,
) -> Tensor:
    """Return the depthwise convolution of ``Input[n, c/16, h, w, 16]`` in blocks of channels.

    ``Filter`` is ``[c/16, 1, h, w, 1, 16]``; ``layout`` and ``out_layout`` are both ``"NCHW16c"``.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 2, 8, 8, 16), name="A")
    >>> W = sl.placeholder((2, 1, 3, 3, 1, 16), name="W")
    >>> depthwise_conv2d_NCHWc(A, W, 2, 1, 1, "NCHW16c", "NCHW16c")
    Tensor(depthwise_conv2d_NCHWc: float32[1, 2, 4, 4, 16])
    """
    asked = "topi.nn.depthwise_conv2d_NCHWc"
    laid_out(asked, Input, "Input", "NCHWc")
    laid_out(asked, Filter, "Filter", "OIHWio")
    n, blocks, _, _, block = Input.shape
    for layout_of, what in ((layout, "layout"), (out_layout, "out_layout")):
        check_block(asked, layout_of, what, block, Input)
    own, one = f"Input {Input.name}", "one filter"
    for at, value, meaning, other in (
        (0, blocks, "blocks of channels", own),
        (1, 1, "input channels", one),
        (4, 1, "input channels in a block", one),
        (5, block, "channels in a block", own),
    ):
        number = f"the number of {meaning} of"
        filters = f"{number} Filter {Filter.name}"
        check_same(asked, Filter.shape[at], filters, value, f"{number} {other}")
    slid, counts, source = slide(asked, Input, "NCHWc", Filter, "OIHWio", stride, padding, dilation)
    dtype = result_dtype(out_dtype, Input, Filter)
    ry, rx = (reduce_axis(slid[c].kernel, REDUCE_AXES[c]) for c in "HW")

    def element(n: Axis, fo: Axis, y: Axis, x: Axis, fi: Axis) -> Reduction:
        value = cast(source[n, fo, slid["H"].at(y, ry), slid["W"].at(x, rx), fi], dtype)
        return total(value * cast(Filter[fo, 0, ry, rx, 0, fi], dtype), axis=[ry, rx])

    return compute("depthwise_conv2d_NCHWc", (n, blocks, *counts.values(), block), element, OUTPUTS)


def check_block(asked: str, layout: Any, what: str, block: Extent, tensor: Tensor) -> None:
    """Raise :class:`ComputeError` unless ``layout`` is ``NCHW`` in blocks of ``block``."""
    match = re.fullmatch(r"NCHW([1-9]\d*)c", layout) if isinstance(layout, str) else None
    if match is None:
        raise ComputeError(f"{asked}: {what}={layout!r} is not a layout such as 'NCHW16c'")
    if not same(int(match[1]), block):
        raise ComputeError(
            explain(
                f"{asked} with {what}={layout!r}",
                f"blocks of {tensor.name} have {block} channels, not {match[1]}",
                f'Write {what}="NCHW{block}c".',
            )
        )
