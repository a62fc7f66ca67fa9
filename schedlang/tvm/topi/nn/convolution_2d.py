"""Convolutions of two dimensions."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_layout
from schedlang.tvm.topi.nn.convolution import conv


@public
def conv2d(
    data: Any,
    kernel: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCHW",
    kernel_layout: str = "",
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``data`` in ``data_layout``: ``"NCHW"``, ``"NHWC"``, ``"HWCN"``.

    See :func:`~schedlang.tvm.topi.nn.conv` for strides, padding, the kernel's layout, dtypes and
    errors.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 8, 8, 3), name="A"), sl.placeholder((3, 3, 3, 16), name="W")
    >>> conv2d(A, W, 1, 1, 1, "NHWC")
    Tensor(conv2d_nhwc: float32[1, 8, 8, 16])
    """
    check_layout("topi.nn.conv2d", data_layout, "NCHW", "data_layout")
    return conv(data, kernel, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype)


@public
def conv2d_nchw(
    Input: Any, Filter: Any, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None
) -> Tensor:
    """Return the convolution of ``Input[n, c, h, w]`` with ``Filter[o, i, h, w]``.

    The result is ``[n, o, h, w]``, of ``out_dtype``, by default the dtype to which both promote.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 3, 8, 8), name="A"), sl.placeholder((16, 3, 3, 3), name="W")
    >>> conv2d_nchw(A, W, stride=2, padding=1, dilation=1)
    Tensor(conv2d_nchw: float32[1, 16, 4, 4])
    """
    return conv(Input, Filter, stride, padding, dilation, 1, "NCHW", "OIHW", out_dtype)


@public
def conv2d_nhwc(
    Input: Any, Filter: Any, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None
) -> Tensor:
    """Return the convolution of ``Input[n, h, w, c]`` with ``Filter[h, w, i, o]``.

    The result is ``[n, h, w, o]``, of ``out_dtype``, by default the dtype to which both promote
    (TVM's default is float32).

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 8, 8, 3), name="A"), sl.placeholder((3, 3, 3, 16), name="W")
    >>> conv2d_nhwc(A, W, 1, (1, 0), 1)
    Tensor(conv2d_nhwc: float32[1, 8, 6, 16])
    """
    return conv(Input, Filter, stride, padding, dilation, 1, "NHWC", "HWIO", out_dtype)


@public
def conv2d_hwcn(
    Input: Any, Filter: Any, stride: Any, padding: Any, dilation: Any, out_dtype: Any = None
) -> Tensor:
    """Return the convolution of ``Input[h, w, c, n]`` with ``Filter[h, w, i, o]``.

    The result is ``[h, w, o, n]``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((8, 8, 3, 4), name="A"), sl.placeholder((3, 3, 3, 16), name="W")
    >>> conv2d_hwcn(A, W, 1, 0, 1)
    Tensor(conv2d_hwcn: float32[6, 6, 16, 4])
    """
    return conv(Input, Filter, stride, padding, dilation, 1, "HWCN", "HWIO", out_dtype)


@public
def group_conv2d_nchw(
    Input: Any,
    Filter: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``Input[n, c, h, w]`` with ``Filter[o, c // groups, h, w]``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 6, 8, 8), name="A"), sl.placeholder((9, 2, 3, 3), name="W")
    >>> group_conv2d_nchw(A, W, 1, 1, 1, groups=3)
    Tensor(group_conv2d_nchw: float32[1, 9, 8, 8])
    """
    return conv(Input, Filter, stride, padding, dilation, groups, "NCHW", "OIHW", out_dtype)


@public
def group_conv2d_nhwc(
    Input: Any,
    Filter: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``Input[n, h, w, c]`` with ``Filter[h, w, c // groups, o]``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 8, 8, 6), name="A"), sl.placeholder((3, 3, 2, 9), name="W")
    >>> group_conv2d_nhwc(A, W, 1, 1, 1, groups=3)
    Tensor(group_conv2d_nhwc: float32[1, 8, 8, 9])
    """
    return conv(Input, Filter, stride, padding, dilation, groups, "NHWC", "HWIO", out_dtype)
