"""Integers that stand for floats, by a scale and a zero point: the stages of all importers.

``networks/integers.py`` recognizes them by what they compute.
"""

from __future__ import annotations

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.frontend.node_stages import cast_to
from schedlang.language.calls import call as math
from schedlang.language.construct import binary, cast


def limited(
    rounded: Tensor,
    zero_point: Tensor | int | None,
    dtype: str,
    least: int | None = None,
    most: int | None = None,
) -> Tensor:
    """Return rounded floats plus a zero point, which broadcasts, limited to integers of a dtype.

    They are limited to those from ``least`` to ``most``, if these are given.
    """
    # a sum of 16 bits would not hold each integer of 16 bits
    whole = cast_to(rounded, dtypes.register_dtype(rounded.dtype))
    if zero_point is not None:
        whole = array("shifted", lambda v, z: binary("+", v, cast(z, v.dtype)), whole, zero_point)

    def integer(value: Expr) -> Expr:
        low, high = dtypes.limits(dtype)
        if least is not None and least > low:
            value = math("max", value, least)
        if most is not None and most < high:
            value = math("min", value, most)
        return math(f"saturated_{dtype}", value)

    return array("quantized", integer, whole)


def dequantized(
    x: Tensor, scale: Tensor | float, zero_point: Tensor | int | None, dtype: str
) -> Tensor:
    """Return ``(x - zero_point) * scale``, computed in the dtype of ``scale``, as ``dtype``.

    A number as a scale counts as ``dtype``.
    """
    wide = dtypes.register_dtype(scale.dtype if isinstance(scale, Tensor) else dtype)
    values = cast_to(x, wide)
    if zero_point is not None:
        values = array("shifted", lambda v, z: binary("-", v, cast(z, wide)), values, zero_point)
    if isinstance(scale, Tensor):
        scale = cast_to(scale, wide)
    return cast_to(topi.multiply(values, scale), dtype)


__all__ = ["dequantized", "limited"]
