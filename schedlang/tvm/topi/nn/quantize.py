"""Quantization simulated in floats, whose dtype is an argument of the kernel."""

from __future__ import annotations

from typing import Any

from schedlang.arrays.shapes import axis_number
from schedlang.compute.tensor import Tensor
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr.nodes import Axis, Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, cast, const, select
from schedlang.tvm import tir
from schedlang.tvm.topi.checks import check_same
from schedlang.tvm.topi.rules import floats, operator, tensor
from schedlang.tvm.topi.stages import compute

# the numbers of dtypes, as an argument of a kernel gives them
SQNN_DTYPE_TO_CODE = {"disable": 0, "int8": 1, "uint8": 2, "int32": 3}
_LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 1)}


@operator(data=floats(), output_scale=tensor("channels"), output_zero_point=tensor("channels"))
def simulated_quantize(
    data: Any, out_dtype: Any, output_scale: Any = None, output_zero_point: Any = None,
    axis: int = -1,
) -> Tensor:  # fmt: skip
    """Return ``data`` as if it was quantized, in its own dtype.

    ``out_dtype`` is a number of ``SQNN_DTYPE_TO_CODE``, a scalar argument or a tensor without
    dimensions: 0 leaves the elements alone; otherwise an element is ``round(data / scale) + zero
    point`` within the limits of the dtype. Ties round away from zero. ``output_scale`` and
    ``output_zero_point`` are ``[channels]`` of ``axis``, or ``[1]``.

    >>> import schedlang as sl
    >>> A, s = sl.placeholder((2, 4), name="A"), sl.placeholder((4,), name="s")
    >>> z, code = sl.placeholder((1,), "int32", name="z"), sl.var("code", "int32")
    >>> simulated_quantize(A, code, s, z)
    Tensor(simulated_quantize: float32[2, 4])
    """
    asked = "topi.nn.simulated_quantize"
    code = _code(asked, out_dtype)
    parts = _of_channels(asked, data, axis, output_scale, output_zero_point)

    def element(*at: Axis) -> Expr:
        value, (scale, zero) = data.element(at), parts(at)
        quantized = cast(tir.round(value / scale), data.dtype) + zero
        for kind, (low, high) in _LIMITS.items():
            ends = const(float(low), data.dtype), const(float(high), data.dtype)
            within = call("max", call("min", quantized, ends[1]), ends[0])
            value = select(code.equal(SQNN_DTYPE_TO_CODE[kind]), within, value)
        return value

    return compute("simulated_quantize", data.shape, element)


@operator(data=floats(), input_scale=tensor("channels"), input_zero_point=tensor("channels"))
def simulated_dequantize(
    data: Any, in_dtype: Any, input_scale: Any = None, input_zero_point: Any = None, axis: int = -1
) -> Tensor:
    """Return ``(data - zero point) * scale``, or ``data`` where ``in_dtype`` is 0.

    It takes the arguments of :func:`simulated_quantize`.
    """
    asked = "topi.nn.simulated_dequantize"
    code = _code(asked, in_dtype)
    parts = _of_channels(asked, data, axis, input_scale, input_zero_point)

    def element(*at: Axis) -> Expr:
        value, (scale, zero) = data.element(at), parts(at)
        return select(code.equal(0), value, (value - zero) * scale)

    return compute("simulated_dequantize", data.shape, element)


def _code(asked: str, dtype: Any) -> Expr:
    if isinstance(dtype, Tensor) and not dtype.ndim:
        return dtype.as_scalar()
    if isinstance(dtype, str) or not isinstance(dtype, (int, Expr)):
        raise ComputeTypeError(
            explain(
                f"{asked}: the dtype {dtype!r}",
                "it is the number of a dtype, which a call may choose",
                f"Give one of {SQNN_DTYPE_TO_CODE}, or sl.var('code', 'int32').",
            )
        )
    return as_expr(dtype)


def _of_channels(asked: str, data: Tensor, axis: int, *given: Any) -> Any:
    """Return a function of axes that returns the element of each tensor for their channel."""
    along = axis_number(axis, data.ndim, asked)
    for value, what in zip(given, ("the scale", "the zero point")):
        if value is None:
            raise ComputeError(f"{asked}: give {what}, a tensor of [channels] or [1]")
        if value.shape[0] != 1:
            elements = f"the number of elements of {value.name}"
            check_same(asked, value.shape[0], elements, data.shape[along], "the channels of data")

    def at_channel(at: tuple[Axis, ...]) -> list[Expr]:
        return [cast(t[0] if t.shape[0] == 1 else t[at[along]], data.dtype) for t in given]

    return at_channel


__all__ = ["SQNN_DTYPE_TO_CODE", "simulated_dequantize", "simulated_quantize"]
