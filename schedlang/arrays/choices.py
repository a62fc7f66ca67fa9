"""Elementwise functions of NumPy besides its ufuncs: where, clip, round, isclose and others."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from schedlang.arrays.elementwise import array, elementwise
from schedlang.arrays.operands import operand
from schedlang.arrays.reductions import truth
from schedlang.arrays.shapes import same
from schedlang.arrays.stages import each, read, tensor_of
from schedlang.compute.tensor import Tensor, shape_text
from schedlang.errors import ComputeError, ComputeTypeError, explain
from schedlang.expr import dtypes
from schedlang.expr.nodes import Expr
from schedlang.language.calls import call
from schedlang.language.construct import as_expr, binary, cast, const
from schedlang.language.construct import select as choose

_MISSING = object()
# below this angle, four terms of the series of sin(x) / x have all its digits
_SERIES = 0.03


def where(condition: Any, x: Any = _MISSING, y: Any = _MISSING) -> Any:
    """Return ``np.where``: ``x`` where ``condition`` holds, else ``y``."""
    if x is _MISSING or y is _MISSING:
        raise ComputeTypeError(
            explain(
                "np.where(condition)",
                "the shape of the result would depend on data",
                "Give both values, np.where(condition, x, y), or reduce with where=condition.",
            )
        )
    return elementwise("where", lambda c, a, b: choose(_true(c), a, b), condition, x, y)


def _true(value: Expr) -> Expr:
    return value if value.dtype == "bool" else cast(value, "bool")


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Return ``np.select``: the value of the first condition that holds."""
    if not isinstance(condlist, (list, tuple)) or not isinstance(choicelist, (list, tuple)):
        raise ComputeTypeError("np.select: give a list of conditions and a list of values")
    if len(condlist) != len(choicelist) or not condlist:
        raise ComputeError(
            f"np.select: {len(condlist)} conditions and {len(choicelist)} values; give one value "
            "for each condition"
        )
    for condition in condlist:
        if operand(condition, "np.select").dtype != "bool":
            raise ComputeTypeError("np.select: a condition must be bool; compare it, A != 0")

    def first(*values: Expr) -> Expr:
        half = len(condlist)
        # numbers of Python take the dtype of all others together
        typed = [v.dtype for v in values[half:] if not v.weak]
        kind = reduce(lambda a, b: dtypes.promote(a, False, b, False)[0], typed) if typed else ""
        options = [v if v.weak else cast(v, kind) for v in values[half:]]
        chosen = options[-1]
        for condition, value in reversed(list(zip(values[:half], options))):
            chosen = choose(condition, value, chosen)
        return chosen

    return elementwise("select", first, *condlist, *choicelist, default)


def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    min: Any = None,  # noqa: A002
    max: Any = None,  # noqa: A002
) -> Any:
    """Return ``np.clip``: ``a`` within ``a_min`` and ``a_max``; either bound may be ``None``."""
    if (min is not None and a_min is not None) or (max is not None and a_max is not None):
        raise ComputeTypeError("np.clip: a_min and min are one bound, as are a_max and max")
    low, high = (min if a_min is None else a_min), (max if a_max is None else a_max)
    ends = [v for v in (low, high) if v is not None]

    def within(x: Expr, *bounds: Expr) -> Expr:
        rest = list(bounds)
        if low is not None:
            x = call("max", x, rest.pop(0))
        return call("min", x, rest.pop(0)) if high is not None else x

    return elementwise("clip", within, a, *ends)


def round_(a: Any, decimals: Any = 0) -> Any:
    """Return ``np.round``, to even; of floats, to ``decimals`` digits after the point."""
    if isinstance(decimals, bool) or not hasattr(decimals, "__index__"):
        raise ComputeTypeError(f"np.round: decimals={decimals!r} must be an integer")
    digits = int(decimals)

    def rounded(x: Expr) -> Expr:
        if x.dtype == "bool":
            return cast(x, "float16")
        if dtypes.is_complex(x.dtype):
            # refused by name
            return call("round", x)
        if not dtypes.is_float(x.dtype):
            if digits < 0:
                raise ComputeTypeError(
                    f"np.round({x.dtype}, {digits}): only floats are rounded to tens; write "
                    f"np.round(A.astype('float64'), {digits})"
                )
            return x
        if digits == 0:
            return call("round", x)
        scale = float(10 ** abs(digits))
        if digits > 0:
            return binary("/", call("round", binary("*", x, scale)), scale)
        return binary("*", call("round", binary("/", x, scale)), scale)

    return elementwise("round", rounded, a)


def fix(x: Any) -> Any:
    """Return ``np.fix``: rounded toward zero."""
    return elementwise("fix", lambda v: call("trunc", v), x)


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Return ``np.nan_to_num``: NaN and infinities replaced, by 0 and the largest numbers."""

    def number(v: Expr) -> Expr:
        if dtypes.is_complex(v.dtype):
            raise ComputeTypeError(
                f"np.nan_to_num({v.dtype}): it takes no complex numbers; apply it to A.real and "
                "A.imag"
            )
        if not dtypes.is_float(v.dtype):
            return v
        # the largest bfloat16 has no entry in np.finfo
        most = 2.0**127 * (2 - 2.0**-7) if v.dtype == "bfloat16" else float(np.finfo(v.dtype).max)
        high = most if posinf is None else posinf
        low = -most if neginf is None else neginf
        finite = choose(binary("==", v, math.inf), cast(high, v.dtype), v)
        finite = choose(binary("==", v, -math.inf), cast(low, v.dtype), finite)
        return choose(call("isnan", v), cast(nan, v.dtype), finite)

    return elementwise("nan_to_num", number, x)


def isclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Any:
    """Return ``np.isclose``: whether ``|a - b| <= atol + rtol*|b|``, or both are equal."""

    def close(x: Expr, y: Expr, relative: Expr, absolute: Expr) -> Expr:
        x, y = (
            v if dtypes.is_float(v.dtype) or dtypes.is_complex(v.dtype) else cast(v, "float64")
            for v in (x, y)
        )
        near = binary("<=", call("abs", x - y), absolute + relative * call("abs", y))
        is_close = binary("==", x, y) | (near & call("isfinite", y))
        return is_close | (call("isnan", x) & call("isnan", y)) if equal_nan else is_close

    return elementwise("isclose", close, a, b, rtol, atol)


def allclose(a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8, equal_nan: bool = False) -> Tensor:
    """Return ``np.allclose`` as a 0-d tensor."""
    return truth("all", isclose(a, b, rtol, atol, equal_nan))


def copy(a: Any) -> Tensor:
    """Return ``np.copy``: a stage of its own with the same elements."""
    source = tensor_of(a, "np.copy")
    return each("copy", source.shape, lambda *at: read(source, at))


def real(val: Any) -> Any:
    """Return ``np.real``: the real parts of complex numbers, or the array itself."""
    if not dtypes.is_complex(operand(val, "np.real").dtype):
        return val
    return elementwise("real", lambda z: call("real", z), val)


def imag(val: Any) -> Any:
    """Return ``np.imag``: the imaginary parts, zeros for real numbers."""
    return elementwise("imag", lambda z: call("imag", z), val)


def angle(z: Any, deg: bool = False) -> Any:
    """Return ``np.angle``: the angle of complex numbers, in radians or degrees."""

    def value(v: Expr) -> Expr:
        parts = [call(part, v) for part in ("imag", "real")]
        sides = [p if dtypes.is_float(p.dtype) else cast(p, "float64") for p in parts]
        radians = call("atan2", *sides)
        return binary("*", radians, 180 / math.pi) if deg else radians

    return elementwise("angle", value, z)


def isreal(x: Any) -> Any:
    """Return ``np.isreal``: whether the imaginary part is 0."""
    return elementwise("isreal", lambda v: binary("==", call("imag", v), 0), x)


def iscomplex(x: Any) -> Any:
    """Return ``np.iscomplex``: whether the imaginary part is other than 0."""
    return elementwise("iscomplex", lambda v: binary("!=", call("imag", v), 0), x)


def iscomplexobj(x: Any) -> bool:
    """Return ``np.iscomplexobj``: whether ``x`` has a complex dtype."""
    return dtypes.is_complex(x.dtype if isinstance(x, Tensor) else as_expr(x).dtype)


def isrealobj(x: Any) -> bool:
    """Return ``np.isrealobj``: whether ``x`` has no complex dtype."""
    return not iscomplexobj(x)


def sinc(x: Any) -> Any:
    """Return ``np.sinc``: ``sin(pi*x) / (pi*x)``, and 1 at 0."""

    def value(v: Expr) -> Expr:
        angle = as_expr(v if dtypes.is_float(v.dtype) else cast(v, "float64")) * math.pi
        square = angle * angle
        # the first terms of the series, whose derivatives at 0 are right, too
        near = square < _SERIES * _SERIES
        series = 1.0 - square * (1.0 - square * (1.0 - square / 42.0) / 20.0) / 6.0
        safe = choose(near, 1.0, angle)
        return choose(near, series, binary("/", call("sin", safe), safe))

    return elementwise("sinc", value, x)


def astype(x: Any, dtype: Any, copy: bool = True) -> Tensor:
    """Return ``np.astype``: ``x`` converted to ``dtype``."""
    source, kind = tensor_of(x, "np.astype"), dtypes.canonical(dtype)
    if kind == source.dtype and not copy:
        return source
    return array("astype", lambda v: cast(v, kind), source)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Tensor:
    """Return ``np.array_equal`` as a 0-d tensor; different shapes are false."""
    x, y = (tensor_of(v, "np.array_equal") for v in (a1, a2))
    if x.ndim != y.ndim or not all(map(same, x.shape, y.shape)):
        is_static = all(isinstance(e, int) for e in (*x.shape, *y.shape))
        if not is_static:
            raise ComputeError(
                f"np.array_equal of shapes {shape_text(x.shape)} and {shape_text(y.shape)}: they "
                "are not known to be equal; declare both by the same sizes"
            )
        return each("equal", (), lambda: const(False, "bool"))

    def equal(p: Expr, q: Expr) -> Expr:
        is_equal = binary("==", p, q)
        return is_equal | (binary("!=", p, p) & binary("!=", q, q)) if equal_nan else is_equal

    return truth("all", array("equal", equal, x, y))
