"""Math functions in NumPy, computed in float64 and rounded."""

# the compiled function of the same name has the docstring

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schedlang.expr import special_values
from schedlang.expr.functions import FUNCTIONS, Function
from schedlang.intrinsics.twins.arithmetic import Value, cast, quiet


def mathematical(function: Function) -> Callable[..., Value]:
    """Return a function of floats, computed in float64 and rounded to the dtype of its operands."""

    @quiet
    def twin(*operands: Value) -> Value:
        value = function.of_numpy(*map(np.float64, operands))
        return cast(value, np.result_type(*operands))

    return twin


globals().update(
    {f.called: mathematical(f) for f in FUNCTIONS.values() if f.library or f.own_cpu}
)


@quiet
def power(x: Value, y: Value) -> Value:
    dtype = np.result_type(x, y)
    if dtype.kind != "f":
        return cast(special_values.power(cast(x, dtype), cast(y, dtype)), dtype)
    return cast(special_values.float_power(np.float64(x), np.float64(y)), dtype)
