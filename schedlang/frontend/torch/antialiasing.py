"""Antialiased images of another size: sums whose weights reach farther as an image gets smaller."""

from __future__ import annotations

from typing import Any

from schedlang.compute.reduce import reduce_axis
from schedlang.compute.reduce import sum as total
from schedlang.compute.tensor import Tensor
from schedlang.expr.dtypes import is_float
from schedlang.expr.nodes import Axis, Expr
from schedlang.frontend.torch.calls import Call, Operator
from schedlang.frontend.torch.poolings import check_factors
from schedlang.language.calls import call as call_of
from schedlang.language.construct import as_expr, cast, const, select
from schedlang.tvm.topi.stages import compute, wide_dtype

# how many pixels the weights of an image of the same size reach
REACH = {"linear": 1, "cubic": 2}


def _smooth(method: str) -> Operator:
    def operator(
        call: Call,
        input: Tensor,  # noqa: A002
        align_corners: bool,
        scales_h: float | None,
        scales_w: float | None,
    ) -> Tensor:
        if align_corners:
            raise call.refuse(
                "with align_corners=True it samples at other places", "Leave align_corners out."
            )
        if not is_float(input.dtype):
            raise call.refuse(
                f"PyTorch sums {input.dtype} pixels by rounded integer weights",
                "Convert the image with .float(), and round and clamp the result.",
            )
        check_factors(call, input, [scales_h, scales_w])
        if not all(isinstance(extent, int) for extent in input.shape[2:]):
            raise call.refuse(
                "how many pixels it sums depends on a symbolic size",
                "Give the height and the width of the image as numbers.",
            )
        result = input
        # PyTorch, too, goes along the rows first
        for along, new in reversed(list(zip((2, 3), call.shape[2:]))):
            if result.shape[along] != new:
                result = _resampled(result, along, new, method)
        return result

    return operator


def _resampled(x: Tensor, along: int, new: Any, method: str) -> Tensor:
    """Return ``x`` with ``new`` elements along a dimension, summed in float32 or wider."""
    own: Any = x.shape[along]
    wide, reach, longer = wide_dtype(x.dtype), REACH[method], max(own, new)
    shape = (*x.shape[:along], new, *x.shape[along + 1 :])
    # a weight is a function of the distance from a pixel to the place of an output, in pixels of
    # the smaller of the two images; it is exact as a number of halves of pixels of both
    taps = -(-2 * reach * longer // new) + 1

    def first(k: Any) -> Expr:
        return ((2 * k + 1) * own - 2 * reach * longer + new) // (2 * new)

    def weight(k: Axis, t: Axis) -> Expr:
        pixel = first(k) + t
        halves = (2 * pixel + 1) * new - (2 * k + 1) * own
        away = cast(call_of("abs", halves), wide) / const(2 * longer, wide)
        inside = (pixel >= 0) & (pixel < own)
        return select(inside, _weight(away, method), const(0, wide))

    weights = compute("weights", (new, taps), weight)
    s, t = reduce_axis(taps, "s"), reduce_axis(taps, "t")
    sums = compute("weight_sum", (new,), lambda k: total(weights[k, s], axis=s))

    def summed(*at: Axis) -> Any:
        place = call_of("max", call_of("min", first(at[along]) + t, own - 1), 0)
        pixel = x.element((*at[:along], as_expr(place), *at[along + 1 :]))
        return total(cast(pixel, wide) * weights[at[along], t], axis=t)

    product = compute("resampled_sum", shape, summed)
    return compute("resampled", shape, lambda *at: cast(product[at] / sums[at[along]], x.dtype))


def _weight(away: Expr, method: str) -> Expr:
    """Return the weight at a distance; PyTorch's cubic one has the factor -0.5 here."""
    if method == "linear":
        return call_of("max", 1 - away, 0)
    near = (1.5 * away - 2.5) * away * away + 1
    far = ((-0.5 * away + 2.5) * away - 4) * away + 2
    return select(away < 1, near, select(away < 2, far, const(0, away.dtype)))


OPERATORS: dict[str, Operator] = {
    "_upsample_bilinear2d_aa.default": _smooth("linear"),
    "_upsample_bicubic2d_aa.default": _smooth("cubic"),
}
