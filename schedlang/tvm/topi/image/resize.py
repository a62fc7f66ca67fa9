"""Images of another size, by their nearest pixels or by linear or cubic interpolation.

Coordinates are quotients of integers, so that the nearest pixel and the weights are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from schedlang.arrays.shapes import extent
from schedlang.compute.math import if_then_else
from schedlang.compute.tensor import Extent, Tensor, check_extent
from schedlang.errors import ComputeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Axis, Const, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, cast, const
from schedlang.signatures import public
from schedlang.tvm.tir import te_dtype
from schedlang.tvm.topi.checks import MEANINGS, check_choice, check_numbers, dims_of
from schedlang.tvm.topi.stages import compute

METHODS = ("nearest_neighbor", "linear", "cubic")
TRANSFORMS = (
    "half_pixel",
    "align_corners",
    "asymmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "half_pixel_symmetric",
)
ROUNDINGS = ("", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
AXES = {"N": "n", "C": "c", "D": "z", "H": "y", "W": "x"}


@dataclass(frozen=True)
class Sampling:
    """The coordinate ``(out*step + start) / unit`` of each output along a dimension of ``size``.

    All may be symbolic, and ``unit`` is at least 1. If ``most`` is given, coordinates are at most
    ``most / unit``.
    """

    size: Extent
    step: Extent
    start: Extent
    unit: Extent
    most: Extent | None = None

    def numerator(self, out: Axis) -> Expr:
        place = out * self.step + self.start
        return place if self.most is None else call("min", place, self.most)

    def below(self, out: Axis) -> Expr:
        """Return the pixel at or before the coordinate, which may be before the first one."""
        return self.numerator(out) // self.unit

    def fraction(self, out: Axis, dtype: str) -> Expr:
        """Return how far the coordinate is from that pixel to the next."""
        part = cast(self.numerator(out) % self.unit, dtype)
        if isinstance(self.unit, int):
            return part * const(1 / self.unit, dtype)
        return part / cast(self.unit, dtype)

    def nearest(self, out: Axis, rounding: str) -> Expr:
        """Return the pixel to which the coordinate is rounded."""
        place, unit = self.numerator(out), self.unit
        if rounding == "floor":
            pixel = place // unit
        elif rounding == "ceil":
            pixel = (place + (unit - 1)) // unit
        elif rounding == "round_prefer_floor":
            pixel = (place * 2 + (unit - 1)) // (2 * unit)
        else:
            # coordinates are -1/2 or more, so that ties away from 0 go up or out of the image
            pixel = (place * 2 + unit) // (2 * unit)
        return self.clamped(pixel)

    def clamped(self, pixel: Expr) -> Expr:
        return call("max", call("min", pixel, self.size - 1), 0)


@public
def resize1d(
    data: Any,
    roi: Any,
    size: Any,
    layout: str = "NCW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
    output_shape: Any = None,
    scales: Sequence[Any] | None = None,
) -> Tensor:
    """Return ``data`` with its width resized to ``size``; see :func:`resize2d`.

    >>> import schedlang as sl
    >>> resize1d(sl.placeholder((1, 3, 10), name="A"), None, 15)
    Tensor(resize1d: float32[1, 3, 15])
    """
    return _resize(
        "resize1d",
        "W",
        data,
        roi,
        size,
        layout,
        method,
        coordinate_transformation_mode,
        rounding_method,
        bicubic_alpha,
        bicubic_exclude,
        out_dtype,
        scales,
    )


@public
def resize2d(
    data: Any,
    roi: Any,
    size: Any,
    layout: str = "NCHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
    output_shape: Any = None,
    scales: Sequence[Any] | None = None,
) -> Tensor:
    """Return ``data`` with height and width resized to ``size``, an extent or two.

    Extents may be symbolic. ``method`` is ``"nearest_neighbor"``, ``"linear"`` or ``"cubic"``.
    Output x of ``out`` samples the input of extent ``n`` at the coordinate, by
    ``coordinate_transformation_mode``:

    - ``"half_pixel"``: ``(x + 1/2) * n / out - 1/2``
    - ``"pytorch_half_pixel"``: the same, and 0 for an output of extent 1
    - ``"tf_half_pixel_for_nn"``: ``(x + 1/2) * n / out``
    - ``"asymmetric"``: ``x * n / out``
    - ``"align_corners"``: ``x * (n - 1) / (out - 1)``
    - ``"half_pixel_symmetric"``: as ``"half_pixel"``, moved so that the middles are the same

    ``rounding_method`` says which pixel is the nearest: ``"round"``, ``"round_prefer_floor"``,
    ``"round_prefer_ceil"``, ``"floor"`` or ``"ceil"``; by default ``"round"`` with aligned corners,
    else ``"floor"``. Pixels outside have the values at the edge. Cubic weights have the parameter
    ``bicubic_alpha`` (Keys, 1981); with ``bicubic_exclude`` the weights of pixels outside are 0 and
    the others sum to 1. ``layout`` has ``H`` and ``W``, such as ``"NHWC"`` or ``"NCHW16c"``.

    Interpolation is in float32, or float64 for float64, along one dimension after the other, in a
    stage each. The result is cast to ``out_dtype``, by default the dtype of ``data``. ``roi``, for
    ``"tf_crop_and_resize"``, is refused; ``extrapolation_value`` and ``output_shape`` have no
    effect. ``scales`` has a number, or a :class:`~fractions.Fraction`, for each dimension: with
    these, ``out`` above is ``n * scale``, which need not be an integer, as in ONNX's Resize;
    ``None`` stands for the quotient of the extents.

    >>> import schedlang as sl
    >>> A = sl.placeholder((1, 3, 10, 12), name="A")
    >>> resize2d(A, None, (15, 20), method="nearest_neighbor")
    Tensor(resize2d: float32[1, 3, 15, 20])
    """
    return _resize(
        "resize2d",
        "HW",
        data,
        roi,
        size,
        layout,
        method,
        coordinate_transformation_mode,
        rounding_method,
        bicubic_alpha,
        bicubic_exclude,
        out_dtype,
        scales,
    )


@public
def resize3d(
    data: Any,
    roi: Any,
    size: Any,
    layout: str = "NCDHW",
    method: str = "linear",
    coordinate_transformation_mode: str = "half_pixel",
    rounding_method: str = "",
    bicubic_alpha: float = -0.5,
    bicubic_exclude: int = 0,
    extrapolation_value: float = 0.0,
    out_dtype: Any = None,
    output_shape: Any = None,
    scales: Sequence[Any] | None = None,
) -> Tensor:
    """Return ``data`` with depth, height and width resized to ``size``; see :func:`resize2d`.

    >>> import schedlang as sl
    >>> resize3d(sl.placeholder((1, 3, 4, 5, 6), name="A"), None, (8, 5, 3))
    Tensor(resize3d: float32[1, 3, 8, 5, 3])
    """
    return _resize(
        "resize3d",
        "DHW",
        data,
        roi,
        size,
        layout,
        method,
        coordinate_transformation_mode,
        rounding_method,
        bicubic_alpha,
        bicubic_exclude,
        out_dtype,
        scales,
    )


def _resize(
    name: str,
    letters: str,
    data: Any,
    roi: Any,
    size: Any,
    layout: str,
    method: str,
    mode: str,
    rounding: str,
    alpha: float,
    exclude: Any,
    out_dtype: Any,
    scales: Any,
) -> Tensor:
    asked = f"topi.image.{name}"
    dims = dims_of(asked, data, layout, letters)
    check_choice(asked, method, "method", METHODS)
    if mode == "tf_crop_and_resize":
        raise ComputeError(
            explain(
                f"{asked} with coordinate_transformation_mode={mode!r}",
                "a part that is known when the kernel is called is not supported",
                "Cut the part first: topi.strided_slice.",
            )
        )
    check_choice(asked, mode, "coordinate_transformation_mode", TRANSFORMS)
    check_choice(asked, rounding, "rounding_method", ROUNDINGS)
    target = dict(zip(letters, _new_extents(asked, size, len(letters))))
    own = dict(zip(dims, data.shape))
    factors = _factors(asked, scales, len(letters))
    along = {
        c: _sampling(asked, f"the {MEANINGS[c]} of {data.name}", own[c], target[c], mode, factor)
        for c, factor in zip(letters, factors)
    }
    kind = data.dtype if out_dtype is None else te_dtype(out_dtype)
    names = [AXES.get(c, "b") for c in dims]
    shape = tuple(target.get(c, own[c]) for c in dims)
    if method == "nearest_neighbor":
        way = rounding or ("round" if mode == "align_corners" else "floor")

        def pixel(*axes: Axis) -> Expr:
            at = dict(zip(dims, axes))
            read = [along[c].nearest(at[c], way) if c in along else at[c] for c in dims]
            return cast(data[tuple(read)], kind)

        return compute(name, shape, pixel, names)
    wide = "float64" if data.dtype == "float64" else "float32"
    if dtypes.is_complex(data.dtype):
        raise ComputeError(f"{asked} of {data.name}: it takes no complex numbers")
    source: Tensor = data
    for c in letters:
        last = c == letters[-1]
        step = _interpolated(source, dims, c, along[c], method, alpha, bool(exclude), wide)
        now = dict(zip(dims, source.shape)) | {c: target[c]}
        source = compute(
            name if last else f"{name}_{MEANINGS[c]}",
            tuple(now[d] for d in dims),
            lambda *i, value=step, end=last: cast(value(*i), kind) if end else value(*i),
            names,
        )
    return source


def _new_extents(asked: str, size: Any, count: int) -> list[Extent]:
    """Return the new extents of ``count`` dimensions: numbers of 1 or more, or sizes."""
    items = list(size) if isinstance(size, (list, tuple)) else [size] * count
    symbolic = {
        k: extent(as_expr(check_extent(item, f"{asked}: size")))
        for k, item in enumerate(items)
        if isinstance(item, Expr) and not isinstance(item, Const)
    }
    given = [1 if k in symbolic else item for k, item in enumerate(items)] if symbolic else size
    numbers = check_numbers(asked, given, "size", (count,), 1)
    return [symbolic.get(k, number) for k, number in enumerate(numbers)]


def _factors(asked: str, scales: Any, count: int) -> list[Fraction | None]:
    """Return the factor of each dimension; ``None`` stands for the quotient of its extents."""
    if scales is None:
        return [None] * count
    if not isinstance(scales, (list, tuple)) or len(scales) != count:
        raise ComputeError(f"{asked}: scales={scales} must have {count} numbers")
    try:
        factors = [None if s is None else Fraction(s) for s in scales]
    except (TypeError, ValueError, OverflowError):
        raise ComputeError(f"{asked}: scales={scales} must be made of numbers") from None
    if any(factor is not None and factor <= 0 for factor in factors):
        raise ComputeError(f"{asked}: scales={scales} must be more than 0")
    return factors


def _sampling(
    asked: str, what: str, size: Extent, out: Extent, mode: str, scale: Fraction | None
) -> Sampling:
    if isinstance(size, int) and not size:
        raise ComputeError(f"{asked}: {what} is 0, so there is no pixel to sample")
    # an output is down / up of the input's pixels wide
    up, down = (out, size) if scale is None else (scale.numerator, scale.denominator)
    # the extent of the result before it is rounded down is 1 + beyond / parts
    parts = 1 if scale is None else scale.denominator
    beyond = extent(as_expr(out if scale is None else as_expr(size) * up) - parts)
    if mode == "align_corners":
        if (isinstance(out, int) and out <= 1) or (isinstance(beyond, int) and beyond <= 0):
            return Sampling(size, 0, 0, 1)
        step = extent((as_expr(size) - 1) * parts)
        if isinstance(step, int) and isinstance(beyond, int):
            ratio = Fraction(step, beyond)
            step, beyond = ratio.numerator, ratio.denominator
        return Sampling(size, step, 0, _at_least_1(beyond))
    if mode == "asymmetric":
        return Sampling(size, down, 0, _at_least_1(up))
    most: Extent | None = None
    if mode == "pytorch_half_pixel":
        if isinstance(beyond, int) and beyond <= 0:
            return Sampling(size, 0, 0, 1)
        if not isinstance(beyond, int) and (scale is None or scale < 1):
            # 0 for a result of extent 1, and no less than the last coordinate of a longer one
            steps = 3 * as_expr(size) if scale is None else 2 + down - as_expr(up)
            most = extent(call("max", beyond, 0) * steps)
    start = as_expr(down)
    if mode != "tf_half_pixel_for_nn":
        start = start - up
    if mode == "half_pixel_symmetric" and scale is not None:
        # the middle of the image is the middle of the result
        start = start + as_expr(size) * up % down
    double, unit = (extent(as_expr(value) * 2) for value in (down, up))
    return Sampling(size, double, extent(start), _at_least_1(unit), most)


def _at_least_1(unit: Extent) -> Extent:
    """Return ``unit``, or 1 where it is less: then there is no output, or one at 0."""
    return unit if isinstance(unit, int) else extent(call("max", unit, 1))


def _interpolated(
    source: Tensor,
    dims: list[str],
    c: str,
    sampling: Sampling,
    method: str,
    alpha: float,
    exclude: bool,
    wide: str,
) -> Any:
    """Return the function of an element of ``source``, interpolated along dimension ``c``."""
    at = dims.index(c)

    def read(axes: tuple[Axis, ...], pixel: Expr) -> Expr:
        return cast(source.element((*axes[:at], sampling.clamped(pixel), *axes[at + 1 :])), wide)

    def linear(*axes: Axis) -> Expr:
        first, part = sampling.below(axes[at]), sampling.fraction(axes[at], wide)
        return read(axes, first) * (1 - part) + read(axes, first + 1) * part

    def cubic(*axes: Axis) -> Expr:
        first, part = sampling.below(axes[at]) - 1, sampling.fraction(axes[at], wide)
        weights = _cubic_weights(part, alpha)
        if exclude:
            inside = [(first + k >= 0) & (first + k < sampling.size) for k in range(4)]
            weights = [if_then_else(i, w, as_expr(0.0)) for i, w in zip(inside, weights)]
        terms = [read(axes, first + k) * w for k, w in enumerate(weights)]
        total = terms[0] + terms[1] + terms[2] + terms[3]
        return total / (weights[0] + weights[1] + weights[2] + weights[3]) if exclude else total

    return linear if method == "linear" else cubic


def _cubic_weights(t: Expr, a: float) -> list[Expr]:
    """Return the weights of the pixels at -1, 0, 1 and 2 for a coordinate ``t`` in 0..1."""
    far, near = t + 1, 2 - t
    one, rest = t, 1 - t
    return [
        ((far * a - 5 * a) * far + 8 * a) * far - 4 * a,
        ((one * (a + 2) - (a + 3)) * one) * one + 1,
        ((rest * (a + 2) - (a + 3)) * rest) * rest + 1,
        ((near * a - 5 * a) * near + 8 * a) * near - 4 * a,
    ]
