"""Operators of ATen on each element: functions, arithmetic, comparisons, choices, casts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from schedlang import topi
from schedlang.arrays.choices import nan_to_num as without_nan
from schedlang.arrays.elementwise import array
from schedlang.arrays.shaping import broadcast_to
from schedlang.compute.tensor import Tensor
from schedlang.expr import dtypes
from schedlang.expr.operators import COMPARISON
from schedlang.expr.operators import OPERATORS as ROWS
from schedlang.frontend.torch.calls import Call, Operator, combine, of_dtype
from schedlang.language.calls import call as function_of
from schedlang.language.composed import COMPOSED
from schedlang.tvm.topi.stages import wide_dtype

# functions with the names of topi; integers become floats first
FUNCTIONS = (
    "acos", "asin", "atan", "cos", "cosh", "erf", "exp", "exp2", "expm1", "log", "log10", "log1p",
    "log2", "rsqrt", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
    "abs", "bitwise_not", "ceil", "floor", "isinf", "isnan", "trunc", "logical_not",
)  # fmt: skip
# functions of the language that topi lacks
OF_FLOATS = ("acosh", "asinh", "atanh", "erfc")
KEPT = ("isinf", "isnan", "logical_not")
# ATen has the names of Python's methods
COMPARED = {o.method: o.ufunc for o in ROWS.values() if o.kind == COMPARISON}
ARITHMETIC = {"mul": "multiply", "remainder": "floor_mod", "fmod": "mod", "maximum": "maximum",
              "minimum": "minimum", "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or",
              "bitwise_xor": "bitwise_xor", "__lshift__": "left_shift",
              "__rshift__": "right_shift"}  # fmt: skip
LOGIC = ("logical_and", "logical_or", "logical_xor")


def _function(name: str) -> Operator:
    operator = getattr(topi, name)
    return lambda call, x: operator(x if name in KEPT else of_dtype(x, call.dtype))


def _of_floats(name: str) -> Operator:
    def operator(call: Call, x: Tensor) -> Tensor:
        return array(name, lambda v: function_of(name, v), of_dtype(x, call.dtype))

    return operator


def _arithmetic(name: str) -> Operator:
    def operator(call: Call, x: Any, other: Any) -> Tensor:
        return combine(name, of_dtype(x, call.dtype), of_dtype(other, call.dtype))

    return operator


def _comparison(name: str) -> Operator:
    def operator(call: Call, x: Any, other: Any) -> Tensor:
        return combine(name, of_dtype(x, call.promoted), of_dtype(other, call.promoted))

    return operator


def _logic(name: str) -> Operator:
    return lambda call, x, other: combine(name, x, other)


def neg(call: Call, x: Tensor) -> Tensor:
    return topi.negative(x)


def sign(call: Call, x: Tensor) -> Tensor:
    """The sign of NaN is 0 in PyTorch, and NaN in NumPy."""
    signs = topi.sign(x)
    if not dtypes.is_float(x.dtype):
        return signs
    return topi.where(combine("equal", x, x), signs, of_dtype(0, x.dtype))


def round_(call: Call, x: Tensor) -> Tensor:
    """Ties go to the even integer, unlike in ``topi.round``."""
    return array("round", lambda v: function_of("round", v), x)


def reciprocal(call: Call, x: Tensor) -> Tensor:
    return combine("divide", 1.0, of_dtype(x, call.dtype))


def add(call: Call, x: Any, other: Any, alpha: Any) -> Any:
    return combine("add", of_dtype(x, call.dtype), _times(call, other, alpha))


def sub(call: Call, x: Any, other: Any, alpha: Any) -> Any:
    return combine("subtract", of_dtype(x, call.dtype), _times(call, other, alpha))


def rsub(call: Call, x: Any, other: Any, alpha: Any) -> Any:
    return combine("subtract", of_dtype(other, call.dtype), _times(call, x, alpha))


def _times(call: Call, value: Any, alpha: Any) -> Any:
    value = of_dtype(value, call.dtype)
    return value if alpha == 1 else combine("multiply", value, of_dtype(alpha, call.dtype))


def div(call: Call, x: Any, other: Any) -> Any:
    return combine("divide", of_dtype(x, call.dtype), of_dtype(other, call.dtype))


def div_mode(call: Call, x: Any, other: Any, rounding_mode: Any) -> Any:
    left, right = of_dtype(x, call.dtype), of_dtype(other, call.dtype)
    if rounding_mode == "floor":
        return combine("floor_divide", left, right)
    quotient = combine("divide", left, right)
    if rounding_mode == "trunc" and dtypes.is_float(call.dtype):
        return topi.trunc(quotient)
    return quotient


def pow_(call: Call, x: Any, exponent: Any) -> Any:
    base = of_dtype(x, call.dtype)
    if not isinstance(exponent, Tensor) and isinstance(base, Tensor):
        if exponent == 2:
            return combine("multiply", base, base)
        if exponent == 0.5:
            return topi.sqrt(base)
        if exponent == 1:
            return topi.identity(base)
    return combine("power", base, of_dtype(exponent, call.dtype))


def addcmul(call: Call, x: Tensor, tensor1: Any, tensor2: Any, value: Any) -> Tensor:
    return _added("multiply", call, x, tensor1, tensor2, value)


def addcdiv(call: Call, x: Tensor, tensor1: Any, tensor2: Any, value: Any) -> Tensor:
    return _added("divide", call, x, tensor1, tensor2, value)


def _added(name: str, call: Call, x: Tensor, tensor1: Any, tensor2: Any, value: Any) -> Tensor:
    """The product or quotient of short floats is float32: it may be too large for the sum alone."""
    wide = replace(call, dtypes=(wide_dtype(call.dtype),))
    product = combine(name, *(of_dtype(t, wide.dtype) for t in (tensor1, tensor2)))
    total = combine("add", of_dtype(x, wide.dtype), _times(wide, product, value))
    return of_dtype(total, call.dtype)


def where(call: Call, condition: Tensor, x: Any, other: Any) -> Tensor:
    return topi.where(condition, of_dtype(x, call.dtype), of_dtype(other, call.dtype))


def masked_fill(call: Call, x: Tensor, mask: Tensor, value: Any) -> Tensor:
    return topi.where(mask, of_dtype(value, call.dtype), x)


def clamp(call: Call, x: Tensor, min: Any, max: Any) -> Tensor:  # noqa: A002
    clamped = of_dtype(x, call.dtype)
    low, high = (None if v is None else of_dtype(v, call.dtype) for v in (min, max))
    numbers = [v for v in (low, high) if v is not None and not isinstance(v, Tensor)]
    # a bound that is NaN makes all elements NaN, like the maximum and the minimum
    if len(numbers) == 2 and all(v == v for v in numbers):
        # a lower bound above the upper one gives the upper one
        return topi.clip(clamped, sorted(numbers)[0], high)
    if low is not None:
        clamped = combine("maximum", clamped, low)
    return clamped if high is None else combine("minimum", clamped, high)


def clamp_min(call: Call, x: Tensor, min: Any) -> Tensor:  # noqa: A002
    return clamp(call, x, min, None)


def clamp_max(call: Call, x: Tensor, max: Any) -> Tensor:  # noqa: A002
    return clamp(call, x, None, max)


def nan_to_num(call: Call, x: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    return without_nan(x, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


def to_copy(call: Call, x: Tensor, dtype: Any) -> Tensor:
    return of_dtype(x, call.dtype)


def copy(call: Call, x: Tensor, src: Tensor) -> Tensor:
    """The values of ``src`` in the shape and dtype of ``x``."""
    return of_dtype(broadcast_to(src, x.shape), call.dtype)


def same(call: Call, x: Tensor) -> Tensor:
    """A copy, which tensors do not need, since they are never written to."""
    return x


def dropout(call: Call, x: Tensor, p: float, train: bool) -> Tensor:
    return x


def atan2(call: Call, x: Any, other: Any) -> Tensor:
    values = (of_dtype(v, call.dtype) for v in (x, other))
    return array("atan2", lambda a, b: function_of("atan2", a, b), *values)


def hypot(call: Call, x: Tensor, other: Tensor) -> Tensor:
    values = (of_dtype(v, call.dtype) for v in (x, other))
    return array("hypot", COMPOSED["hypot"], *values)


def _both(name: str, operator: Operator) -> dict[str, Operator]:
    return {f"{name}.Tensor": operator, f"{name}.Scalar": operator, f"{name}.default": operator}


OPERATORS: dict[str, Operator] = {
    **{f"{name}.default": _function(name) for name in FUNCTIONS},
    **{f"{name}.default": _of_floats(name) for name in OF_FLOATS},
    **{k: f for n, t in COMPARED.items() for k, f in _both(n, _comparison(t)).items()},
    **{k: f for n, t in ARITHMETIC.items() for k, f in _both(n, _arithmetic(t)).items()},
    **{f"{name}.default": _logic(name) for name in LOGIC},
    **_both("add", add), **_both("sub", sub), **_both("rsub", rsub), **_both("div", div),
    "div.Tensor_mode": div_mode, "div.Scalar_mode": div_mode,
    "pow.Tensor_Scalar": pow_, "pow.Tensor_Tensor": pow_, "pow.Scalar": pow_,
    "neg.default": neg, "sign.default": sign, "round.default": round_,
    "reciprocal.default": reciprocal,
    "addcmul.default": addcmul, "addcdiv.default": addcdiv, "atan2.default": atan2,
    "hypot.default": hypot,
    "where.self": where, "where.ScalarSelf": where, "where.ScalarOther": where,
    "where.Scalar": where,
    "masked_fill.Scalar": masked_fill, "masked_fill.Tensor": masked_fill,
    "clamp.default": clamp, "clamp.Tensor": clamp, "clamp_min.default": clamp_min,
    "clamp_min.Tensor": clamp_min, "clamp_max.default": clamp_max, "clamp_max.Tensor": clamp_max,
    "nan_to_num.default": nan_to_num, "_to_copy.default": to_copy, "copy.default": copy,
    "clone.default": same, "alias.default": same, "detach.default": same,
    "contiguous.default": same, "lift_fresh_copy.default": same, "lift.default": same,
    "dropout.default": dropout, "dropout_.default": dropout, "to.dtype": to_copy,
}  # fmt: skip
