"""Pooling: the largest or the mean element of windows, in any layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute import reduce
from schedlang.compute.reduce import Reduction, reduce_axis
from schedlang.compute.tensor import Extent, Tensor
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, cast
from schedlang.signatures import public
from schedlang.tvm.tir import div, infinity, min_value
from schedlang.tvm.topi.checks import (
    MEANINGS,
    check_choice,
    check_numbers,
    check_shape,
    check_tensor,
    check_whole,
    dims_of,
)
from schedlang.tvm.topi.stages import compute, wide_dtype
from schedlang.tvm.topi.windows import Window, output_count, pad_windows, windows

AXES = {"N": "n", "C": "c", "D": "z", "H": "y", "W": "x"}
REDUCE_AXES = {"D": "rz", "H": "ry", "W": "rx"}


@public
def pool1d(
    data: Any,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """Return the pooling of ``data`` over its width; see :func:`pool2d`.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 3, 10), name="A")
    >>> pool1d(A, 3, 2, 1, (1, 1), "max")
    Tensor(pool1d_max: float32[1, 3, 5])
    """
    return _pool(
        "W",
        data,
        kernel,
        stride,
        dilation,
        padding,
        pool_type,
        ceil_mode,
        layout,
        count_include_pad,
    )


@public
def pool2d(
    data: Any,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Return the largest (``pool_type="max"``) or mean (``"avg"``) element of each window.

    ``kernel``, ``stride`` and ``dilation`` are an integer or one for height and width, ``padding``
    an integer, ``(height, width)`` or ``(top, left, bottom, right)``. ``layout`` has ``H`` and
    ``W``, and any other dimensions, such as ``"NHWC"`` or ``"NCHW16c"``; the result has it too.

    The padding of a maximum is -inf, or the smallest integer. A window of padding alone has this
    maximum, too; PyTorch refuses padding of more than half a kernel. The padding of a mean is 0 and
    counts, unless ``count_include_pad`` is false; the mean of nothing is then 0. With ``ceil_mode``
    the last window may leave the padded input; it must start before the padding after the end, as
    in PyTorch and ONNX (TVM keeps a window of padding alone).

    The result has the dtype of ``data``. Means of short floats are summed in float32, and of short
    integers in int32. Means of integers are rounded toward zero.

    Raises :class:`~schedlang.errors.ComputeError` for a layout, a window or a padding that does not
    fit.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 3, 8, 8), name="A")
    >>> pool2d(A, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "avg", count_include_pad=False)
    Tensor(pool2d_avg: float32[1, 3, 4, 4])
    """
    return _pool(
        "HW",
        data,
        kernel,
        stride,
        dilation,
        padding,
        pool_type,
        ceil_mode,
        layout,
        count_include_pad,
    )


@public
def pool_grad(
    grads: Any,
    data: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Tensor:
    """Return the gradient of :func:`pool2d` by ``data``, where ``grads`` is the result's own.

    >>> import schedlang as sl
    >>> A, g = sl.placeholder((1, 2, 8, 8), name="A"), sl.placeholder((1, 2, 4, 4), name="g")
    >>> pool_grad(g, A, [2, 2], [2, 2], [0, 0, 0, 0], "avg").shape
    (1, 2, 8, 8)
    """
    # a gradient is a step of its own, which most operators do not need
    from schedlang.gradient import gradient

    pooled = pool2d(
        data, kernel, stride, 1, padding, pool_type, ceil_mode, layout, count_include_pad
    )
    check_shape("topi.nn.pool_grad", check_tensor("topi.nn.pool_grad", grads, "grads"), "grads",
                pooled.shape)  # fmt: skip
    (result,) = gradient(pooled, [data], grads)
    return result


@public
def pool3d(
    data: Any,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Return the pooling of ``data`` over depth, height and width; see :func:`pool2d`.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 3, 4, 8, 8), name="A")
    >>> pool3d(A, 2, 2, 1, 0, "max")
    Tensor(pool3d_max: float32[1, 3, 2, 4, 4])
    """
    return _pool(
        "DHW",
        data,
        kernel,
        stride,
        dilation,
        padding,
        pool_type,
        ceil_mode,
        layout,
        count_include_pad,
    )


@public
def global_pool(data: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Return the largest or mean element over height and width, which become 1.

    >>> import schedlang as sl
    >>> global_pool(sl.placeholder((1, 3, 7, 5), name="A"), "avg")
    Tensor(global_pool_avg: float32[1, 3, 1, 1])
    """
    asked = "topi.nn.global_pool"
    dims = _dims(asked, data, pool_type, layout, "HW")
    size = dict(zip(dims, data.shape))
    reduced = {c: reduce_axis(size[c], REDUCE_AXES[c]) for c in "HW"}

    def read(at: dict[str, Any]) -> Expr:
        return data[tuple(reduced.get(c, at[c]) for c in dims)]

    shape = tuple(1 if c in reduced else e for c, e in size.items())
    _check_filled(asked, data, "HW", [size[c] for c in "HW"])
    return _pooled(
        "global_pool",
        pool_type,
        dims,
        shape,
        data.dtype,
        lambda at: reduced,
        lambda at, taps: read(at),
        lambda at: [size["H"], size["W"]],
    )


@public
def adaptive_pool(data: Any, output_size: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Return the pooling of ``data`` to ``output_size``, an integer or ``(height, width)``.

    Output y of Y covers the rows from ``floor(y*H / Y)`` to ``ceil((y + 1)*H / Y)``, as in PyTorch.

    >>> import schedlang as sl
    >>> adaptive_pool(sl.placeholder((1, 3, 7, 9), name="A"), (3, 3), "avg")
    Tensor(adaptive_pool_avg: float32[1, 3, 3, 3])
    """
    return _adaptive("adaptive_pool", "HW", data, output_size, pool_type, layout)


@public
def adaptive_pool1d(data: Any, output_size: Any, pool_type: str, layout: str = "NCW") -> Tensor:
    """Return the pooling of ``data`` to width ``output_size``; see :func:`adaptive_pool`.

    >>> import schedlang as sl
    >>> adaptive_pool1d(sl.placeholder((1, 3, 9), name="A"), 3, "max")
    Tensor(adaptive_pool1d_max: float32[1, 3, 3])
    """
    return _adaptive("adaptive_pool1d", "W", data, output_size, pool_type, layout)


@public
def adaptive_pool3d(data: Any, output_size: Any, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """Return the pooling of ``data`` to ``output_size``, of three numbers; see
    :func:`adaptive_pool`.

    >>> import schedlang as sl
    >>> adaptive_pool3d(sl.placeholder((1, 3, 4, 7, 9), name="A"), (2, 3, 3), "avg")
    Tensor(adaptive_pool3d_avg: float32[1, 3, 2, 3, 3])
    """
    return _adaptive("adaptive_pool3d", "DHW", data, output_size, pool_type, layout)


def _dims(asked: str, data: Any, pool_type: Any, layout: Any, letters: str) -> list[str]:
    check_choice(asked, pool_type, "pool_type", ("max", "avg"))
    dims = dims_of(asked, data, layout, letters)
    if dtypes.is_complex(data.dtype) or (data.dtype == "bool" and pool_type == "avg"):
        raise ComputeTypeError(
            f"{asked}: {data.name} is {data.dtype}, which has no {pool_type}; cast it first, by "
            "topi.cast"
        )
    return dims


def _pool(
    letters: str,
    data: Any,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool,
    layout: str,
    count_include_pad: bool,
) -> Tensor:
    name = f"pool{len(letters)}d"
    asked = f"topi.nn.{name}"
    dims = _dims(asked, data, pool_type, layout, letters)
    kernels = check_numbers(asked, kernel, "kernel", (len(letters),), 1)
    size = dict(zip(dims, data.shape))
    slid = dict(zip(letters, windows(asked, kernels, stride, padding, dilation)))
    counts = {
        c: output_count(asked, data, c, size[c], w, _rounded_up(w, size[c]) if ceil_mode else None)
        for c, w in slid.items()
    }
    along = {c: (w.before, w.after) for c, w in slid.items()}
    if ceil_mode:
        for c, w in slid.items():
            along[c] = (w.before, w.after + _overhang(w, size[c], counts[c]))
    filler = None
    if pool_type == "max":
        least = -infinity(data.dtype) if dtypes.is_float(data.dtype) else min_value(data.dtype)
        filler = least
    source = pad_windows(data, "".join(dims), along, filler)
    reduced = {c: reduce_axis(w.kernel, REDUCE_AXES[c]) for c, w in slid.items()}

    def read(at: dict[str, Any], taps: dict[str, Axis]) -> Expr:
        place = {c: w.at(at[c], taps[c]) for c, w in slid.items()}
        return source[tuple(place.get(c, at[c]) for c in dims)]

    def elements(at: dict[str, Any]) -> list[Any]:
        # at least 1, also in a window of padding alone
        return [_counted(w, size[c], at[c], count_include_pad, ceil_mode) for c, w in slid.items()]

    shape = tuple(counts.get(c, size[c]) for c in dims)
    return _pooled(name, pool_type, dims, shape, data.dtype, lambda at: reduced, read, elements)


def _rounded_up(window: Window, size: Extent) -> Extent:
    """Return the number of windows; the last one may leave the padded dimension."""
    room = as_expr(size) + (window.before + window.after - window.span)
    most = (room + (window.stride - 1)) // window.stride
    # the last window starts before the padding after the end
    if window.after + window.stride > window.span:
        most = call("min", most, (as_expr(size) + (window.before - 1)) // window.stride)
    return extent(most + 1)


def _overhang(window: Window, size: Extent, count: Extent) -> int:
    """Return how many elements after the padded dimension the last window reads, at most."""
    if not isinstance(size, int) or not isinstance(count, int):
        return window.stride - 1
    last = (count - 1) * window.stride + window.span
    return max(0, last - size - window.before - window.after)


def _counted(
    window: Window, size: Extent, output: Expr, with_padding: bool, ceil_mode: bool
) -> Any:
    """Return how many elements of a window count in its mean."""
    if with_padding and not ceil_mode:
        return window.kernel
    if not ceil_mode and not window.before and not window.after:
        return window.kernel

    def before(place: Any) -> Expr:
        """Return how many elements of the window are before ``place`` of the padded dimension."""
        steps = as_expr(place) - output * window.stride
        if window.dilation > 1:
            steps = (steps + (window.dilation - 1)) // window.dilation
        return call("max", call("min", steps, window.kernel), 0)

    if with_padding:
        return before(as_expr(size) + (window.before + window.after))
    inside = before(as_expr(size) + window.before)
    return call("max", inside - before(window.before) if window.before else inside, 1)


def _adaptive(
    name: str, letters: str, data: Any, output_size: Any, pool_type: str, layout: str
) -> Tensor:
    asked = f"topi.nn.{name}"
    dims = _dims(asked, data, pool_type, layout, letters)
    target = dict(
        zip(letters, check_numbers(asked, output_size, "output_size", (len(letters),), 1))
    )
    size = dict(zip(dims, data.shape))
    # the extent of windows of one size, whose axis starts at 0, so that schedules can split it
    even: dict[str, Extent] = {}
    for c in letters:
        if target[c] == 1:
            even[c] = size[c]
        elif check_whole(asked, size[c], f"the {MEANINGS[c]} of {data.name}") % target[c] == 0:
            even[c] = size[c] // target[c]
    _check_filled(asked, data, letters, [size[c] for c in letters])

    def ends(c: str, i: Any) -> tuple[Any, Any]:
        return i * size[c] // target[c], ((i + 1) * size[c] + (target[c] - 1)) // target[c]

    def taps(at: dict[str, Any]) -> dict[str, Axis]:
        return {
            c: reduce_axis(even[c] if c in even else ends(c, at[c]), REDUCE_AXES[c])
            for c in letters
        }

    def read(at: dict[str, Any], axes: dict[str, Axis]) -> Expr:
        place = {c: at[c] * even[c] + axes[c] if c in even else axes[c] for c in letters}
        return data[tuple(place.get(c, at[c]) for c in dims)]

    def elements(at: dict[str, Any]) -> list[Any]:
        return [even[c] if c in even else ends(c, at[c])[1] - ends(c, at[c])[0] for c in letters]

    shape = tuple(target.get(c, size[c]) for c in dims)
    return _pooled(name, pool_type, dims, shape, data.dtype, taps, read, elements)


def _check_filled(asked: str, data: Tensor, letters: str, sizes: Sequence[Extent]) -> None:
    for c, size in zip(letters, sizes):
        if isinstance(size, int) and size == 0:
            raise ComputeError(
                f"{asked} of {data.name}: its {MEANINGS[c]} is 0, so there is nothing to pool"
            )


def _pooled(
    name: str,
    pool_type: str,
    dims: Sequence[str],
    shape: Sequence[Extent],
    dtype: str,
    taps: Any,
    read: Any,
    counts: Any,
) -> Tensor:
    """Return the maximum, or the sum and then the mean, of what ``read(at, taps(at))`` reads.

    ``at`` are the axes by the letters of ``dims``; the product of ``counts(at)`` is the number of
    elements.
    """
    names = [AXES.get(c, "b") for c in dims]
    shape = tuple(shape)
    wide = wide_dtype(dtype)

    def folded(*axes: Axis) -> Reduction:
        at = dict(zip(dims, axes))
        over = taps(at)
        value = read(at, over)
        if pool_type == "max":
            return reduce.max(value, list(over.values()))
        return reduce.sum(cast(value, wide), list(over.values()))

    if pool_type == "max":
        return compute(f"{name}_max", shape, folded, names)
    sums = compute(f"{name}_sum", shape, folded, names)

    def mean(*axes: Axis) -> Expr:
        factors = counts(dict(zip(dims, axes)))
        static = math.prod(f for f in factors if isinstance(f, int))
        number = cast(static, wide)
        for factor in factors:
            if not isinstance(factor, int):
                number = cast(factor, wide) if static == 1 else number * cast(factor, wide)
                static = 0
        return cast(div(sums[axes], number), dtype)

    return compute(f"{name}_avg", shape, mean, names)
