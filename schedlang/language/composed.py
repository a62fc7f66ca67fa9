"""NumPy's ufuncs that are made of other functions of the language."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from schedlang.errors import ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast, const, select, unary


def _floats(*values: Any) -> list[Expr]:
    """Return ``values`` as floats of the dtype that NumPy computes with them in."""
    exprs = [as_expr(v) for v in values]
    weak = any(v.weak for v in exprs)
    # two tensors are converted one by one, so that int8 and uint8 make float16
    kinds = [(v.dtype if weak else dtypes.float_of(v.dtype, False), v.weak) for v in exprs]
    dtype, still_weak = kinds[0]
    for other in kinds[1:]:
        dtype, still_weak = dtypes.promote(dtype, still_weak, *other)
    dtype = dtypes.float_of(dtype, still_weak)
    return [v if still_weak else cast(v, dtype) for v in exprs]


def _sign(x: Any) -> Expr:
    value = as_expr(x)
    if value.dtype == "bool":
        raise ComputeTypeError(f"np.sign({value}): a bool has no sign; cast it to an integer")
    zero, one = const(0, value.dtype), const(1, value.dtype)
    if value.dtype.startswith("uint"):
        return select(value > zero, one, zero)
    # the last case keeps a NaN
    rest = select(binary("==", value, zero), zero, value)
    return select(value > zero, one, select(value < zero, const(-1, value.dtype), rest))


def _conjugate(z: Any) -> Expr:
    value = as_expr(z)
    return call("conj", cast(value, "int8") if value.dtype == "bool" else value)


def _reciprocal(x: Any) -> Expr:
    value = as_expr(x)
    if not dtypes.is_float(value.dtype) and not dtypes.is_complex(value.dtype):
        raise ComputeTypeError(
            explain(
                f"np.reciprocal of {value.dtype}",
                "NumPy truncates the result, which is 0 for most integers",
                "Write 1 / A, which is a float.",
            )
        )
    return binary("/", 1.0, value)


def _first_number(name: str) -> Callable[..., Expr]:
    """Return ``np.fmax`` or ``np.fmin``, which prefer a number to a NaN."""

    def function(x: Any, y: Any) -> Expr:
        both = call(name, x, y)
        if not dtypes.is_float(both.dtype):
            return both
        a, b = cast(x, both.dtype), cast(y, both.dtype)
        return select(call("isnan", a), b, select(call("isnan", b), a, both))

    return function


def fmod(x: Any, y: Any) -> Expr:
    """Return the remainder with the sign of ``x``, like ``np.fmod`` and C."""
    rest = binary("%", x, y)
    if rest.dtype.startswith("uint"):
        return rest
    if dtypes.is_integer(rest.dtype):
        # the least integer has no magnitude in its dtype, so the rule for floats does not work
        apart = binary("^", binary("<", x, 0), binary("<", rest, 0))
        return select(binary("&", binary("!=", rest, 0), apart), binary("-", rest, y), rest)
    # the derivative by x is 1 at 0, too, where a magnitude has the derivative 0, and a remainder
    # of 0 has the sign of x
    value = as_expr(x) if as_expr(x).weak else cast(x, rest.dtype)
    below = _signbit(value)
    rest = binary("%", select(below, unary("-", value), value), call("abs", y))
    return select(below, unary("-", rest), rest)


def norm_of(total: Expr, order: float = 2.0) -> Expr:
    """Return the norm of elements, given the sum of their magnitudes to the power ``order``.

    Where all elements are 0, the norm has the derivative 0, as in PyTorch.
    """
    root = call("sqrt", total) if order == 2 else binary("**", total, 1.0 / order)
    if order < 0:
        return root
    return select(binary("==", total, 0), const(0.0, root.dtype), root)


def soft_maximum(x: Expr) -> Expr:
    """Return ``log(1 + exp(x))``, in a form that does not overflow; in float16, exp would."""
    # choices in place of max and abs, whose derivatives at 0 are the derivatives of kinks
    above = x > 0
    return select(above, x, 0.0) + call("log1p", call("exp", select(above, -x, x)))


def _hypot(x: Any, y: Any) -> Expr:
    a, b = _floats(x, y)
    # an infinite side is the length, even beside a NaN
    infinite = call("isinf", a) | call("isinf", b)
    wider = {"float16": "float32", "float32": "float64"}.get(a.dtype)
    if wider is not None:
        # squares of the next wider dtype do not overflow
        squares = (binary("*", v, v) for v in (cast(a, wider), cast(b, wider)))
        length = cast(norm_of(binary("+", *squares)), a.dtype)
        return select(infinite, math.inf, length)
    larger = call("abs", a) > call("abs", b)
    high, low = select(larger, a, b), select(larger, b, a)
    ratio = binary("/", low, high)
    length = call("abs", high) * call("sqrt", binary("+", 1.0, ratio * ratio))
    zero = binary("==", a, 0) & binary("==", b, 0)
    return select(infinite, math.inf, select(zero, const(0.0, a.dtype), length))


def _log_of_sum(power: str, unit: float) -> Callable[..., Expr]:
    """Return the logarithm of the sum of two powers, whose base has the logarithm ``unit``."""

    def function(x: Any, y: Any) -> Expr:
        a, b = _floats(x, y)
        # choices in place of max, so that equal operands have the derivatives of the formula
        larger = a > b
        high, low = select(larger, a, b), select(larger, b, a)
        more = call("log1p", call(power, low - high))
        # a quotient, since a product may become one operation with the sum, which 1 - 1 shows
        total = high + (more if unit == 1 else more / unit)
        # equal infinities have no difference
        return select(binary("==", a, b) & call("isinf", a), a, total)

    return function


def _signbit(x: Any) -> Expr:
    (value,) = _floats(x)
    if value.dtype == "float64":
        return call("bits_int64", cast(value, "float64")) < 0
    return call("bits_int32", cast(value, "float32")) < 0


def _copysign(x: Any, y: Any) -> Expr:
    a, b = _floats(x, y)
    size = call("abs", a)
    return select(_signbit(b), -size, size)


def _heaviside(x: Any, y: Any) -> Expr:
    a, b = _floats(x, y)
    return select(a > 0, 1.0, select(a < 0, 0.0, select(binary("==", a, 0), b, a)))


def _scaled(factor: float) -> Callable[[Any], Expr]:
    def function(x: Any) -> Expr:
        (value,) = _floats(x)
        return value * factor

    return function


def _float_power(x: Any, y: Any) -> Expr:
    return binary("**", cast(x, "float64"), cast(y, "float64"))


def _fabs(x: Any) -> Expr:
    return call("abs", *_floats(x))


def _rint(x: Any) -> Expr:
    return call("round", *_floats(x))


COMPOSED: dict[str, Callable[..., Expr]] = {
    "rint": _rint, "conjugate": _conjugate, "positive": as_expr,
    "fabs": _fabs,
    "sign": _sign, "reciprocal": _reciprocal, "fmax": _first_number("max"),
    "fmin": _first_number("min"), "fmod": fmod, "hypot": _hypot,
    "logaddexp": _log_of_sum("exp", 1.0), "logaddexp2": _log_of_sum("exp2", math.log(2)),
    "signbit": _signbit, "copysign": _copysign,
    "heaviside": _heaviside, "deg2rad": _scaled(math.pi / 180), "radians": _scaled(math.pi / 180),
    "rad2deg": _scaled(180 / math.pi), "degrees": _scaled(180 / math.pi),
    "float_power": _float_power,
}  # fmt: skip
