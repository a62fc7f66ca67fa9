"""Images of another size by tables of pixels and weights, which are computed at import.

They serve the forms of Resize whose coordinates or weights are not quotients of small integers:
antialiasing, parts of an image, and factors that end between two pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Tensor
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call as math
from schedlang.language.construct import cast, const, select
from schedlang.tvm.topi.stages import compute


@dataclass(frozen=True)
class Sampled:
    """The sums by which one dimension is resampled.

    Output k is the sum of ``weights[k, t]`` times the pixel ``first[k] + t``, or the nearest one
    inside of the image; it is ``beyond`` where ``outside[k]`` says so.
    """

    first: np.ndarray
    weights: np.ndarray
    outside: np.ndarray
    beyond: float


def coordinates(
    size: int, new: int, factor: float, mode: str, part: tuple[float, float]
) -> np.ndarray:
    """Return where each output is in a dimension, in pixels; ``part`` is for tf_crop_and_resize."""
    out = np.arange(new, dtype="float64")
    wide = size * factor
    if mode == "align_corners":
        return out * ((size - 1) / (wide - 1)) if wide != 1 else out * 0
    if mode == "asymmetric":
        return out / factor
    if mode == "tf_crop_and_resize":
        low, high = part
        whole = (high - low) * (size - 1)
        steps = out / (wide - 1) if wide > 1 else out * 0 + 0.5
        return low * (size - 1) + steps * whole
    if mode == "pytorch_half_pixel" and wide <= 1:
        return out * 0 - 0.5
    # the middle of the image is the middle of the result
    shift = (size - new / factor) / 2 if mode == "half_pixel_symmetric" else 0.0
    start = 0.0 if mode == "tf_half_pixel_for_nn" else 0.5
    return shift + (out + 0.5) / factor - start


def nearest(places: np.ndarray, size: int, rounding: str, beyond: float) -> Sampled:
    """Return the pixels nearest to ``places``."""
    if rounding in ("floor", "ceil"):
        rounded = (np.floor if rounding == "floor" else np.ceil)(places)
    elif rounding == "round_prefer_floor":
        rounded = np.ceil(places - 0.5)
    else:
        rounded = np.floor(places + 0.5)
    return _table(places, rounded, np.ones((len(places), 1)), size, beyond, False)


def weighted(
    places: np.ndarray, size: int, method: str, alpha: float, shrink: float, exclude: bool,
    beyond: float,
) -> Sampled:  # fmt: skip
    """Return the pixels around ``places`` with linear or cubic weights.

    ``shrink`` is below 1 for an antialiased image that becomes smaller: then the weights reach as
    many times farther. With ``exclude`` only pixels inside of the image have weights.
    """
    reach = 1 if method == "linear" else 2
    start = int(np.floor(-reach / shrink)) + 1
    taps = np.arange(start, start + 2 - 2 * start)
    base = np.floor(places)
    part = places - base
    # a place on a pixel counts as one after the pixel before it
    whole = part == 0
    part, base = np.where(whole, 1.0, part), np.where(whole, base - 1, base)
    away = np.abs(taps[None, :] - part[:, None]) * shrink
    weights = _triangle(away) if method == "linear" else _cubic(away, alpha)
    weights /= weights.sum(1, keepdims=True)
    return _table(places, base + start, weights, size, beyond, exclude)


def _triangle(away: np.ndarray) -> np.ndarray:
    return np.clip(1 - away, 0, 1)


def _cubic(away: np.ndarray, alpha: float) -> np.ndarray:
    near = ((alpha + 2) * away - (alpha + 3)) * away * away + 1
    far = ((alpha * away - 5 * alpha) * away + 8 * alpha) * away - 4 * alpha
    return np.where(away <= 1, near, np.where(away < 2, far, 0.0))


def _table(
    places: np.ndarray, first: np.ndarray, weights: np.ndarray, size: int, beyond: float,
    exclude: bool,
) -> Sampled:  # fmt: skip
    if exclude:
        pixels = first[:, None] + np.arange(weights.shape[1])
        weights = np.where((pixels < 0) | (pixels >= size), 0.0, weights)
        sums = weights.sum(1, keepdims=True)
        weights = weights / np.where(sums == 0, 1.0, sums)
    outside = (places < 0) | (places > size - 1)
    # a place far outside reads the pixel at the border, and may not fit an int64
    near = np.clip(first, -weights.shape[1], size)
    return Sampled(near.astype("int64"), weights, outside, beyond)


def resampled(
    x: Tensor, along: int, sampled: Sampled, crop: bool, known: Callable[[str, np.ndarray], Tensor]
) -> Tensor:
    """Return ``x`` resampled along a dimension; ``known`` makes a tensor of a table.

    It is computed in float32, or in float64 for float64. With ``crop``, outputs that are outside of
    the image are ``beyond``.
    """
    wide = "float64" if x.dtype == "float64" else "float32"
    count, taps = sampled.weights.shape
    first = known("first", sampled.first)
    alone = taps == 1
    weights = None if alone else known("weights", sampled.weights.astype(wide))
    outside = known("outside", sampled.outside) if crop and sampled.outside.any() else None
    last = x.shape[along] - 1
    t = reduce_axis(taps, "t")

    def pixel(at: tuple[Axis, ...], place: Expr) -> Expr:
        inside = math("max", math("min", place, last), 0)
        return x.element((*at[:along], inside, *at[along + 1 :]))

    def sums(*at: Axis) -> Any:
        place = first[at[along]]
        if weights is None:
            return pixel(at, place)
        value = cast(pixel(at, place + t), wide)
        return total(value * weights[at[along], t], axis=t)

    shape = (*x.shape[:along], count, *x.shape[along + 1 :])
    result = compute("resampled", shape, sums)
    if outside is None:
        return result

    def cropped(*at: Axis) -> Expr:
        beyond = const(sampled.beyond, result.dtype)
        return select(outside[at[along]], beyond, result.element(at))

    return compute("cropped", shape, cropped)
