"""Operators of modules that ``torchao.quantization.pt2e`` quantized: to integers, and back.

PyTorch multiplies by the reciprocal of a scale, which it computes in the dtype of the scale; one
that is a Python number, or the only element of a tensor, has 64 bits, and is rounded to float32.
"""

from __future__ import annotations

from typing import Any

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.arrays.shapes import axis_number
from schedlang.arrays.shaping import reshape
from schedlang.compute.tensor import Tensor
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.quantized import dequantized, limited
from schedlang.frontend.torch.calls import Call, Operator
from schedlang.frontend.torch.params import dtype_of
from schedlang.language.calls import call as math
from schedlang.language.construct import binary, cast


def quantize_per_tensor(
    call: Call, x: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    inverse = (
        array("inverse", lambda s: cast(1.0 / cast(s, "float64"), "float32"), _number(scale))
        if isinstance(scale, Tensor)
        else 1.0 / scale
    )
    return _quantized(call, x, inverse, _number(zero_point), quant_min, quant_max)


def quantize_per_channel(
    call: Call,
    x: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> Tensor:
    inverse = array("inverse", lambda s: 1.0 / s, _along(call, scales, x, axis))
    zero_points = _along(call, zero_points, x, axis)
    return _quantized(call, x, inverse, zero_points, quant_min, quant_max)


def _quantized(
    call: Call, x: Tensor, inverse: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    floats = cast_to(x, "float32")
    rounded = array("scaled", lambda v, by: math("round", binary("*", v, by)), floats, inverse)
    return limited(rounded, zero_point, call.dtype, quant_min, quant_max)


def dequantize_per_tensor(call: Call, x: Tensor, scale: Any, zero_point: Any) -> Tensor:
    scale = _number(scale)
    if isinstance(scale, Tensor):
        scale = cast_to(scale, "float32")
    return dequantized(x, scale, _number(zero_point), call.dtype)


def dequantize_per_channel(
    call: Call, x: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int
) -> Tensor:
    if zero_points is not None:
        zero_points = _along(call, zero_points, x, axis)
        if x.dtype == "int32":
            # PyTorch subtracts integers; floats would round integers of 32 bits
            x, zero_points = array("shifted", _difference, x, zero_points), None
    return dequantized(x, _along(call, scales, x, axis), zero_points, call.dtype)


def _difference(value: Any, zero_point: Any) -> Any:
    return binary("-", cast(value, "int64"), cast(zero_point, "int64"))


def choose_qparams(
    call: Call, x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: Any
) -> tuple[Tensor, Tensor]:
    """The scale and the zero point with which the integers reach from the least to the largest."""
    low, high = _ends(call, x)
    span = array("span", lambda a, b: binary("-", b, a), low, high)
    scale = _at_least(span, quant_max - quant_min, eps)
    below = array("below", lambda v, s: -math("round", binary("/", v, s)), low, scale)
    zero_point = limited(below, quant_min, _integer(call, dtype), quant_min, quant_max)
    return _results(scale, zero_point)


def choose_qparams_symmetric(
    call: Call, x: Tensor, quant_min: int, quant_max: int, eps: float, dtype: Any
) -> tuple[Tensor, Tensor]:
    """The scale with which the integers reach as far on both sides of the zero point."""
    largest = array("largest", lambda a, b: math("max", -a, b), *_ends(call, x))
    scale = _at_least(largest, (quant_max - quant_min) / 2, eps)
    integer = _integer(call, dtype)
    middle = 128 if integer == "uint8" else 0
    return _results(scale, topi.full((), integer, middle))


def _ends(call: Call, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least and the largest element, and 0 if it is beyond."""
    if x.dtype != "float32":
        raise call.refuse(
            f"its input is {x.dtype}, and scales are chosen for float32",
            "Convert it by .float() before it is quantized.",
        )
    flat = reshape(x, (-1,))
    low = array("low", lambda v: math("min", v, 0.0), topi.min(flat))
    return low, array("high", lambda v: math("max", v, 0.0), topi.max(flat))


def _at_least(span: Tensor, steps: float, eps: float) -> Tensor:
    """Return the scale that divides ``span`` into steps, and ``eps`` for a smaller one."""
    return array("scale", lambda v: math("max", binary("/", v, float(steps)), eps), span)


def _results(scale: Tensor, zero_point: Tensor) -> tuple[Tensor, Tensor]:
    """Return a scale and a zero point in the shape and the dtypes that PyTorch gives them."""
    whole = (cast_to(scale, "float64"), cast_to(zero_point, "int64"))
    return reshape(whole[0], (1,)), reshape(whole[1], (1,))


def _integer(call: Call, dtype: Any) -> str:
    return dtype_of(dtype, f"the dtype of {call.described()}")


def _number(value: Any) -> Any:
    """Return the scale or the zero point of a whole tensor without dimensions; 0 is ``None``."""
    if isinstance(value, Tensor):
        return reshape(value, ())
    return None if isinstance(value, int) and not value else value


def _along(call: Call, values: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return a number for each index of ``axis`` in a shape that broadcasts to the shape of x."""
    axis = axis_number(axis, x.ndim, call.described())
    return reshape(values, tuple(-1 if k == axis else 1 for k in range(x.ndim)))


def convert_element_type(call: Call, x: Tensor) -> Tensor:
    return cast_to(x, call.dtype)


_NAMED: dict[str, Operator] = {
    "quantize_per_tensor.default": quantize_per_tensor,
    "quantize_per_tensor.tensor": quantize_per_tensor,
    "quantize_per_channel.default": quantize_per_channel,
    "dequantize_per_tensor.default": dequantize_per_tensor,
    "dequantize_per_tensor.tensor": dequantize_per_tensor,
    "dequantize_per_channel.default": dequantize_per_channel,
    "choose_qparams.tensor": choose_qparams,
    "choose_qparams_symmetric.tensor": choose_qparams_symmetric,
    "convert_element_type.no_fuse": convert_element_type,
}
OPERATORS = {f"quantized_decomposed.{name}": operator for name, operator in _NAMED.items()}
