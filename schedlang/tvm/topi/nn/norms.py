"""Normalization: over a batch with given statistics, over dimensions, and over groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from schedlang.arrays.shapes import axis_number, axis_numbers, extent, size_of
from schedlang.compute import reduce
from schedlang.compute.reduce import reduce_axis
from schedlang.compute.tensor import Extent, Tensor
from schedlang.errors import ComputeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast
from schedlang.tvm.topi.checks import (
    check_divides,
    check_float,
    check_numbers,
    check_scalar,
    check_shape,
    check_tensor,
    check_whole,
)
from schedlang.tvm.topi.elementwise import identity
from schedlang.tvm.topi.rules import floats, number, operator, tensor
from schedlang.tvm.topi.stages import compute, wide_dtype


@operator(data=floats())
def batch_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_var: Any,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """Return ``[out, moving_mean, moving_var]``, with ``data`` normalized by given statistics.

    ``out`` is ``data * a[c] + b[c]``, where c is the index of dimension ``axis`` (1), ``a = gamma /
    sqrt(moving_var + epsilon)`` and ``b = beta - moving_mean * a`` are stages of their own, and
    ``epsilon`` is 1e-5. Without ``scale``, gamma counts as 1, and without ``center`` beta as 0. The
    statistics are returned as copies, so that all three can be outputs of a kernel. Training is
    refused.

    >>> import schedlang as sl
    >>> A = sl.placeholder((2, 3, 4, 4), name="A")
    >>> g, b, m, v = (sl.placeholder((3,), name=name) for name in ("g", "b", "m", "v"))
    >>> batch_norm(A, g, b, m, v)[0]
    Tensor(batch_norm: float32[2, 3, 4, 4])
    """
    asked = "topi.nn.batch_norm"
    if training:
        raise ComputeError(
            explain(
                f"{asked}(training=True)",
                "it normalizes by given statistics, as a trained network does",
                "Compute the statistics of a batch by topi.mean, and give them as moving_mean "
                "and moving_var.",
            )
        )
    along = axis_number(1 if axis is None else axis, data.ndim, asked)
    channels = data.shape[along]
    scaled, centered = scale is None or scale, center is None or center
    for parameter, what, used in (
        (gamma, "gamma", scaled),
        (beta, "beta", centered),
        (moving_mean, "moving_mean", True),
        (moving_var, "moving_var", True),
    ):
        if used:
            check_tensor(asked, parameter, what, "channels")
            check_shape(asked, parameter, what, (channels,))
    small = 1e-5 if epsilon is None else epsilon
    check_scalar(asked, small, "epsilon")

    def factor(c: Axis) -> Expr:
        root = call("rsqrt", moving_var[c] + small)
        return gamma[c] * root if scaled else root

    def offset(c: Axis) -> Expr:
        moved = moving_mean[c] * a[c]
        return beta[c] - moved if centered else -moved

    a = compute("batch_norm_scale", (channels,), factor, ["c"])
    b = compute("batch_norm_shift", (channels,), offset, ["c"])
    # before the result, which sl.named names since it is the last stage
    copies = [identity(moving_mean), identity(moving_var)]
    out = compute(
        "batch_norm",
        data.shape,
        lambda *i: cast(cast(data[i], a.dtype) * a[i[along]] + b[i[along]], data.dtype),
    )
    return [out, *copies]


@operator(data=tensor())
def layer_norm(data: Any, gamma: Any, beta: Any, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Return ``(data - mean) / sqrt(var + epsilon) * gamma + beta``, with moments over ``axis``.

    ``gamma`` and ``beta`` have the shape of the dimensions ``axis``; either may be ``None``. The
    variance is the mean of squared distances from the mean. Short floats are computed in float32.

    >>> import schedlang as sl
    >>> A, g = sl.placeholder((4, 8), name="A"), sl.placeholder((8,), name="g")
    >>> layer_norm(A, g, None, axis=-1)
    Tensor(layer_norm: float32[4, 8])
    """
    asked = "topi.nn.layer_norm"
    axes = _sorted_axes(axis, data, asked)
    return _normalize_over("layer_norm", data, axes, gamma, beta, axes, epsilon)


@operator(data=tensor())
def instance_norm(data: Any, gamma: Any, beta: Any, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Return :func:`layer_norm` of the same arguments: TVM has both names.

    >>> import schedlang as sl
    >>> A, g = sl.placeholder((2, 3, 4, 4), name="A"), sl.placeholder((4, 4), name="g")
    >>> instance_norm(A, g, g, [2, 3])
    Tensor(instance_norm: float32[2, 3, 4, 4])
    """
    axes = _sorted_axes(axis, data, "topi.nn.instance_norm")
    return _normalize_over("instance_norm", data, axes, gamma, beta, axes, epsilon)


@operator(data=tensor())
def channel_norm(
    data: Any, gamma: Any, beta: Any, channel_axis: int, axis: Any, epsilon: float = 1e-5
) -> Tensor:
    """Return ``data`` normalized over the dimensions ``axis`` of each channel.

    ``gamma`` and ``beta`` have an element for each channel; either may be ``None``. See
    :func:`layer_norm` for the rest.

    >>> import schedlang as sl
    >>> A, g = sl.placeholder((2, 3, 4, 4), name="A"), sl.placeholder((3,), name="g")
    >>> channel_norm(A, g, g, 1, [2, 3])
    Tensor(instance_norm: float32[2, 3, 4, 4])
    """
    asked = "topi.nn.instance_norm"
    channel = axis_number(channel_axis, data.ndim, asked, "channel_axis")
    axes = _sorted_axes(axis, data, asked)
    _check_apart(asked, channel, axes)
    return _normalize_over("instance_norm", data, axes, gamma, beta, [channel], epsilon)


@operator(data=tensor())
def group_norm(
    data: Any,
    gamma: Any,
    beta: Any,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float = 1e-5,
) -> Tensor:
    """Return ``data`` normalized over the channels of each group and over the dimensions ``axes``.

    ``gamma`` and ``beta`` have an element for each channel; either may be ``None``. See
    :func:`layer_norm` for the rest (Wu and He, 2018).

    >>> import schedlang as sl
    >>> A, g = sl.placeholder((2, 6, 4, 4), name="A"), sl.placeholder((6,), name="g")
    >>> group_norm(A, g, g, 3, 1, [2, 3])
    Tensor(group_norm: float32[2, 6, 4, 4])
    """
    asked = "topi.nn.group_norm"
    channel = axis_number(channel_axis, data.ndim, asked, "channel_axis")
    over = _sorted_axes(axes, data, asked)
    _check_apart(asked, channel, over)
    (count,) = check_numbers(asked, num_groups, "num_groups", (1,), 1)
    channels = check_whole(asked, data.shape[channel], f"the number of channels of {data.name}")
    check_divides(
        asked,
        channels,
        count,
        f"the number of channels of {data.name}",
        f"num_groups={count} equal groups",
    )
    size = channels // count
    others = [k for k in range(data.ndim) if k not in over]

    def read(own: Sequence[Any], r: Sequence[Axis]) -> tuple[Any, ...]:
        at = dict(zip(others, own)) | dict(zip(over, r[1:]))
        at[channel] = at[channel] * size + r[0]
        return _placed(at)

    return _normalize(
        "group_norm",
        data,
        [count if k == channel else data.shape[k] for k in others],
        lambda *i: [i[k] // size if k == channel else i[k] for k in others],
        [size, *(data.shape[k] for k in over)],
        read,
        gamma,
        beta,
        [channel],
        epsilon,
    )


@operator(data=floats())
def rms_norm(data: Any, weight: Any, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Return ``data / sqrt(mean(data**2) + epsilon) * weight``, with the mean over ``axis``.

    ``weight`` has the shape of the dimensions ``axis``, or is ``None``. Short floats are computed
    in float32 (Zhang and Sennrich, 2019).

    >>> import schedlang as sl
    >>> A, w = sl.placeholder((4, 8), name="A"), sl.placeholder((8,), name="w")
    >>> rms_norm(A, w, -1)
    Tensor(rms_norm: float32[4, 8])
    """
    asked = "topi.nn.rms_norm"
    axes = _sorted_axes(axis, data, asked)
    others = [k for k in range(data.ndim) if k not in axes]
    squares = _squares("rms_norm", data, axes, others)
    wide = squares.dtype
    roots = _roots("rms_norm", squares, size_of([data.shape[k] for k in axes]), epsilon)
    factor = _affine(asked, weight, "weight", data, axes, wide)

    def element(*i: Axis) -> Expr:
        value = cast(data[i], wide) * roots[tuple(i[k] for k in others)]
        return cast(value if factor is None else value * factor(i), data.dtype)

    return compute("rms_norm", data.shape, element)


@operator(data=floats(), eps=number)
def l2_normalize(data: Any, eps: float, axis: Any = None) -> Tensor:
    """Return ``data / sqrt(max(sum(data**2), eps))``, with the sum over ``axis``, or over all.

    >>> import schedlang as sl
    >>> l2_normalize(sl.placeholder((4, 8), name="A"), 1e-6, [1])
    Tensor(l2_normalize: float32[4, 8])
    """
    asked = "topi.nn.l2_normalize"
    axes = _sorted_axes(axis, data, asked)
    others = [k for k in range(data.ndim) if k not in axes]
    squares = _squares("l2_normalize", data, axes, others)
    wide = squares.dtype

    def element(*i: Axis) -> Expr:
        total = call("max", squares[tuple(i[k] for k in others)], eps)
        return cast(cast(data[i], wide) / call("sqrt", total), data.dtype)

    return compute("l2_normalize", data.shape, element)


@operator(data=floats())
def lrn(
    data: Any,
    size: int,
    axis: int = 1,
    alpha: float = 0.0001,
    beta: float = 0.75,
    bias: float = 2,
) -> Tensor:
    """Return ``data / (bias + alpha / size * s)**beta``, with s the sum of ``size`` squares.

    They are the squares around each element along ``axis``; beyond the ends they are 0. ``size`` is
    odd (Krizhevsky et al., 2012). Sums of short floats are computed in float32.

    >>> import schedlang as sl
    >>> lrn(sl.placeholder((1, 8, 4, 4), name="A"), 5)
    Tensor(lrn: float32[1, 8, 4, 4])
    """
    asked = "topi.nn.lrn"
    along = axis_number(axis, data.ndim, asked)
    (count,) = check_numbers(asked, size, "size", (1,), 1)
    if count % 2 == 0:
        raise ComputeError(f"{asked}: size={size} must be odd, so that a window has a middle")
    half, length, wide = count // 2, data.shape[along], wide_dtype(data.dtype)
    k = reduce_axis(count, "k")

    def square(*i: Axis) -> Any:
        place = i[along] + k - half
        value = cast(data.element((*i[:along], place, *i[along + 1 :])), wide)
        return reduce.sum(value * value, axis=k, where=(place >= 0) & (place < length))

    squares = compute("lrn_squares", data.shape, square)

    def element(*i: Axis) -> Expr:
        scale = binary("**", squares[i] * (alpha / count) + bias, beta)
        return cast(cast(data[i], wide) / scale, data.dtype)

    return compute("lrn", data.shape, element)


def _placed(at: dict[int, Any]) -> tuple[Any, ...]:
    return tuple(at[k] for k in range(len(at)))


def _sorted_axes(axis: Any, data: Tensor, asked: str) -> list[int]:
    numbers = sorted(axis_numbers(axis, data.ndim, asked))
    if not numbers:
        raise ComputeError(f"{asked}: axis={axis} names no dimension to normalize over")
    return numbers


def _check_apart(asked: str, channel: int, axes: Sequence[int]) -> None:
    if channel in axes:
        raise ComputeError(
            f"{asked}: dimension {channel} is the channel, so it cannot be among the others to "
            "normalize over; leave it out"
        )


def _affine(
    asked: str, given: Any, what: str, data: Tensor, axes: Sequence[int], wide: str
) -> Callable[[Sequence[Axis]], Expr] | None:
    """Return the element of a parameter over dimensions ``axes`` at an index of ``data``."""
    if given is None:
        return None
    check_tensor(asked, given, what)
    check_shape(asked, given, what, [data.shape[k] for k in axes])
    return lambda i: cast(given[tuple(i[k] for k in axes)], wide)


def _squares(name: str, data: Tensor, axes: Sequence[int], kept: Sequence[int]) -> Tensor:
    """Return the sums of squares over dimensions ``axes``, by the others, ``kept``."""
    wide = wide_dtype(data.dtype)
    reduced = [reduce_axis(data.shape[k], f"r{n}") for n, k in enumerate(axes)]

    def square(*own: Axis) -> Any:
        value = cast(data[_placed(dict(zip(kept, own)) | dict(zip(axes, reduced)))], wide)
        return reduce.sum(value * value, axis=reduced)

    return compute(f"{name}_squares", tuple(data.shape[k] for k in kept), square)


def _roots(name: str, squares: Tensor, count: Extent, epsilon: float) -> Tensor:
    check_scalar(f"topi.nn.{name}", epsilon, "epsilon")
    number = cast(count, squares.dtype)
    return compute(
        f"{name}_rsqrt", squares.shape, lambda *i: call("rsqrt", squares[i] / number + epsilon)
    )


def _normalize_over(
    name: str,
    data: Tensor,
    axes: Sequence[int],
    gamma: Any,
    beta: Any,
    affine: Sequence[int],
    epsilon: float,
) -> Tensor:
    """Return ``data`` normalized over whole dimensions ``axes``, for each index of the others."""
    others = [k for k in range(data.ndim) if k not in axes]
    return _normalize(
        name,
        data,
        [data.shape[k] for k in others],
        lambda *i: [i[k] for k in others],
        [data.shape[k] for k in axes],
        lambda own, r: _placed(dict(zip(others, own)) | dict(zip(axes, r))),
        gamma,
        beta,
        affine,
        epsilon,
    )


def _normalize(
    name: str,
    data: Tensor,
    own_shape: Sequence[Extent],
    own: Any,
    sizes: Sequence[Extent],
    read: Any,
    gamma: Any,
    beta: Any,
    affine: Sequence[int],
    epsilon: float,
) -> Tensor:
    """Return ``data`` less its mean, over its deviation, in stages of sums over ``sizes``.

    ``own(*i)`` is the index of the moments of element ``i``, and ``read(own, r)`` the index of
    element ``r`` among the elements of these moments.
    """
    asked = f"topi.nn.{name}"
    check_float(asked, data)
    wide = wide_dtype(data.dtype)
    shape = tuple(extent(as_expr(e)) for e in own_shape)
    number = cast(size_of(sizes), wide)
    scale = _affine(asked, gamma, "gamma", data, affine, wide)
    shift = _affine(asked, beta, "beta", data, affine, wide)

    def over() -> list[Axis]:
        return [reduce_axis(e, f"r{n}") for n, e in enumerate(sizes)]

    first, second = over(), over()
    sums = compute(
        f"{name}_sum",
        shape,
        lambda *i: reduce.sum(cast(data[read(i, first)], wide), axis=first),
    )
    means = compute(f"{name}_mean", shape, lambda *i: sums[i] / number)

    def square(*i: Axis) -> Any:
        distance = cast(data[read(i, second)], wide) - means[i]
        return reduce.sum(distance * distance, axis=second)

    roots = _roots(name, compute(f"{name}_squares", shape, square), size_of(sizes), epsilon)

    def element(*i: Axis) -> Expr:
        at = tuple(own(*i))
        value = (cast(data[i], wide) - means[at]) * roots[at]
        value = value if scale is None else value * scale(i)
        return cast(value if shift is None else value + shift(i), data.dtype)

    return compute(name, data.shape, element)
