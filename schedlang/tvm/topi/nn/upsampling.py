"""Images scaled by factors."""

from __future__ import annotations

from typing import Any

from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError
from schedlang.signatures import public
from schedlang.tvm.topi.checks import check_choice, check_whole, dims_of
from schedlang.tvm.topi.image.resize import resize2d, resize3d
from schedlang.tvm.topi.stages import names_of_user

METHODS_3D = {"nearest_neighbor": "nearest_neighbor", "trilinear": "linear"}
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
        size = _scaled(asked, data, own, {"H": scale_h, "W": scale_w})
    mode = "align_corners" if align_corners else "asymmetric"
    with names_of_user("topi.image.resize2d", asked):
        return resize2d(data, None, tuple(size), layout, METHODS[method], mode)


@public
def upsampling3d(
    data: Any,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Any = None,
) -> Tensor:
    """Return ``data`` with depth, height and width times the scales, rounded.

    ``method`` is ``"nearest_neighbor"`` or ``"trilinear"``; see :func:`upsampling`.

    >>> import schedlang as sl
    >>> upsampling3d(sl.placeholder((1, 3, 4, 5, 6), name="A"), 2, 2, 1.5)
    Tensor(resize3d: float32[1, 3, 8, 10, 9])
    """
    asked = "topi.nn.upsampling3d"
    check_choice(asked, method, "method", tuple(METHODS_3D))
    own = dict(zip(dims_of(asked, data, layout, "DHW"), data.shape))
    size = output_shape
    if size is None:
        size = _scaled(asked, data, own, {"D": scale_d, "H": scale_h, "W": scale_w})
    with names_of_user("topi.image.resize3d", asked):
        return resize3d(
            data, None, tuple(size), layout, METHODS_3D[method], coordinate_transformation_mode
        )


def _scaled(asked: str, data: Tensor, own: dict[str, Any], scales: dict[str, float]) -> list[int]:
    """Return the sizes of dimensions times their scales, rounded."""
    size = []
    for c, scale in scales.items():
        if isinstance(scale, bool) or not isinstance(scale, (int, float)):
            raise ComputeTypeError(f"{asked}: the scale {scale!r} must be a number")
        if not scale > 0:
            raise ComputeError(f"{asked}: the scale {scale} must be more than 0")
        size.append(round(check_whole(asked, own[c], f"dimension {c} of {data.name}") * scale))
    return size
