"""Images of another size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import isfinite, prod
from typing import Any, Literal

import numpy as np

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_numbers, extent, same
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.expr import dtypes
from schedlang.frontend import sampling
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.onnx.call import Call, Flag, Floats
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.operators.windows import windows
from schedlang.frontend.onnx.values import Known
from schedlang.frontend.quantized import limited
from schedlang.frontend.resampling import (
    coordinates,
    nearest,
    resampled,
    weighted,
)
from schedlang.frontend.windows import folded
from schedlang.language.calls import call as math
from schedlang.language.construct import as_expr
from schedlang.tvm.topi.stages import wide_dtype

RESIZES = {1: topi.image.resize1d, 2: topi.image.resize2d, 3: topi.image.resize3d}
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_OTHERS = "NCABEFGIJKLMOPQRSTUVXYZ"
_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
          "tf_half_pixel_for_nn", "half_pixel_symmetric", "tf_crop_and_resize")  # fmt: skip
_NAMES_BEFORE: dict[str, Any] = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
# the one factor of an image whose sizes keep their ratio
_POLICIES: dict[str, Any] = {"not_larger": min, "not_smaller": max}
_ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
# factors are quotients of integers up to this, apart from the rounding of float32
_LARGEST = 10_000


def resize(
    call: Call,
    x: Tensor,
    roi: Known | None = None,
    scales: Known | None = None,
    sizes: Known | None = None,
    *,
    antialias: Flag = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: Flag = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: Literal["stretch", "not_larger", "not_smaller"] = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """``roi`` and ``extrapolation_value`` are for ``tf_crop_and_resize``.

    Integers are rounded and limited where weights are cubic or smooth, and truncated elsewhere.
    """
    dims = axis_numbers(None if axes is None else tuple(axes), x.ndim, str(call.node), "axes")
    factors, wanted = _targets(call, x, dims, scales, sizes)
    if sizes is not None and sizes.array.size:
        factors, wanted = _kept(call, x, dims, factors, wanted, keep_aspect_ratio_policy)
    transform = coordinate_transformation_mode
    smooth = bool(antialias) and mode != "nearest"
    crop = transform == "tf_crop_and_resize"
    rounds = dtypes.is_integer(x.dtype) and (smooth or mode == "cubic")
    image = cast_to(x, "float64" if dtypes.itemsize(x.dtype) > 2 else "float32") if rounds else x
    if smooth or crop:
        _check_modes(call, mode, transform, nearest_mode)
        parts = _parts(call, roi, len(dims)) if crop else [(0.0, 1.0)] * len(dims)
        resized = _by_tables(
            call, image, dims, factors, wanted, parts, mode, transform, nearest_mode,
            cubic_coeff_a, bool(exclude_outside), smooth, extrapolation_value,
        )  # fmt: skip
    else:
        resized = _resized(
            call, image, dims, factors, wanted, mode, transform, nearest_mode, cubic_coeff_a,
            exclude_outside,
        )  # fmt: skip
    if not rounds:
        return resized
    return limited(array("rounded", lambda v: math("round", v), resized), None, x.dtype)


def _kept(
    call: Call, x: Tensor, dims: Sequence[int], factors: list[Fraction | None], wanted: list[Any],
    policy: str,
) -> tuple[list[Fraction | None], list[Any]]:  # fmt: skip
    """Return one factor for all dimensions, which keeps the ratio of the sizes."""
    if policy == "stretch":
        return factors, wanted
    own, wanted = [[_number(call, e) for e in by] for by in ([x.shape[k] for k in dims], wanted)]
    if min(own, default=1) < 1:
        raise call.refused("its input has no elements, and so no ratio of its sizes")
    factor = _POLICIES[policy](Fraction(new, size) for new, size in zip(wanted, own))
    return [factor] * len(dims), [int(size * factor + Fraction(1, 2)) for size in own]


def _parts(call: Call, roi: Known | None, count: int) -> list[tuple[float, float]]:
    """Return the part of each dimension that is resized."""
    if roi is None or roi.array.size != 2 * count:
        raise call.refused(f"its roi must have a start and an end for each of {count} dimensions")
    numbers = roi.array.astype("float64").ravel().tolist()
    if not all(map(isfinite, numbers)):
        raise call.refused(f"its roi has the number {next(n for n in numbers if not isfinite(n))}")
    return list(zip(numbers[:count], numbers[count:]))


def _by_tables(
    call: Call, x: Tensor, dims: Sequence[int], factors: Sequence[Fraction | None],
    wanted: Sequence[Any], parts: Sequence[tuple[float, float]], mode: str, transform: str,
    rounding: str, alpha: float, exclude: bool, smooth: bool, beyond: float,
) -> Tensor:  # fmt: skip
    """Return the image resampled along one dimension after the other."""
    crop, result = transform == "tf_crop_and_resize", x
    for k, factor, new, part in zip(dims, factors, wanted, parts):
        if factor is None and same(x.shape[k], new) and part == (0.0, 1.0):
            continue
        size, new = _number(call, x.shape[k]), _number(call, new)
        if size < 1 or new < 1:
            raise call.refused(f"it makes {new} pixels of {size}, and both must be 1 or more")
        scale = new / size if factor is None else float(factor)
        places = coordinates(size, new, scale, transform, part)
        if mode == "nearest":
            sampled = nearest(places, size, rounding, beyond)
        else:
            shrink = min(scale, 1.0) if smooth else 1.0
            sampled = weighted(places, size, mode, alpha, shrink, exclude, beyond)

        def known(what: str, array: np.ndarray, k: int = k) -> Tensor:
            return call.tensor(Known(f"{call.node.name}.{what}{k}", array, array.dtype.name))

        result = resampled(result, k, sampled, crop, known)
    return cast_to(result, x.dtype)


def _number(call: Call, size: Any) -> int:
    if not isinstance(size, int):
        raise call.refused(
            f"it resizes an image of symbolic extent {size} by antialias, a part of the image or a "
            "policy for its ratio, which take numbers",
            "Import the model with a number for this size: shapes={...}.",
        )
    return size


def resize_by_scales(call: Call, x: Tensor, scales: Known, *, mode: str = "nearest") -> Tensor:
    """In opset 10, coordinates are divided by the factors.

    The nearest pixel is the one before, or the one after where the image becomes smaller.
    """
    dims = tuple(range(x.ndim))
    factors, wanted = _targets(call, x, dims, scales, None)
    if mode != "nearest":
        return _resized(call, x, dims, factors, wanted, mode, "asymmetric", "floor", -0.75, 0)
    by = scales.array.ravel().tolist()
    for smaller, rounding in ((True, "ceil"), (False, "floor")):
        some = [k for k in dims if (by[k] < 1) == smaller]
        x = _resized(
            call,
            x,
            some,
            [factors[k] for k in some],
            [wanted[k] for k in some],
            mode,
            "asymmetric",
            rounding,
            -0.75,
            0,
        )
    return x


def upsample(call: Call, x: Tensor, scales: Known, *, mode: str = "nearest") -> Tensor:
    return _upsampled(call, x, scales.array.ravel().tolist(), mode)


def upsample_by_attribute(
    call: Call, x: Tensor, *, scales: list[float], mode: str = "nearest"
) -> Tensor:
    return _upsampled(call, x, scales, mode)


def _upsampled(call: Call, x: Tensor, scales: Sequence[float], mode: str) -> Tensor:
    if min(scales, default=1) < 1:
        raise call.refused(
            f"one of its scales is {min(scales)}, and must be 1 or more",
            "Resize makes images smaller.",
        )
    dims = tuple(range(x.ndim))
    factors, wanted = _scaled(call, x, dims, scales)
    return _resized(call, x, dims, factors, wanted, mode, "asymmetric", "floor", -0.75, 0)


def upsample_ended(call: Call, x: Tensor, scales: Known, *, mode: str = "nearest") -> Tensor:
    raise call.refused("it ended with opset 9", "Use Resize in its place.")


def _targets(
    call: Call, x: Tensor, dims: Sequence[int], scales: Known | None, sizes: Known | None
) -> tuple[list[Fraction | None], list[Any]]:
    """Return the sampling factor of each dimension, and its new extent."""
    if sizes is not None and sizes.array.size:
        if scales is not None and scales.array.size:
            raise call.refused("it has both scales and sizes")
        wanted = call.sizes(sizes, "sizes")
        if len(wanted) != len(dims):
            raise call.refused(f"its sizes are {len(wanted)} numbers for {len(dims)} dimensions")
        return [None] * len(dims), wanted
    if scales is None or not scales.array.size:
        raise call.refused("it has neither scales nor sizes")
    return _scaled(call, x, dims, scales.array.ravel().tolist())


def _scaled(
    call: Call, x: Tensor, dims: Sequence[int], scales: Sequence[float]
) -> tuple[list[Fraction | None], list[Any]]:
    if len(scales) != len(dims):
        raise call.refused(f"its scales are {len(scales)} numbers for {len(dims)} dimensions")
    factors: list[Fraction | None] = []
    wanted: list[Any] = []
    for k, scale in zip(dims, scales):
        if not 0 < scale < 1e6:
            raise call.refused(f"one of its scales is {scale}")
        size, factor = x.shape[k], Fraction(scale).limit_denominator(_LARGEST)
        if factor == 1:
            factors.append(None)
            wanted.append(size)
            continue
        new = extent(as_expr(size) * factor.numerator // factor.denominator)
        # the quotient of the extents where it is the same
        exact = isinstance(size, int) and new == size * factor
        factors.append(None if exact else factor)
        wanted.append(new)
    return factors, wanted


def _resized(
    call: Call,
    x: Tensor,
    dims: Sequence[int],
    factors: Sequence[Fraction | None],
    wanted: Sequence[Any],
    mode: str,
    transform: str,
    rounding: str,
    alpha: float,
    exclude: int,
) -> Tensor:
    _check_modes(call, mode, transform, rounding)
    # letters of the layout are given in the order of dimensions, and axes come in any
    by_dim = sorted(zip(dims, factors, wanted), key=lambda row: row[0])
    changed = {
        k: (factor, new)
        for k, factor, new in by_dim
        if factor is not None or not same(x.shape[k], new)
    }
    if not changed:
        return x
    if len(changed) > 3:
        raise call.refused(f"it resizes {len(changed)} dimensions, and images have 1 to 3")
    letters, others = iter(SPATIAL[len(changed)]), iter(_OTHERS)
    layout = "".join(next(letters) if k in changed else next(others) for k in range(x.ndim))
    resizes = list(changed.values())
    return RESIZES[len(changed)](
        x,
        None,
        [new for _, new in resizes],
        layout,
        _METHODS[mode],
        transform,
        rounding if mode == "nearest" else "",
        alpha,
        exclude,
        scales=[factor for factor, _ in resizes],
    )


def _check_modes(call: Call, mode: str, transform: str, rounding: str) -> None:
    """Raise for modes that have no form here."""
    for value, what, choices in (
        (mode, "mode", tuple(_METHODS)),
        (transform, "coordinate_transformation_mode", _MODES),
        (rounding, "nearest_mode", _ROUNDINGS),
    ):
        if value not in choices:
            raise call.refused(
                f"its attribute {what!r} is {value!r:.40}, which has no form here",
                f"The modes with a form are {', '.join(choices)}.",
            )


def grid_sample(
    call: Call,
    x: Tensor,
    grid: Floats,
    *,
    align_corners: Flag = 0,
    mode: Literal["linear", "nearest", "cubic"] = "linear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
) -> Tensor:
    """Short floats are placed and weighted in float32."""
    count = x.ndim - 2
    fits = grid.ndim == x.ndim and count > 0 and same(grid.shape[-1], count)
    if not fits or (mode == "cubic" and count != 2):
        raise call.refused(
            f"its input has the shape {shape_text(x.shape)} and its grid {shape_text(grid.shape)}, "
            "whose last dimension must have a place in each dimension of an image (two if cubic)"
        )
    if any(same(size, 0) for size in x.shape[2:]):
        raise call.refused(f"its input has no pixels: its shape is {shape_text(x.shape)}")
    places = cast_to(grid, wide_dtype(grid.dtype))
    return sampling.grid_sample(x, places, mode, padding_mode, bool(align_corners))


def grid_sample_of_images(
    call: Call,
    x: Tensor,
    grid: Floats,
    *,
    align_corners: Flag = 0,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
) -> Tensor:
    """Before opset 20, modes had the names of two dimensions."""
    return grid_sample(
        call, x, grid, align_corners=align_corners, mode=_NAMES_BEFORE[mode],
        padding_mode=padding_mode,
    )  # fmt: skip


def col2im(
    call: Call,
    x: Tensor,
    image_shape: Known,
    block_shape: Known,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """The sums of the windows that have a pixel."""
    size = call.sizes(image_shape, "image_shape")
    taps = call.integers(block_shape, "block_shape")
    slid = windows(call, size, taps, strides, dilations, pads, "NOTSET")
    count = len(size)
    blocks = [
        extent((as_expr(n) + slid.pads[k] + slid.pads[count + k] - d * (t - 1) - 1) // s + 1)
        for k, (n, t, s, d) in enumerate(zip(size, slid.kernel, slid.strides, slid.dilations))
    ]
    fits = x.ndim == 3 and same(x.shape[2], extent(prod(map(as_expr, blocks), start=as_expr(1))))
    if not fits or (isinstance(x.shape[1], int) and x.shape[1] % prod(taps)):
        raise call.refused(
            f"its input has the shape {shape_text(x.shape)}: no windows of {shape_text(taps)} in "
            f"an image of {shape_text(size)}"
        )
    return folded(x, size, taps, slid.strides, slid.dilations, slid.pads, blocks)


OPERATORS: Table = {
    "Col2Im": since(col2im, 18),
    "GridSample": {16: grid_sample_of_images, **since(grid_sample, 20, 22)},
    "Resize": {10: resize_by_scales, **since(resize, 11, 13, 18, 19)},
    "Upsample": {7: upsample_by_attribute, 9: upsample, 10: upsample_ended},
}
