"""Antialiased images of another size: sums whose weights reach farther as an image gets smaller."""

from __future__ import annotations

from schedlang.compute.tensor import Tensor
from schedlang.expr.dtypes import is_float
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.resampling import coordinates, resampled, weighted
from schedlang.frontend.torch.calls import Call, Operator
from schedlang.frontend.torch.poolings import check_factors

# PyTorch's factor of the cubic weights of antialiased images
CUBIC = -0.5


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
        if not all(isinstance(extent, int) for extent in (*input.shape[2:], *call.shape[2:])):
            raise call.refuse(
                "how many pixels it sums depends on a symbolic size",
                "Give the height and the width of the image as numbers.",
            )
        check_factors(call, input, [scales_h, scales_w])
        result = input
        # PyTorch, too, goes along the rows first
        for along, new in reversed(list(zip((2, 3), call.shape[2:]))):
            own = result.shape[along]
            if own != new:
                result = _resampled(call, result, along, int(str(own)), int(str(new)), method)
        return cast_to(result, input.dtype)

    return operator


def _resampled(call: Call, x: Tensor, along: int, own: int, new: int, method: str) -> Tensor:
    factor = new / own
    places = coordinates(own, new, factor, "half_pixel", (0.0, 1.0))
    sampled = weighted(places, own, method, CUBIC, min(factor, 1.0), True, 0.0)
    return resampled(
        x, along, sampled, False, lambda what, array: call.known(f"{what}{along}", array)
    )


OPERATORS: dict[str, Operator] = {
    "_upsample_bilinear2d_aa.default": _smooth("linear"),
    "_upsample_bicubic2d_aa.default": _smooth("cubic"),
}
