"""Images of another size."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from schedlang import topi
from schedlang.arrays.shapes import axis_numbers
from schedlang.compute.tensor import Tensor
from schedlang.frontend.onnx.call import Call
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.onnx.values import Known

RESIZES = {1: topi.image.resize1d, 2: topi.image.resize2d, 3: topi.image.resize3d}
SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_OTHERS = "NCABEFGIJKLMOPQRSTUVXYZ"
_METHODS = {"nearest": "nearest_neighbor", "linear": "linear", "cubic": "cubic"}
_MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
          "tf_half_pixel_for_nn", "half_pixel_symmetric")  # fmt: skip
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
    antialias: int = 0,
    axes: list[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """``roi`` and ``extrapolation_value`` are for ``tf_crop_and_resize``, which is refused."""
    if antialias and mode != "nearest":
        raise call.refused("with antialias=1 it has no form here")
    if keep_aspect_ratio_policy != "stretch" and sizes is not None and sizes.array.size:
        raise call.refused(
            f"keep_aspect_ratio_policy={keep_aspect_ratio_policy!r:.40} has no form here",
            "Give the sizes themselves.",
        )
    dims = axis_numbers(None if axes is None else tuple(axes), x.ndim, str(call.node), "axes")
    factors, wanted = _targets(call, x, dims, scales, sizes)
    return _resized(
        call,
        x,
        dims,
        factors,
        wanted,
        mode,
        coordinate_transformation_mode,
        nearest_mode,
        cubic_coeff_a,
        exclude_outside,
    )


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
        wanted = call.integers(sizes, "sizes")
        if len(wanted) != len(dims):
            raise call.refused(f"its sizes are {len(wanted)} numbers for {len(dims)} dimensions")
        return [None] * len(dims), list(wanted)
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
        if not isinstance(size, int):
            raise call.refused(
                f"dimension {k} of symbolic extent {size} is scaled by {scale}",
                "Import the model with a number for this size: shapes={...}.",
            )
        new = int(size * factor)
        # the quotient of the extents where it is the same
        factors.append(None if new == size * factor else factor)
        wanted.append(new)
    return factors, wanted


def _resized(
    call: Call,
    x: Tensor,
    dims: Sequence[int],
    factors: Sequence[Fraction | None],
    wanted: Sequence[Any],
    mode: str,
    coordinates: str,
    rounding: str,
    alpha: float,
    exclude: int,
) -> Tensor:
    for value, what, choices in (
        (mode, "mode", tuple(_METHODS)),
        (coordinates, "coordinate_transformation_mode", _MODES),
        (rounding, "nearest_mode", _ROUNDINGS),
    ):
        if value not in choices:
            raise call.refused(
                f"its attribute {what!r} is {value!r:.40}, which has no form here",
                f"The modes with a form are {', '.join(choices)}.",
            )
    # letters of the layout are given in the order of dimensions, and axes come in any
    by_dim = sorted(zip(dims, factors, wanted), key=lambda row: row[0])
    changed = {
        k: (factor, new)
        for k, factor, new in by_dim
        if factor is not None or not _is(x.shape[k], new)
    }
    if not changed:
        return x
    if len(changed) > 3:
        raise call.refused(f"it resizes {len(changed)} dimensions, and images have 1 to 3")
    if coordinates == "half_pixel_symmetric":
        if any(factor is not None for factor, _ in changed.values()):
            raise call.refused(
                "half_pixel_symmetric with scales whose sizes are not integers has no form here"
            )
        coordinates = "half_pixel"
    letters, others = iter(SPATIAL[len(changed)]), iter(_OTHERS)
    layout = "".join(next(letters) if k in changed else next(others) for k in range(x.ndim))
    resizes = list(changed.values())
    given_scales = None
    if any(factor is not None for factor, _ in resizes):
        # of factors, the extents are numbers
        given_scales = [
            Fraction(new, int(str(x.shape[k]))) if factor is None else factor
            for k, (factor, new) in changed.items()
        ]
    return RESIZES[len(changed)](
        x,
        None,
        [new for _, new in resizes],
        layout,
        _METHODS[mode],
        coordinates,
        rounding if mode == "nearest" else "",
        alpha,
        exclude,
        scales=given_scales,
    )


def _is(extent: Any, new: Any) -> bool:
    return extent is new or (isinstance(extent, int) and isinstance(new, int) and extent == new)


OPERATORS: Table = {
    "Resize": {10: resize_by_scales, **since(resize, 11, 13, 18, 19)},
    "Upsample": {7: upsample_by_attribute, 9: upsample, 10: upsample_ended},
}
