"""Convolutions of three dimensions."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_layout
from schedlang.tvm.topi.nn.convolution import conv


@public
def conv3d(
    data: Any,
    kernel: Any,
    strides: Any,
    padding: Any,
    dilation: Any,
    data_layout: str = "NCDHW",
    kernel_layout: str = "",
    out_dtype: Any = None,
    groups: int = 1,
) -> Tensor:
    """Return the convolution of ``data`` in ``data_layout``, ``"NCDHW"`` or ``"NDHWC"``.

    ``padding`` means the same as in :func:`conv3d_ncdhw`. See :func:`~schedlang.tvm.topi.nn.conv`
    for the kernel's layout, dtypes and errors. TVM's topi has only the two names with a layout.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 4, 8, 8, 3), name="A")
    >>> W = sl.placeholder((2, 3, 3, 3, 5), name="W")
    >>> conv3d(A, W, 2, "SAME", 1, "NDHWC")
    Tensor(conv3d_ndhwc: float32[1, 2, 4, 4, 5])
    """
    check_layout("topi.nn.conv3d", data_layout, "NCDHW", "data_layout")
    return conv(
        data, kernel, strides, padding, dilation, groups, data_layout, kernel_layout, out_dtype
    )


@public
def conv3d_ncdhw(
    Input: Any,
    Filter: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``Input[n, c, d, h, w]`` with ``Filter[o, c // groups, d, h, w]``.

    ``padding`` is an integer, ``(depth, height, width)``, or
    ``(front, top, left, back, bottom, right)``. See :func:`~schedlang.tvm.topi.nn.conv` for the
    rest.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 3, 4, 8, 8), name="A")
    >>> W = sl.placeholder((5, 3, 2, 3, 3), name="W")
    >>> conv3d_ncdhw(A, W, (1, 2, 2), (0, 1, 1), 1, 1)
    Tensor(conv3d_ncdhw: float32[1, 5, 3, 4, 4])
    """
    return conv(Input, Filter, stride, padding, dilation, groups, "NCDHW", "OIDHW", out_dtype)


@public
def conv3d_ndhwc(
    Input: Any,
    Filter: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int = 1,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``Input[n, d, h, w, c]`` with ``Filter[d, h, w, c // groups, o]``.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 4, 8, 8, 3), name="A")
    >>> W = sl.placeholder((2, 3, 3, 3, 5), name="W")
    >>> conv3d_ndhwc(A, W, 1, 0, 1)
    Tensor(conv3d_ndhwc: float32[1, 3, 6, 6, 5])
    """
    return conv(Input, Filter, stride, padding, dilation, groups, "NDHWC", "DHWIO", out_dtype)
