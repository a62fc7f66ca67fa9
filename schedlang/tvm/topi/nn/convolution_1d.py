"""Convolutions of one dimension."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_layout
from schedlang.tvm.topi.nn.convolution import conv


@public
def conv1d(
    data: Any,
    kernel: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "",
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``data`` in ``data_layout``, ``"NCW"`` or ``"NWC"``.

    ``padding`` is an integer, ``(left, right)``, ``"VALID"`` or ``"SAME"``. See
    :func:`~schedlang.tvm.topi.nn.conv` for the kernel's layout, dtypes and errors.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 3, 16), name="A"), sl.placeholder((8, 3, 5), name="W")
    >>> conv1d(A, W, strides=2, padding="SAME")
    Tensor(conv1d_ncw: float32[1, 8, 8])
    """
    check_layout("topi.nn.conv1d", data_layout, "NCW", "data_layout")
    return conv(data, kernel, strides, padding, dilation, 1, data_layout, kernel_layout, out_dtype)


@public
def conv1d_ncw(
    data: Any,
    kernel: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``data[n, c, w]`` with ``kernel[o, i, w]``, as ``[n, o, w]``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 3, 16), name="A"), sl.placeholder((8, 3, 5), name="W")
    >>> conv1d_ncw(A, W, padding=(2, 1))
    Tensor(conv1d_ncw: float32[1, 8, 15])
    """
    return conv(data, kernel, strides, padding, dilation, 1, "NCW", "OIW", out_dtype)


@public
def conv1d_nwc(
    data: Any,
    kernel: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``data[n, w, c]`` with ``kernel[w, i, o]``, as ``[n, w, o]``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 16, 3), name="A"), sl.placeholder((5, 3, 8), name="W")
    >>> conv1d_nwc(A, W)
    Tensor(conv1d_nwc: float32[1, 12, 8])
    """
    return conv(data, kernel, strides, padding, dilation, 1, "NWC", "WIO", out_dtype)


@public
def group_conv1d_ncw(
    data: Any,
    kernel: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``data[n, c, w]`` with ``kernel[o, c // groups, w]``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 6, 16), name="A"), sl.placeholder((9, 2, 5), name="W")
    >>> group_conv1d_ncw(A, W, groups=3)
    Tensor(group_conv1d_ncw: float32[1, 9, 12])
    """
    return conv(data, kernel, strides, padding, dilation, groups, "NCW", "OIW", out_dtype)


@public
def group_conv1d_nwc(
    data: Any,
    kernel: Any,
    strides: Any = 1,
    padding: Any = "VALID",
    dilation: Any = 1,
    groups: int = 1,
    out_dtype: Any = None,
) -> Tensor:
    """Return the convolution of ``data[n, w, c]`` with ``kernel[w, c // groups, o]``.

    >>> import schedlang as sl
    >>> A, W = sl.placeholder((1, 16, 6), name="A"), sl.placeholder((5, 2, 9), name="W")
    >>> group_conv1d_nwc(A, W, groups=3)
    Tensor(group_conv1d_nwc: float32[1, 12, 9])
    """
    return conv(data, kernel, strides, padding, dilation, groups, "NWC", "WIO", out_dtype)
