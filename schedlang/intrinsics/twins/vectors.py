"""Vectors from scalars, scalars from vectors, in NumPy: broadcasts, single lanes and reductions."""

# the compiled function of the same name has the docstring

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from schedlang.intrinsics.twins.arithmetic import Array, Value, quiet
from schedlang.intrinsics.twins.memory import check


def broadcast(x: Value, lanes: int) -> Array:
    return np.full(lanes, x)


def iota(lanes: int) -> Array:
    return np.arange(lanes)


def lane(v: Array, i: int) -> Value:
    check("lane", v, i, i)
    return v[i]


def with_lane(v: Array, i: int, x: Value) -> Array:
    check("with_lane", v, i, i)
    w = v.copy()
    w[i] = x
    return w


@quiet
def reduction(fold: Callable[..., Value], v: Array) -> Value:
    """Return the lanes reduced by a function, by halves until one is left, and odd lanes last."""
    odd = []
    while v.size > 1:
        n = v.size // 2
        if v.size % 2:
            odd.append(v[2 * n])
        v = fold(v[:n], v[n : 2 * n])
    result = v[0]
    for x in reversed(odd):
        result = fold(result, x)
    return result


def reduce_add(v: Array) -> Value:
    return reduction(np.add, v)


def reduce_mul(v: Array) -> Value:
    return reduction(np.multiply, v)


def reduce_min(v: Array) -> Value:
    return reduction(np.minimum, v)


def reduce_max(v: Array) -> Value:
    return reduction(np.maximum, v)


def reduce_and(v: Array) -> Value:
    return reduction(np.bitwise_and, v)


def reduce_or(v: Array) -> Value:
    return reduction(np.bitwise_or, v)
