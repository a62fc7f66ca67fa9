"""Poolings of ATen, and images of another size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import frexp
from typing import Any

import numpy as np

from schedlang import topi
from schedlang.arrays.shaping import expand_dims, squeeze
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.convolutions import LAYOUTS
from schedlang.frontend.sampling import MODES, PADDINGS, grid_sample
from schedlang.frontend.torch.calls import Call, Operator, combine, of_dtype
from schedlang.frontend.torch.convolutions import each
from schedlang.frontend.windows import Ends, largest_at, summed
from schedlang.language.calls import call as call_of
from schedlang.language.construct import cast, const
from schedlang.tvm.topi.stages import compute, wide_dtype

POOLS = {1: topi.nn.pool1d, 2: topi.nn.pool2d, 3: topi.nn.pool3d}
ADAPTIVE = {1: topi.nn.adaptive_pool1d, 2: topi.nn.adaptive_pool, 3: topi.nn.adaptive_pool3d}
# the finest part of a factor of symbolic sizes: extents times such factors are exact in floats
_DENOMINATOR = 64
RESIZES = {1: topi.image.resize1d, 2: topi.image.resize2d, 3: topi.image.resize3d}


def _max(count: int, indices: bool) -> Operator:
    def operator(
        call: Call,
        x: Tensor,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
    ) -> Any:
        kernel = each(kernel_size, count)
        data = expand_dims(x, 0) if x.ndim == count + 1 else x
        pooled = POOLS[count](
            data,
            kernel,
            each(stride or kernel, count),
            each(dilation, count),
            each(padding, count),
            "max",
            ceil_mode,
        )
        pooled = squeeze(pooled, 0) if data is not x else pooled
        if not indices:
            return pooled
        steps, widths = each(stride or kernel, count), each(padding, count)
        ends = _sliding(x, count, steps, widths)
        return pooled, _places(call, x, pooled, kernel, each(dilation, count), ends)

    return operator


def _sliding(x: Tensor, count: int, steps: Sequence[int], widths: Sequence[int]) -> Ends:
    """Return the ends of windows at ``steps``, from ``widths`` before the first element."""
    sizes = x.shape[-count:]
    return lambda k, i: (i * steps[k] - widths[k], sizes[k])


def _places(
    call: Call, x: Tensor, pooled: Tensor, taps: Sequence[int], spread: Sequence[int], ends: Ends
) -> Tensor | None:
    """Return the indices of the largest elements, if they are read."""
    shape = pooled.shape[-len(taps) :]
    return largest_at(x, shape, taps, spread, ends) if call.used[1] else None


def _mean(count: int) -> Operator:
    def operator(
        call: Call,
        x: Tensor,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Any = None,
    ) -> Tensor:
        kernel = each(kernel_size, count)
        data = expand_dims(x, 0) if x.ndim == count + 1 else x
        pooled = POOLS[count](
            data,
            kernel,
            each(stride or kernel, count),
            1,
            each(padding, count),
            "avg",
            ceil_mode,
            count_include_pad=count_include_pad,
        )
        pooled = squeeze(pooled, 0) if data is not x else pooled
        if divisor_override is None:
            return pooled
        ends = _sliding(x, count, each(stride or kernel, count), each(padding, count))
        total = summed(x, pooled.shape[-count:], kernel, ends, wide_dtype(x.dtype))
        return of_dtype(combine("divide", total, float(divisor_override)), call.dtype)

    return operator


def _adaptive(count: int, kind: str) -> Operator:
    def operator(call: Call, x: Tensor, output_size: Any) -> Any:
        data = expand_dims(x, 0) if x.ndim == count + 1 else x
        # None keeps the size of a dimension
        size = [own if s is None else s for s, own in zip(each(output_size, count), data.shape[2:])]
        pooled = ADAPTIVE[count](data, size, kind)
        pooled = squeeze(pooled, 0) if data is not x else pooled
        if kind != "max":
            return pooled
        if not call.used[1]:
            return pooled, None
        sizes = data.shape[2:]
        # the longest window; an extent is a number, or there is one window
        taps: list[Any] = [
            own if new == 1 else -(-own // new) + (own % new > 0) for own, new in zip(sizes, size)
        ]

        def ends(k: int, i: Any) -> tuple[Any, Any]:
            return i * sizes[k] // size[k], ((i + 1) * sizes[k] + (size[k] - 1)) // size[k]

        return pooled, _places(call, x, pooled, taps, [1] * count, ends)

    return operator


def _resize(
    call: Call, x: Tensor, output_size: Any, scales: Any, method: str, mode: str, rounding: str = ""
) -> Tensor:
    count = x.ndim - 2
    factors = _factors(scales, count)
    size, steps = check_factors(call, x, factors, output_size), None
    if mode != "align_corners" and _symbolic(size):
        # a size that is rounded down does not tell the factor; two numbers tell it exactly, where
        # the float 0.2 is not 1/5
        steps = [
            None if output_size is not None or isinstance(new, int) else factor
            for factor, new in zip(factors, size)
        ]
    return RESIZES[count](
        x, None, size, LAYOUTS[count], method, mode, rounding, bicubic_alpha=-0.75, scales=steps
    )


def check_factors(
    call: Call, x: Tensor, factors: Sequence[Any], output_size: Any = None
) -> list[Any]:
    """Return an image's new sizes.

    Raise unless they are what its factors give exactly, or symbolic, with factors of a few bits.
    """
    size = list(call.shape[2:])
    if output_size is not None:
        return [new if known is None else known for known, new in zip(size, output_size)]
    for k, (factor, own, new) in enumerate(zip(factors, x.shape[2:], size)):
        if new is None:
            size[k] = _times(call, own, factor)
        elif factor is not None and own * factor != new:
            raise call.refuse(
                f"an extent of {own} times scale_factor={factor} is not an integer, and PyTorch "
                "then samples at steps of the factor, not of the sizes",
                "Give size=, or recompute_scale_factor=True.",
            )
    return size


def _times(call: Call, own: Any, factor: float) -> Any:
    """Return a symbolic extent times a factor, rounded down; it is exact in PyTorch's floats."""
    exact = Fraction(factor)
    if exact.denominator > _DENOMINATOR or exact.numerator >= 1 << 20:
        raise call.refuse(
            f"a symbolic extent {own} times scale_factor={factor} rounds in PyTorch's floats",
            "Give a factor such as 2, 0.5 or 1.5, or size=.",
        )
    return own * exact.numerator // exact.denominator


def _symbolic(size: Sequence[Any]) -> bool:
    return any(not isinstance(extent, int) for extent in size)


def _factors(scales: Any, count: int) -> list[Any]:
    return list(scales) if isinstance(scales, (list, tuple)) else [None] * count


def nearest(call: Call, input: Tensor, output_size: Any, scale_factors: Any) -> Tensor:  # noqa: A002
    resized = _resize(
        call, input, output_size, scale_factors, "nearest_neighbor", "asymmetric", "floor"
    )
    factors = _factors(scale_factors, resized.ndim - 2)
    sizes: list[Any] = list(zip(input.shape[2:], resized.shape[2:], factors))
    # how PyTorch rounds the steps of float64 depends on the layout
    if input.dtype == "float64" or not any(_rounds(*size) for size in sizes):
        return resized

    def element(*i: Axis) -> Expr:
        pixels = (_pixel(at, *size) for at, size in zip(i[2:], sizes))
        return input.element((*i[:2], *pixels))

    return compute("resize", resized.shape, element)


def _rounds(own: Any, new: Any, factor: Any) -> bool:
    """Return whether a step that is rounded to float32, like PyTorch's, may give other pixels."""
    if _symbolic((own, new)):
        # a power of two has no rounding; other steps may round at some size
        return not (factor and own is not new and frexp(factor)[0] == 0.5)
    out = np.arange(new)
    pixels = np.floor(out.astype("float32") * np.float32(_step(own, new, factor)))
    return bool((pixels != out * own // new).any())


def _pixel(at: Axis, own: Any, new: Any, factor: Any) -> Expr:
    """Return the pixel of output ``at``, as PyTorch rounds it where that matters."""
    if not _rounds(own, new, factor):
        # a symbolic extent that is rounded down does not tell its factor, which is a power of two
        exact = Fraction(factor) if _symbolic((own, new)) else Fraction(new, own)
        return at * exact.denominator // exact.numerator
    step = _step(own, new, factor)
    place = cast(at, "float32") * (const(step, "float32") if isinstance(step, float) else step)
    return call_of("min", cast(call_of("floor", place), "int64"), own - 1)


def _step(own: Any, new: Any, factor: Any) -> Any:
    """Return the step between pixels, a number or an expression of float32."""
    if factor is not None:
        return float(np.float32(1 / factor))
    if _symbolic((own, new)):
        return cast(own, "float32") / cast(new, "float32")
    return float(np.float32(own) / np.float32(new))


def nearest_exact(
    call: Call,
    input: Tensor,  # noqa: A002
    output_size: Any,
    scale_factors: Any,
) -> Tensor:
    return _resize(
        call, input, output_size, scale_factors, "nearest_neighbor", "tf_half_pixel_for_nn", "floor"
    )


def linear(
    call: Call,
    input: Tensor,  # noqa: A002
    output_size: Any,
    align_corners: bool,
    scale_factors: Any,
) -> Tensor:
    mode = "align_corners" if align_corners else "half_pixel"
    return _resize(call, input, output_size, scale_factors, "linear", mode)


def cubic(
    call: Call,
    input: Tensor,  # noqa: A002
    output_size: Any,
    align_corners: bool,
    scale_factors: Any,
) -> Tensor:
    mode = "align_corners" if align_corners else "half_pixel"
    return _resize(call, input, output_size, scale_factors, "cubic", mode)


def pixel_shuffle(call: Call, x: Tensor, upscale_factor: int) -> Tensor:
    return topi.nn.depth_to_space(x, upscale_factor, mode="CRD")


def grid_sampler(
    call: Call,
    x: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Tensor:
    """Short floats are placed and weighted in float32."""
    places = of_dtype(grid, wide_dtype(grid.dtype))
    mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
    return grid_sample(x, places, mode, padding, align_corners)


OPERATORS: dict[str, Operator] = {
    **{f"max_pool{n}d.default": _max(n, False) for n in POOLS},
    **{f"max_pool{n}d_with_indices.default": _max(n, True) for n in POOLS},
    **{f"avg_pool{n}d.default": _mean(n) for n in POOLS},
    **{f"adaptive_avg_pool{n}d.default": _adaptive(n, "avg") for n in POOLS},
    **{f"_adaptive_avg_pool{n}d.default": _adaptive(n, "avg") for n in POOLS},
    **{f"adaptive_max_pool{n}d.default": _adaptive(n, "max") for n in POOLS},
    **{f"upsample_nearest{n}d.vec": nearest for n in POOLS},
    **{f"_upsample_nearest_exact{n}d.vec": nearest_exact for n in POOLS},
    "upsample_linear1d.vec": linear,
    "upsample_bilinear2d.vec": linear,
    "upsample_trilinear3d.vec": linear,
    "upsample_bicubic2d.vec": cubic,
    "pixel_shuffle.default": pixel_shuffle,
    **dict.fromkeys(("grid_sampler_2d.default", "grid_sampler_3d.default"), grid_sampler),
}
