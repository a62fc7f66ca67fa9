"""Images scaled by factors."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_choice, check_whole, dims_of
from schedlang.tvm.topi.image.resize import resize2d
from schedlang.tvm.topi.stages import names_of_user

METHODS = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}


@public
def upsampling(
    data: Any,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Any = None,
) -> Tensor:
    """Return ``data`` with height and width times ``scale_h`` and ``scale_w``, rounded.

    ``method`` is ``"nearest_neighbor"``, ``"bilinear"`` or ``"bicubic"``. Corners are aligned, or
    coordinates are asymmetric, as :func:`~schedlang.tvm.topi.image.resize2d` says. ``output_shape``
    is the height and width instead, if it is given.

    >>> import schedlang as sl
    >>> upsampling(sl.placeholder((1, 3, 10, 12), name="A"), 2, 1.5)
    Tensor(resize2d: float32[1, 3, 20, 18])
    """
    asked = "topi.nn.upsampling"
    check_choice(asked, method, "method", tuple(METHODS))
    own = dict(zip(dims_of(asked, data, layout, "HW"), data.shape))
    size = output_shape
    if size is None:
        size = []
        for c, scale in (("H", scale_h), ("W", scale_w)):
            if isinstance(scale, bool) or not isinstance(scale, (int, float)):
                raise ComputeTypeError(f"{asked}: the scale {scale!r} must be a number")
            if not scale > 0:
                raise ComputeError(f"{asked}: the scale {scale} must be more than 0")
            size.append(round(check_whole(asked, own[c], f"dimension {c} of {data.name}") * scale))
    mode = "align_corners" if align_corners else "asymmetric"
    with names_of_user("topi.image.resize2d", asked):
        return resize2d(data, None, tuple(size), layout, METHODS[method], mode)
