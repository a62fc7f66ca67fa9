"""Depthwise convolutions: each input channel makes its own output channels."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis
from schedlang.language.construct import as_expr, cast
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_same, laid_out
from schedlang.tvm.topi.nn.convolution import OUTPUT_AXES, REDUCE_AXES
from schedlang.tvm.topi.rules import one_of, operator
from schedlang.tvm.topi.stages import compute, result_dtype
from schedlang.tvm.topi.windows import slide


@public
def depthwise_conv2d_nchw(
    Input: Any, Filter: Any, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None
) -> Tensor:
    """Return the depthwise convolution of ``Input[n, c, h, w]`` with ``Filter[c, m, h, w]``.

    Each input channel makes m output channels, in order: the result is ``[n, c * m, h, w]``. See
    :func:`~schedlang.tvm.topi.nn.conv` for stride, padding, dilation, dtypes and errors.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 4, 8, 8), name="A"), sl.placeholder((4, 2, 3, 3), name="W")
    >>> depthwise_conv2d_nchw(A, W, 1, 1, 1)
    Tensor(depthwise_conv2d_nchw: float32[1, 8, 8, 8])
    """
    return _depthwise(Input, Filter, stride, padding, dilation, out_dtype, "NCHW", "CMHW")


@operator(kernel_layout=one_of("HWOI", "HWIO"))
def depthwise_conv2d_nhwc(
    Input: Any,
    Filter: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    kernel_layout: str = "HWOI",
    out_dtype: Any = None,
) -> Tensor:
    """Return the depthwise convolution of ``Input[n, h, w, c]`` with ``Filter[h, w, c, m]``.

    With ``kernel_layout="HWIO"`` the filter is ``[h, w, m, c]``. The result is
    ``[n, h, w, c * m]``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 8, 8, 4), name="A"), sl.placeholder((3, 3, 4, 2), name="W")
    >>> depthwise_conv2d_nhwc(A, W, 2, 1, 1)
    Tensor(depthwise_conv2d_nhwc: float32[1, 4, 4, 8])
    """
    filters = "HWCM" if kernel_layout == "HWOI" else "HWMC"
    return _depthwise(Input, Filter, stride, padding, dilation, out_dtype, "NHWC", filters)


def _depthwise(
    data: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: Any,
    layout: str,
    filters: str,
) -> Tensor:
    name = f"depthwise_conv2d_{layout.lower()}"
    asked = f"topi.nn.{name}"
    laid_out(asked, data, "Input", layout)
    laid_out(asked, kernel, "Filter", filters)
    size, weights = dict(zip(layout, data.shape)), dict(zip(filters, kernel.shape))
    check_same(
        asked,
        size["C"],
        f"the number of channels of Input {data.name}",
        weights["C"],
        f"the number of channels of Filter {kernel.name}",
    )
    slid, counts, source = slide(asked, data, layout, kernel, filters, stride, padding, dilation)
    shape = {"N": size["N"], "C": extent(as_expr(size["C"]) * weights["M"]), **counts}
    dtype = result_dtype(out_dtype, data, kernel)
    reduced = {c: reduce_axis(w.kernel, REDUCE_AXES[c]) for c, w in slid.items()}

    def element(*axes: Axis) -> Reduction:
        at = dict(zip(layout, axes))
        times = weights["M"]
        channel, copy = (at["C"], 0) if times == 1 else (at["C"] // times, at["C"] % times)
        read = {"N": at["N"], "C": channel, **{c: w.at(at[c], reduced[c]) for c, w in slid.items()}}
        weight = {**reduced, "C": channel, "M": copy}
        product = cast(source[tuple(read[c] for c in layout)], dtype) * cast(
            kernel[tuple(weight[c] for c in filters)], dtype
        )
        return total(product, axis=list(reduced.values()))

    return compute(name, tuple(shape[c] for c in layout), element, [OUTPUT_AXES[c] for c in layout])
