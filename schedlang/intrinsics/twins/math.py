"""The functions of the language in NumPy."""

# the compiled function of the same name has the docstring

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schedlang.expr import special_values
from schedlang.expr.functions import INTRINSICS, Function
from schedlang.intrinsics.twins.arithmetic import Value, cast, quiet


def twin(row: Function) -> Callable[..., Value]:
    """Return the twin of a function: of C's library in float64, rounded, others in their dtype."""

    @quiet
    def in_float64(*operands: Value) -> Value:
        return cast(row.of_numpy(*map(np.float64, operands)), np.result_type(*operands))

    @quiet
    def whole(x: Value) -> Value:
        return row.of_numpy(x) if np.asarray(x).dtype.kind == "f" else x

    if row.library or row.own_cpu:
        return in_float64
    return whole if row.rule == "whole" else quiet(row.of_numpy)


globals().update({name: twin(row) for name, row in INTRINSICS.items()})


# as the compiled function, it rounds twice
@quiet
def rsqrt(x: Value) -> Value:
    return cast(1, x.dtype) / np.sqrt(x)


@quiet
def power(x: Value, y: Value) -> Value:
    dtype = np.result_type(x, y)
    if dtype.kind != "f":
        return cast(special_values.power(cast(x, dtype), cast(y, dtype)), dtype)
    return cast(special_values.float_power(np.float64(x), np.float64(y)), dtype)
