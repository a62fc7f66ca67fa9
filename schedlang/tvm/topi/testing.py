"""TVM's ``topi.testing``: references in NumPy, and schedules by the name of a target.

Programs compare kernels with these functions of arrays. ``sl.reference(C)`` is the reference of any
computation; the functions here do not use it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from schedlang.errors import ComputeError, explain, missing_name
from schedlang.signatures import public
from schedlang.target import Target
from schedlang.tvm.topi import cuda, nn, x86

Array = Any
_OTHERS = "Use sl.reference(C), or PyTorch's function."


@public
def conv2d_nchw_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1
) -> Array:
    """Return the convolution of images (batch, channel, row, column) by NumPy.

    ``w_np`` is (filter, channel, row, column), with the channels of a group. ``stride`` is a number
    or a pair, and ``padding`` a number, a pair, ``(top, left, bottom, right)``, ``"SAME"`` or
    ``"VALID"``. The dtype is NumPy's for a product of the two.

    >>> a, w = np.ones((1, 2, 4, 4), "float32"), np.ones((3, 2, 3, 3), "float32")
    >>> conv2d_nchw_python(a, w, 1, 1)[0, 0].tolist()[0]
    [8.0, 12.0, 12.0, 8.0]
    """
    windows = _windows(a_np, w_np.shape[2:], stride, padding)
    filters = w_np.shape[0]
    if filters % groups or a_np.shape[1] != w_np.shape[1] * groups:
        raise ComputeError(
            explain(
                f"topi.testing: a convolution with groups={groups}",
                f"{a_np.shape[1]} channels and {filters} filters of {w_np.shape[1]} channels do "
                "not fit",
                "Give filters the channels of their group, and each group as many filters.",
            )
        )
    n, channels, rows, columns, *kernel = windows.shape
    grouped = windows.reshape(n, groups, channels // groups, rows, columns, *kernel)
    by_group = w_np.reshape(groups, filters // groups, *w_np.shape[1:])
    result = np.einsum("ngcyxhw,gfchw->ngfyx", grouped, by_group, optimize=True)
    return result.reshape(n, filters, rows, columns)


@public
def conv2d_nhwc_python(
    a_np: Array, w_np: Array, stride: Any, padding: Any, groups: int = 1
) -> Array:
    """Return the convolution of images (batch, row, column, channel) by NumPy.

    ``w_np`` is (row, column, channel, filter). See :func:`conv2d_nchw_python`.
    """
    images, filters = np.transpose(a_np, (0, 3, 1, 2)), np.transpose(w_np, (3, 2, 0, 1))
    return conv2d_nchw_python(images, filters, stride, padding, groups).transpose(0, 2, 3, 1)


@public
def conv2d_hwcn_python(a_np: Array, w_np: Array, stride: Any, padding: Any) -> Array:
    """Return the convolution of images (row, column, channel, batch) by NumPy.

    ``w_np`` is (row, column, channel, filter). See :func:`conv2d_nchw_python`.
    """
    images, filters = np.transpose(a_np, (3, 2, 0, 1)), np.transpose(w_np, (3, 2, 0, 1))
    return conv2d_nchw_python(images, filters, stride, padding).transpose(2, 3, 1, 0)


@public
def depthwise_conv2d_python_nchw(
    input_np: Array, filter_np: Array, stride: Any, padding: Any
) -> Array:
    """Return the convolution of each channel with its own filters by NumPy.

    ``filter_np`` is (channel, multiplier, row, column), and the result has channel
    ``c * multiplier + m``. See :func:`conv2d_nchw_python`. ``"SAME"`` pads for each stride
    alike, as the operators of ``topi.nn``; TVM's function may pad less at a larger stride.
    """
    channels, multiplier, *kernel = filter_np.shape
    filters = np.reshape(filter_np, (channels * multiplier, 1, *kernel))
    return conv2d_nchw_python(input_np, filters, stride, padding, channels)


@public
def depthwise_conv2d_python_nhwc(
    input_np: Array, filter_np: Array, stride: Any, padding: Any
) -> Array:
    """Return the convolution of each channel with its own filters by NumPy.

    ``filter_np`` is (row, column, channel, multiplier). See :func:`depthwise_conv2d_python_nchw`.
    """
    images, filters = np.transpose(input_np, (0, 3, 1, 2)), np.transpose(filter_np, (2, 3, 0, 1))
    return depthwise_conv2d_python_nchw(images, filters, stride, padding).transpose(0, 2, 3, 1)


@public
def dilate_python(
    input_np: Array, strides: Any, dilation_value: float = 0.0, out_dtype: Any = None
) -> Array:
    """Return the elements ``strides`` apart, with ``dilation_value`` between them, by NumPy.

    >>> dilate_python(np.array([1, 2]), (3,)).tolist()
    [1, 0, 0, 2]
    """
    shape = [(extent - 1) * step + 1 for extent, step in zip(input_np.shape, strides)]
    result = np.full(shape, dilation_value, out_dtype or input_np.dtype)
    result[tuple(slice(None, None, step) for step in strides)] = input_np
    return result


@public
def softmax_python(a_np: Array, axis: int = 1) -> Array:
    """Return the softmax along ``axis`` by NumPy.

    >>> softmax_python(np.zeros((1, 4))).tolist()
    [[0.25, 0.25, 0.25, 0.25]]
    """
    powers = np.exp(a_np - np.max(a_np, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


@public
def log_softmax_python(a_np: Array, axis: int = 1) -> Array:
    """Return the logarithm of the softmax along ``axis`` by NumPy."""
    shifted = a_np - np.max(a_np, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _windows(images: Array, kernel: Any, stride: Any, padding: Any) -> Array:
    """Return the windows of padded images, of which a convolution adds products."""
    top, left, bottom, right = _borders(padding, kernel)
    padded = np.pad(images, ((0, 0), (0, 0), (top, bottom), (left, right)))
    down, across = stride if isinstance(stride, (tuple, list)) else (stride, stride)
    return sliding_window_view(padded, tuple(kernel), axis=(2, 3))[:, :, ::down, ::across]


def _borders(padding: Any, kernel: Any) -> tuple[int, int, int, int]:
    if padding == "VALID":
        return 0, 0, 0, 0
    if padding == "SAME":
        # of an odd number, one more is before the image
        first = [extent // 2 for extent in kernel]
        last = [extent - 1 - before for extent, before in zip(kernel, first)]
        return first[0], first[1], last[0], last[1]
    widths = list(padding) if isinstance(padding, (tuple, list)) else [padding] * 2
    if len(widths) not in (2, 4):
        raise ComputeError(
            explain(
                "topi.testing",
                f"padding={padding!r} has {len(widths)} numbers",
                'Give one number, two, four, "SAME" or "VALID".',
            )
        )
    top, left, bottom, right = widths * (4 // len(widths))
    return top, left, bottom, right


def _place(target: Any) -> Any:
    """Return the module of topi with the schedules for a target, or for its name."""
    return cuda if Target(target).facts.binds_threads else x86


@public
def get_injective_schedule(target: Any) -> Callable[..., Any]:
    """Return ``topi.x86.schedule_injective``, or ``topi.cuda``'s for a GPU.

    >>> get_injective_schedule("llvm").__name__
    'schedule_injective'
    """
    return _place(target).schedule_injective


@public
def get_elemwise_schedule(target: Any) -> Callable[..., Any]:
    """Return ``topi.x86.schedule_elemwise``, or ``topi.cuda``'s for a GPU."""
    return _place(target).schedule_elemwise


@public
def get_broadcast_schedule(target: Any) -> Callable[..., Any]:
    """Return ``topi.x86.schedule_broadcast``, or ``topi.cuda``'s for a GPU."""
    return _place(target).schedule_broadcast


@public
def get_reduce_schedule(target: Any) -> Callable[..., Any]:
    """Return ``topi.x86.schedule_reduce``, or ``topi.cuda``'s for a GPU."""
    return _place(target).schedule_reduce


@public
def get_conv2d_nchw_implement(target: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return ``topi.nn.conv2d_nchw`` and the schedule for a target."""
    return nn.conv2d_nchw, _place(target).schedule_conv2d_nchw


def __getattr__(name: str) -> Any:
    others = (name,) if name.endswith("_python") or name.startswith("get_") else ()
    refused = dict.fromkeys(others, ("this reference is not part of topi here", _OTHERS))
    raise missing_name(__name__, name, refused, "topi.testing")


__all__ = [
    "conv2d_hwcn_python", "conv2d_nchw_python", "conv2d_nhwc_python",
    "depthwise_conv2d_python_nchw", "depthwise_conv2d_python_nhwc", "dilate_python",
    "get_broadcast_schedule", "get_conv2d_nchw_implement", "get_elemwise_schedule",
    "get_injective_schedule", "get_reduce_schedule", "log_softmax_python", "softmax_python",
]  # fmt: skip
