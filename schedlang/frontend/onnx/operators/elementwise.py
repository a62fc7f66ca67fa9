"""Operators on each element: arithmetic, functions, comparisons, logic and conversions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from schedlang import topi
from schedlang.arrays.elementwise import array
from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.frontend.node_stages import cast_to
from schedlang.frontend.onnx.call import Call, Flag, Floats
from schedlang.frontend.onnx.elements import dtype_of
from schedlang.frontend.onnx.operators.table import Function, Table, since
from schedlang.frontend.onnx.values import Known, Value, number
from schedlang.language.calls import call as math
from schedlang.language.construct import binary, const


def check_dtypes(call: Call, *values: Value) -> str:
    """Return the dtype of values that must have one, as ONNX asks."""
    kinds = list(dict.fromkeys(v.dtype for v in values))
    if len(kinds) > 1:
        raise call.refused(
            f"its inputs are {' and '.join(kinds)}, but must have one type",
            "A Cast node converts one of them.",
        )
    return kinds[0]


def _pairs(function: Callable[[Any, Any], Any]) -> Function:
    """Return the function of an operator of two inputs, which broadcast."""

    def operator(call: Call, a: Value, b: Value) -> Any:
        check_dtypes(call, a, b)
        return function(*call.operands(a, b))

    return operator


def _of_bools(function: Callable[[Any, Any], Any]) -> Function:
    def operator(call: Call, a: Value, b: Value) -> Any:
        if check_dtypes(call, a, b) != "bool":
            raise call.refused(f"its inputs are {a.dtype}, but must be bools")
        return function(*call.operands(a, b))

    return operator


def _many(function: Callable[[Any, Any], Any]) -> Function:
    """Return the function of an operator of one input or more, which broadcast."""

    def operator(call: Call, *data_0: Value) -> Any:
        check_dtypes(call, *data_0)
        if len(data_0) == 1:
            return call.tensor(data_0[0])
        first, *rest = call.operands(*data_0)
        for other in rest:
            first = function(first, other)
        return first

    return operator


def _floats(function: Callable[[Tensor], Tensor]) -> Function:
    """Return the function of an operator of one tensor of floats."""

    def operator(call: Call, input: Floats) -> Tensor:  # noqa: A002
        return function(input)

    return operator


def _any(function: Callable[[Tensor], Tensor]) -> Function:
    def operator(call: Call, x: Tensor) -> Tensor:
        return function(x)

    return operator


def mean(call: Call, *data_0: Value) -> Any:
    total = _many(topi.add)(call, *data_0)
    dtype = data_0[0].dtype
    call.check_float(data_0[0])
    return topi.multiply(total, const(1 / len(data_0), dtype)) if len(data_0) > 1 else total


def mod(call: Call, a: Value, b: Value, *, fmod: Flag = 0) -> Any:
    if dtypes.is_float(check_dtypes(call, a, b)) and not fmod and call.version < 28:
        raise call.refused("it is of floats, for which fmod must be 1")
    return (topi.mod if fmod else topi.floor_mod)(*call.operands(a, b))


def power(call: Call, x: Value, y: Value) -> Any:
    """The result has the dtype of ``x``; small known powers are products and roots."""
    exponent = number(y) if isinstance(y, Known) and not y.symbolic else None
    base = call.tensor(x)
    if exponent is not None and y.ndim <= x.ndim:
        value = getattr(exponent, "value", None)
        if value in (2, 3):
            return array("power", lambda v: v * v if value == 2 else v * v * v, base)
        if dtypes.is_float(x.dtype) and value in (0.5, -0.5, -1):
            return {0.5: topi.sqrt, -0.5: topi.rsqrt, -1: _reciprocal}[value](base)
    if dtypes.is_float(x.dtype) and y.dtype != x.dtype:
        y = topi.cast(call.tensor(y), x.dtype)
    result = topi.power(*call.operands(x, y))
    return result if result.dtype == x.dtype else topi.cast(result, x.dtype)


def _reciprocal(x: Tensor) -> Tensor:
    return array("reciprocal", lambda v: binary("/", const(1.0, v.dtype), v), x)


def _row(name: str) -> Callable[[Tensor], Tensor]:
    """Return a function of the language on tensors; ``round`` rounds ties to even."""
    return lambda x: array(name, lambda v: math(name, v), x)


def isinf(call: Call, x: Floats, *, detect_negative: Flag = 1, detect_positive: Flag = 1) -> Tensor:
    def value(v: Any) -> Any:
        infinite = math("isinf", v)
        if not detect_negative:
            infinite = infinite & (v > 0)
        return infinite if detect_positive else infinite & (v < 0)

    return array("isinf", value, x)


def bit_shift(call: Call, x: Value, y: Value, *, direction: Literal["LEFT", "RIGHT"]) -> Any:
    check_dtypes(call, x, y)
    return (topi.left_shift if direction == "LEFT" else topi.right_shift)(*call.operands(x, y))


def cast(
    call: Call,
    input: Tensor,  # noqa: A002
    *,
    to: int,
    saturate: Flag = 1,
    round_mode: Literal["up", "down", "nearest"] = "up",
) -> Tensor:
    """``saturate`` and ``round_mode`` are for types of 8 bits, which have no dtype here."""
    return cast_to(input, dtype_of(to, f"{call.node}: its attribute 'to'"))


def cast_like(
    call: Call,
    input: Tensor,  # noqa: A002
    target_type: Value,
    *,
    saturate: Flag = 1,
    round_mode: Literal["up", "down", "nearest"] = "up",
) -> Tensor:
    return cast_to(input, target_type.dtype)


def identity(call: Call, input: Value) -> Value:  # noqa: A002
    return input


OPERATORS: Table = {
    "Add": since(_pairs(topi.add), 7, 13, 14),
    "Sub": since(_pairs(topi.subtract), 7, 13, 14),
    "Mul": since(_pairs(topi.multiply), 7, 13, 14),
    "Div": since(_pairs(topi.divide), 7, 13, 14),
    "Mod": since(mod, 10, 13, 28),
    "Pow": since(power, 7, 12, 13, 15),
    "Max": since(_many(topi.maximum), 6, 8, 12, 13),
    "Min": since(_many(topi.minimum), 6, 8, 12, 13),
    "Sum": since(_many(topi.add), 6, 8, 13),
    "Mean": since(mean, 6, 8, 13),
    "Equal": since(_pairs(topi.equal), 7, 11, 13, 19),
    "Less": since(_pairs(topi.less), 7, 9, 13),
    "LessOrEqual": since(_pairs(topi.less_equal), 12, 16),
    "Greater": since(_pairs(topi.greater), 7, 9, 13),
    "GreaterOrEqual": since(_pairs(topi.greater_equal), 12, 16),
    "And": since(_of_bools(topi.logical_and), 7),
    "Or": since(_of_bools(topi.logical_or), 7),
    "Xor": since(_of_bools(topi.logical_xor), 7),
    "Not": since(_any(topi.logical_not), 1),
    "BitShift": since(bit_shift, 11, 28),
    "BitwiseAnd": since(_pairs(topi.bitwise_and), 18),
    "BitwiseOr": since(_pairs(topi.bitwise_or), 18),
    "BitwiseXor": since(_pairs(topi.bitwise_xor), 18),
    "BitwiseNot": since(_any(topi.bitwise_not), 18),
    "Abs": since(_any(topi.abs), 6, 13),
    "Neg": since(_any(topi.negative), 6, 13),
    "Sign": since(_any(topi.sign), 9, 13),
    "Floor": since(_floats(topi.floor), 6, 13),
    "Ceil": since(_floats(topi.ceil), 6, 13),
    "Round": since(_floats(_row("round")), 11, 22),
    "Reciprocal": since(_floats(_reciprocal), 6, 13),
    "Sqrt": since(_floats(topi.sqrt), 6, 13),
    "Exp": since(_floats(topi.exp), 6, 13),
    "Log": since(_floats(topi.log), 6, 13),
    "Sin": since(_floats(topi.sin), 7, 22),
    "Cos": since(_floats(topi.cos), 7, 22),
    "Tan": since(_floats(topi.tan), 7, 22),
    "Asin": since(_floats(topi.asin), 7, 22),
    "Acos": since(_floats(topi.acos), 7, 22),
    "Atan": since(_floats(topi.atan), 7, 22),
    "Sinh": since(_floats(topi.sinh), 9, 22),
    "Cosh": since(_floats(topi.cosh), 9, 22),
    "Asinh": since(_floats(_row("asinh")), 9, 22),
    "Acosh": since(_floats(_row("acosh")), 9, 22),
    "Atanh": since(_floats(_row("atanh")), 9, 22),
    "Erf": since(_floats(topi.erf), 9, 13),
    "IsNaN": since(_floats(topi.isnan), 9, 13, 20),
    "IsInf": since(isinf, 10, 20),
    "Cast": since(cast, 6, 9, 13, 19, 21, 23, 24, 25, 28),
    "CastLike": since(cast_like, 15, 19, 21, 23, 24, 25),
    "Identity": since(identity, 1, 13, 14, 16, 19, 21, 23, 24, 25),
}
