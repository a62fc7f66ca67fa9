"""Math functions in NumPy, computed in float64 and rounded."""

# the compiled function of the same name has the docstring

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from schedlang.expr import special_values
from schedlang.intrinsics.twins.arithmetic import Value, cast, quiet


def mathematical(f: Callable[..., Any]) -> Callable[..., Value]:
    """Return a function that computes `f` in float64 and rounds to the dtype of its operands."""

    @quiet
    def twin(*operands: Value) -> Value:
        return cast(f(*operands, dtype=np.float64), np.result_type(*operands))

    return twin


exp = mathematical(np.exp)
exp2 = mathematical(np.exp2)
log = mathematical(np.log)
log2 = mathematical(np.log2)
log10 = mathematical(np.log10)
log1p = mathematical(np.log1p)
expm1 = mathematical(np.expm1)
sin = mathematical(np.sin)
cos = mathematical(np.cos)
tan = mathematical(np.tan)
asin = mathematical(np.arcsin)
acos = mathematical(np.arccos)
atan = mathematical(np.arctan)
sinh = mathematical(np.sinh)
cosh = mathematical(np.cosh)
tanh = mathematical(np.tanh)
asinh = mathematical(np.arcsinh)
acosh = mathematical(np.arccosh)
atanh = mathematical(np.arctanh)
atan2 = mathematical(np.arctan2)


@quiet
def sigmoid(x: Value) -> Value:
    return cast(1 / (1 + np.exp(-x, dtype=np.float64)), x.dtype)


@quiet
def erf(x: Value) -> Value:
    return cast(np.asarray(np.frompyfunc(math.erf, 1, 1)(x), np.float64), x.dtype)


@quiet
def power(x: Value, y: Value) -> Value:
    dtype = np.result_type(x, y)
    if dtype.kind != "f":
        return cast(special_values.power(cast(x, dtype), cast(y, dtype)), dtype)
    return cast(special_values.float_power(np.float64(x), np.float64(y)), dtype)
