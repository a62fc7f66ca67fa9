"""Integers that stand for floats, by a scale and a zero point: to them, and back."""

from __future__ import annotations

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number, same
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.expr import dtypes
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.onnx.call import Call, Flag, Floats
from schedlang.frontend.onnx.elements import dtype_of
from schedlang.frontend.onnx.operators.table import Table, since
from schedlang.frontend.quantized import dequantized, limited
from schedlang.language.calls import call as math
from schedlang.language.construct import binary


def quantize(
    call: Call,
    x: Tensor,
    y_scale: Floats,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    saturate: Flag = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
) -> Tensor:
    """Return ``x / y_scale + y_zero_point`` as the nearest integers of the result's dtype.

    The dtype is the dtype of the zero point, or ``output_dtype``, or uint8. ``saturate`` is for
    floats of 8 bits, which have no dtype here.
    """
    dtype = _integer(call, y_zero_point, output_dtype)
    wide = _type(call, precision, "precision") if precision else y_scale.dtype
    if x.dtype != y_scale.dtype and dtypes.is_float(x.dtype) and not precision:
        raise call.refused(f"its input is {x.dtype}, and its scale {y_scale.dtype}")
    scale = _along(call, y_scale, x, axis, block_size)
    divided = array(
        "scaled",
        lambda v, by: math("round", binary("/", v, by)),
        cast_to(x, wide),
        cast_to(scale, wide),
    )
    zero = y_zero_point
    if zero is not None:
        zero = _along(call, zero, x, axis, block_size)
    return limited(divided, zero, dtype)


def dequantize(
    call: Call,
    x: Tensor,
    x_scale: Floats,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """Return ``(x - x_zero_point) * x_scale``, in the dtype of the scale or in ``output_dtype``."""
    if not dtypes.is_integer(x.dtype):
        raise call.refused(f"its input is {x.dtype}, not an integer")
    dtype = _type(call, output_dtype, "output_dtype") if output_dtype else x_scale.dtype
    zero = x_zero_point
    if zero is not None:
        if zero.dtype != x.dtype:
            raise call.refused(f"its input is {x.dtype}, and its zero point {zero.dtype}")
        zero = _along(call, zero, x, axis, block_size)
    return dequantized(x, _along(call, x_scale, x, axis, block_size), zero, dtype)


def _integer(call: Call, zero_point: Tensor | None, output_dtype: int) -> str:
    """Return the dtype of the integers that a node makes."""
    asked = _type(call, output_dtype, "output_dtype") if output_dtype else ""
    dtype = asked or "uint8" if zero_point is None else zero_point.dtype
    if asked not in ("", dtype):
        raise call.refused(f"its output is {asked}, and its zero point {dtype}")
    if not dtypes.is_integer(dtype):
        raise call.refused(f"its output is {dtype}, not an integer")
    return dtype


def _type(call: Call, number: int, attribute: str) -> str:
    return dtype_of(number, f"{call.node}: its attribute {attribute!r}")


def _along(call: Call, values: Tensor, x: Tensor, axis: int, block_size: int) -> Tensor:
    """Return scales or zero points in a shape that broadcasts to the shape of ``x``.

    They are one number, a number for each index of ``axis``, or, with a ``block_size``, one for
    each block of such indices.
    """
    if all(same(extent, 1) for extent in values.shape) and not block_size:
        return reshape(values, ())
    axis = axis_number(axis, x.ndim, str(call.node))
    if not block_size:
        if values.ndim != 1 or not same(values.shape[0], x.shape[axis]):
            raise call.refused(
                f"its scale or zero point of shape {shape_text(values.shape)} has no number for "
                f"each index of dimension {axis} of {shape_text(x.shape)}"
            )
        return reshape(values, tuple(-1 if k == axis else 1 for k in range(x.ndim)))
    # the last block may be short
    blocks = (x.shape[axis] + block_size - 1) // block_size
    expected = (*x.shape[:axis], blocks, *x.shape[axis + 1 :])
    if values.ndim != x.ndim or not all(map(same, values.shape, expected)):
        raise call.refused(
            f"its scale or zero point of shape {shape_text(values.shape)} has no number for each "
            f"block of {block_size} in dimension {axis} of {shape_text(x.shape)}"
        )
    whole = topi.repeat(values, block_size, axis)
    return topi.strided_slice(whole, [0], [x.shape[axis]], axes=[axis])


OPERATORS: Table = {
    "DequantizeLinear": since(dequantize, 10, 13, 19, 21, 23, 24, 25, 28),
    "QuantizeLinear": since(quantize, 10, 13, 19, 21, 23, 24, 25, 28),
}
